"""The Connector that owns a directory: others are refused, and so are directories of Spark's file sink."""

import json
from typing import Final, NamedTuple

from cooperator.connectors.intents.stores import HIDDEN
from cooperator.connectors.options import OptionError, Problem
from cooperator.connectors.places import Place, create, directories, names

_OWNER: Final = "owner.json"
_SPARK_LOG: Final = "_spark_metadata"


class DirectoryOwner(NamedTuple):
    """A Connector: the group of its Worker, and its name."""

    group_id: str
    connector: str

    def __str__(self) -> str:
        return f"Connector {self.connector} of the group {self.group_id}"


def settle_owner(directory: Place, owner: DirectoryOwner, field: str = "path") -> None:
    """Makes ``owner`` the owner of a directory that has none. Concurrent calls have one winner.

    Raises ``OptionError``, naming the option ``field``, if another Connector owns it, or if Spark's file sink
    has written there: its readers would not see plain files, and plain readers would see files it did not
    commit.
    """
    _refuse_spark_log(directory, field)
    place = directory / HIDDEN / _OWNER
    create(place, json.dumps(owner._asdict()).encode())
    found = DirectoryOwner(**json.loads(place.read_text()))
    if found != owner:
        raise OptionError(
            [
                Problem(
                    field,
                    str(directory),
                    f"is the directory of {found}, and no other one writes there",
                    "set another directory for this Connector; or remove or move away that directory while "
                    "the other Connector is stopped",
                )
            ]
        )


def _refuse_spark_log(directory: Place, field: str) -> None:
    """Units of earlier releases had directories of their own below the Connector's."""
    for place in (directory, *(directory / name for name in directories(directory) if name != HIDDEN)):
        if _SPARK_LOG in directories(place) or names(place / _SPARK_LOG):
            raise OptionError(
                [
                    Problem(
                        field,
                        str(directory),
                        f"has files of Spark's file sink ({place}/{_SPARK_LOG}), which tells its readers "
                        "which files are committed",
                        "set another directory: the earlier files stay readable where they are "
                        "(cooperator.connectors.output.read_units); to keep all in one, copy their rows into "
                        "plain files, and remove that directory",
                    )
                ]
            )
