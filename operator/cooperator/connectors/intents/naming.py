"""Names of visible files. Pure.

``TOPIC+PARTITION+OFFSET.TERM-GENERATION-ATTEMPT-BASE-BATCH[-NUMBER].ENDING``, below directories
``COLUMN=VALUE`` where rows are partitioned. ``OFFSET`` is the first that the batch read of the unit, with 20
digits. No topic's name has a plus sign; one that begins as names do that readers pass over (``_``, ``.``) has
one before it. ``BASE`` is that of the session (see ``machine``). ``BATCH`` is chance, so that no name is used
twice, also after offsets were altered.
"""

import hashlib
import posixpath
import re
from typing import Final

from cooperator.connectors.intents.stores import STAGED_ENDING
from cooperator.connectors.microbatch.claims import Claim
from cooperator.connectors.microbatch.ranges import OffsetRange, Partition
from cooperator.connectors.units import PASSED_OVER

_TOPIC_LIMIT: Final = 120
"""File systems allow names of 255 bytes."""
_FOLDER: Final = re.compile(r"range-(\d+)/")
_WRITTEN: Final = re.compile(rf"part-(\d{{5,}})-.*?[.-]c\d{{3,}}(\.[^/]+){re.escape(STAGED_ENDING)}\Z")


def folder_of(number: int) -> str:
    """Returns the name of the folder for the files of the n-th range, where each has one of its own."""
    return f"range-{number}"


def placed(path: str) -> tuple[int, str]:
    """Returns the number of the range that a file is of, and its path without the range's folder.

    Where ranges have no folders, the number is that of the Spark partition that wrote the file. Raises
    ValueError.
    """
    if match := _FOLDER.match(path):
        return int(match[1]), path[match.end() :]
    return int(_parts(path)[0]), path


def visible_name(path: str, cut: OffsetRange, claim: Claim, batch: str, number: int) -> str:
    """Returns where a file that Spark wrote at ``path`` becomes visible. Raises ValueError."""
    _, ending = _parts(path)
    unit = f"{unit_part(cut.partition)}+{cut.start:020}"
    attempt = f"{claim.epoch.term}-{claim.epoch.generation}-{claim.attempt}"
    more = f"-{number}" if number else ""
    return posixpath.join(posixpath.dirname(path), f"{unit}.{attempt}-{batch}{more}{ending}")


def unit_part(partition: Partition) -> str:
    """Returns the part of a name that tells the unit. Long names of topics are cut, and get a digest."""
    topic = partition.topic
    if len(topic) > _TOPIC_LIMIT:
        topic = f"{topic[:_TOPIC_LIMIT]}~{hashlib.sha256(topic.encode()).hexdigest()[:12]}"
    if topic.startswith(PASSED_OVER):
        topic = f"+{topic}"
    return f"{topic}+{partition.number}"


def _parts(path: str) -> tuple[str, str]:
    match = _WRITTEN.match(posixpath.basename(path))
    if match is None:
        raise ValueError(f"{path} is not named as Spark names files: part-NUMBER-JOB-cNUMBER.ENDING.staged")
    return match[1], match[2]
