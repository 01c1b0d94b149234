"""The Connector that owns a directory: others are refused, and so are directories of Spark's file sink."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from cooperator.connectors.options import OptionError, Problem
from cooperator.connectors.output import HIDDEN
from cooperator.connectors.places import Place, create, directories, names

_OWNER: Final = "owner"
"""No name of ours ends as files of data do: a glob such as ``**/*.json`` finds those alone."""
_SPARK_LOG: Final = "_spark_metadata"


class DirectoryOwner(NamedTuple):
    """A Connector: the group of its Worker, and its name."""

    group_id: str
    connector: str

    def __str__(self) -> str:
        return f"Connector {self.connector} of the group {self.group_id}"


def settle_owner(
    directory: Place,
    owner: DirectoryOwner,
    field: str = "path",
    *,
    plain: bool = True,
    reads: Callable[[str], bool] = lambda topic: True,
) -> None:
    """Makes ``owner`` the owner of a directory that has none. Concurrent calls have one winner.

    Raises ``OptionError``, naming the option ``field``, if another Connector owns it, or any one a directory
    that it is in; with ``plain`` also if Spark's file sink has written there: its readers would not see plain
    files, and plain readers would see files it did not commit. The directory of a unit counts if the
    Connector ``reads`` its topic.
    """
    if plain:
        _refuse_spark_log(directory, field, reads)
    _refuse_inside(directory, field)
    create(directory / HIDDEN / _OWNER, json.dumps(owner._asdict()).encode())
    found = owner_of(directory)
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


def _refuse_inside(directory: Place, field: str) -> None:
    """In a store, directories above the place's own root are compared by manifests alone."""
    for above in directory.parents if isinstance(directory, Path) else ():
        try:
            outer = owner_of(above)
        except OSError:
            continue  # Who may not look there does not write there.
        if outer is not None:
            problem = f"is inside {above}, the directory of {outer}, whose readers would find both"
            raise OptionError([Problem(field, str(directory), problem, "set a directory outside of it")])


def owner_of(directory: Place) -> DirectoryOwner | None:
    """Returns the owner of a directory; None: it has none."""
    try:
        return DirectoryOwner(**json.loads((directory / HIDDEN / _OWNER).read_text()))
    except FileNotFoundError:
        return None


def release_owner(directory: Place) -> None:
    """Leaves the directory to any Connector."""
    (directory / HIDDEN / _OWNER).unlink(missing_ok=True)


def _refuse_spark_log(directory: Place, field: str, reads: Callable[[str], bool]) -> None:
    """Units of earlier releases had directories of their own below the Connector's."""
    units = [name for name in directories(directory) if name != HIDDEN and reads(name.rpartition("-")[0])]
    for place in (directory, *(directory / name for name in units)):
        if _SPARK_LOG in directories(place) or names(place / _SPARK_LOG):
            raise OptionError(
                [
                    Problem(
                        field,
                        str(directory),
                        f"has files of Spark's file sink ({place}/{_SPARK_LOG}), which tells its readers "
                        "which files are committed",
                        "set another directory; or, if this Connector of an earlier release wrote them, stop "
                        "it and migrate its offsets (`kubectl cooperator offsets migrate`, `cooperator local "
                        "offsets migrate`), which makes them plain files",
                    )
                ]
            )
