"""The checkpoint that owns a directory of Spark's file sink: the JVM's settings, and how it refuses others.

The sink skips each batch whose number is in the directory's ``_spark_metadata``, whichever query wrote it. So
rows of a second checkpoint would be lost without an error. The log therefore has a file ``owner`` with the id
of the query, which the first checkpoint creates (in Java: ``OutputOwner``). A checkpoint with another id is
refused when its sink opens. The id is the one that Spark itself keeps in a checkpoint (``metadata``): it is
the same after every restart and move, and changes with a reset.
"""

import json
import re
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING

from cooperator.connectors.exactly_once import WAY_OUT, CheckpointBehind
from cooperator.connectors.offsets.unit_log import query_of, reached
from cooperator.connectors.places import Place, create, uri

if TYPE_CHECKING:
    from cooperator.connectors.base import UnitContext

NEWEST = "cooperator.output.newest"
"""Setting that passes the newest batch begun by this checkpoint."""
_TAKEN = re.compile(r"cooperator: output taken: (\S.*?) has batches of (.+)")
_AHEAD = re.compile(r"cooperator: output ahead: (\S.*?) has batch (\d+)")
_LINES = re.compile(r"[\r\n]+")


class OutputTaken(ValueError):
    """A sink's directory belongs to another checkpoint; the message names both and the remedies."""


def ensure_query(checkpoint: Place, check: Callable[[], None] = lambda: None) -> str:
    """Returns the id of the checkpoint's query, and creates it if there is none.

    Concurrent calls all return the same id. ``check`` is called right before the id is stored, and may raise.
    """
    found = query_of(checkpoint)
    if not found:
        create(checkpoint / "metadata", json.dumps({"id": str(uuid.uuid4())}).encode(), check)
        found = query_of(checkpoint)
    return found


def owner_settings(context: "UnitContext") -> dict[str, str]:
    """Returns settings for a unit's session by which its sinks refuse directories of other checkpoints.

    A directory that was written before owners existed is taken over if this checkpoint wrote its newest batch
    last, committed or begun. One whose newest batch this checkpoint has not begun is refused: an older copy
    of the checkpoint was restored.
    """
    committed, newest = reached(context.checkpoint)
    name = f"Connector {context.task.connector}, unit {context.unit}, of the group {context.group_id}"
    return {
        "cooperator.output.query": ensure_query(context.checkpoint),
        "cooperator.output.owner": _LINES.sub(" ", f"{name} (its checkpoint: {uri(context.checkpoint)})"),
        "cooperator.output.committed": str(committed),
        NEWEST: str(newest),
    }


def output_refused(error: BaseException, context: "UnitContext") -> OutputTaken | CheckpointBehind | None:
    """Returns the JVM's refusal to open a sink if ``error`` contains it, else None."""
    if ahead := _AHEAD.search(str(error)):
        return CheckpointBehind(
            f"unit {context.unit}: {ahead[1]} has batch {ahead[2]} of this checkpoint, which ends with batch "
            f"{reached(context.checkpoint)[1]}: the checkpoint was restored from an older copy, and the "
            f"sink would skip rows."
            f" {WAY_OUT} (or move the directory away before the reset)"
        )
    found = _TAKEN.search(str(error))
    if found is None:
        return None
    directory, owner = found[1], found[2].strip()
    return OutputTaken(
        f"unit {context.unit}: {directory} belongs to another checkpoint and is not written to, since the "
        f"sink would skip rows: it has batches of {owner}; this checkpoint is of Connector "
        f"{context.task.connector} of the group {context.group_id}. Set another directory for this "
        "Connector; or remove or move that directory and restart (if removed, its files are lost); or create "
        "the Connector with the name and Worker whose checkpoint wrote the directory, which it then continues"
    )
