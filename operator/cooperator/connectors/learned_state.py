"""Reads of a checkpoint what a learner needs: the stores that a commit names, and the sizes of their files.

In Spark's state checkpoint format 2, the entry of a finished batch names the version of each store by an id
that no other version has (decision 110). Files of a version are therefore never replaced.
"""

import json
import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from cooperator.connectors.offsets.unit_log import WITH_STATE
from cooperator.connectors.places import Place, directories, sizes
from cooperator.connectors.stateful import STATE

DEFAULT: Final = "default"
"""Spark's name of an operator's only store."""
_OF_JOINS: Final = (
    *("left-keyToNumValues", "left-keyWithIndexToValue"),
    *("right-keyToNumValues", "right-keyWithIndexToValue"),
)
"""The stores of a join, in the order in which a commit names their versions."""
_FAMILIES: Final = "v2"
"""The metadata of operators whose store has column families (transformWithState)."""
_FILE: Final = re.compile(r"([0-9]+)_[^.]+\.(changelog|zip)")


class NotLearnable(ValueError):
    """The state of a query cannot be learned; the text says why, and names the remedy.

    Its task moves all the same: its new owner reads the state from the checkpoint.
    """


class StoreKey(NamedTuple):
    """One store of a query: of an operator with state, and a partition."""

    operator: int
    partition: int
    name: str = DEFAULT


class StoreVersion(NamedTuple):
    """The version of a store that a commit names."""

    version: int
    id: str


def versions_of(checkpoint: Place, batch: int) -> dict[StoreKey, StoreVersion]:
    """Returns the versions of all stores at a finished batch; empty for a query without state.

    Raises ``NotLearnable``, and ``FileNotFoundError`` if the entry has gone meanwhile.
    """
    version, _, content = (checkpoint / "commits" / str(batch)).read_text().partition("\n")
    if version == f"v{WITH_STATE}":
        return versions_in(content, batch)
    if STATE not in directories(checkpoint):
        return {}
    raise NotLearnable(
        f"the state in {checkpoint} is of format 1, whose files may be replaced, and cannot be learned: "
        "create the connector under another name"
    )


def check_operator(checkpoint: Place, operator: int) -> None:
    """Raises ``NotLearnable`` if the stores of the operator have parts that a learner does not know."""
    if _FAMILIES in directories(checkpoint / STATE / str(operator) / "_metadata"):
        raise NotLearnable(
            f"operator {operator} in {checkpoint} has variables (transformWithState), whose state cannot be "
            "learned: its task moves cold"
        )


def versions_in(commit: str, batch: int) -> dict[StoreKey, StoreVersion]:
    """Returns the versions that the JSON of a commit names. Raises ``NotLearnable``."""
    named: Mapping[str, list[list[str]]] = json.loads(commit).get("stateUniqueIds") or {}
    found = {}
    for operator, partitions in named.items():
        for partition, ids in enumerate(partitions):
            names = {1: (DEFAULT,), len(_OF_JOINS): _OF_JOINS}.get(len(ids))
            if names is None:
                raise NotLearnable(
                    f"operator {operator} has {len(ids)} stores, and their state cannot be learned: its task "
                    "moves cold"
                )
            for name, unique in zip(names, ids, strict=True):
                # A batch starts from the version of its own number, and makes the next one.
                found[StoreKey(int(operator), partition, name)] = StoreVersion(batch + 1, unique)
    return found


class StoreFiles(NamedTuple):
    """The sizes of a store's files in its checkpoint, in bytes: changelogs by version, newest snapshot."""

    changelogs: Mapping[int, int]
    snapshot: int
    snapshot_bytes: int

    def behind(self, learned: int | None, version: int) -> int:
        """Returns how many bytes there are to read until ``version``; ``learned`` is None at first."""
        if learned is None:
            since = min(self.snapshot, version)
            return self.snapshot_bytes + self.behind(since, version)
        return sum(size for at, size in self.changelogs.items() if learned < at <= version)


def files_of(checkpoint: Place, key: StoreKey) -> StoreFiles:
    """Returns the sizes of a store's files; those of files that an older snapshot needs count, too."""
    place = checkpoint / STATE / str(key.operator) / str(key.partition)
    if key.name != DEFAULT:
        place = place / key.name
    changelogs: dict[int, int] = {}
    snapshot = zip_bytes = 0
    for name, size in sizes(place).items():
        if (matched := _FILE.fullmatch(name)) is None:
            continue
        version = int(matched[1])
        if matched[2] == "changelog":
            changelogs[version] = max(size, changelogs.get(version, 0))
        elif version >= snapshot:
            snapshot, zip_bytes = version, size
    return StoreFiles(changelogs, snapshot, zip_bytes + sum(sizes(place / "SSTs").values()))
