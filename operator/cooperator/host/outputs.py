"""Output directories shared by file sinks of several Connectors: one keeps it, the others do not start.

Pure. A directory has the positions of one Connector, or the log of one of Spark's file sinks, which would
skip the batches of another one. Who reads a directory also reads those inside it.
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from typing import Any, Final

from cooperator.connectors import outputs
from cooperator.connectors.output_paths import LOCAL, above, normal
from cooperator.crd import Connector, Worker

Name = tuple[str, str]
"""(namespace, name) of a Connector."""
Locate = Callable[[str], str]
"""Maps a directory to its canonical name: results are equal only for the same directory."""

_DEFAULT_FS: Final = "spark.hadoop.fs.defaultFS"
ENDPOINT: Final = "spark.hadoop.fs.s3a.endpoint"


@dataclass(frozen=True, slots=True)
class Claim:
    """The directories of a Connector.

    ``outputs``: as written, and located. ``rank``: of two Connectors that share a directory, the one with the
    lower rank keeps it.
    """

    connector: Name
    outputs: tuple[tuple[str, str], ...]
    rank: tuple[Any, ...] = ()


def claim_of(connector: Connector, worker: Worker | None, locate: Locate, rank: tuple[Any, ...]) -> Claim:
    """``worker``: the referenced Worker, if it exists; the classes of stock workers are not known."""
    spec = connector.spec
    is_stock = worker is not None and worker.spec.is_stock
    found = () if is_stock else outputs(spec.class_, {**spec.config, "tasks.max": str(spec.tasks_max)})
    name = (connector.metadata.namespace, connector.metadata.name)
    return Claim(name, tuple((directory, locate(directory)) for directory in found), rank)


def normal_for(worker: Worker | None) -> Locate:
    """Canonical names by which paths without a scheme use the default file system of the Worker's Spark."""
    conf = worker.spec.spark.conf if worker is not None else {}
    default = str(conf.get(_DEFAULT_FS, LOCAL))
    return lambda directory: normal(directory, default)


def withheld(claims: Iterable[Claim]) -> dict[Name, str]:
    """Connectors that must not start, with the reason: who keeps the directory, and the remedy."""
    kept = _Kept()
    refused: dict[Name, str] = {}
    for claim in sorted(claims, key=lambda claim: (claim.rank, claim.connector)):
        message = _first_shared(claim, kept)
        if message:
            refused[claim.connector] = message
            continue
        for written, located in claim.outputs:
            kept.add(_Keeper(claim.connector, written, located))
    return refused


def newly_withheld(before: Iterable[Claim], after: Collection[Claim]) -> dict[Name, str]:
    """Connectors that must not start because of a change from ``before`` to ``after``.

    The change makes them share a directory. Those that have shared one all along are omitted: it must remain
    possible to change them.
    """
    old = {claim.connector: claim.outputs for claim in before}
    changed = {claim.connector: claim.outputs != old.get(claim.connector) for claim in after}
    found = withheld(replace(claim, rank=(changed[claim.connector], *claim.rank)) for claim in after)
    return {name: message for name, message in found.items() if changed[name]}


@dataclass(frozen=True, slots=True)
class _Keeper:
    """The Connector that keeps a directory, as written and located."""

    connector: Name
    written: str
    located: str


class _Kept:
    """The directories that are kept, by where they are."""

    def __init__(self) -> None:
        self._at: dict[str, _Keeper] = {}
        self._inside: dict[str, _Keeper] = {}

    def add(self, keeper: _Keeper) -> None:
        self._at[keeper.located] = keeper
        for directory in above(keeper.located):
            self._inside.setdefault(directory, keeper)

    def keeper_of(self, directory: str) -> _Keeper | None:
        """Returns who keeps the directory, one that it is in, or one inside it."""
        around = (self._at[each] for each in above(directory) if each in self._at)
        return next(around, self._inside.get(directory))


def _first_shared(claim: Claim, kept: _Kept) -> str:
    for written, located in claim.outputs:
        keeper = kept.keeper_of(located)
        if keeper is None:
            continue
        namespace, name = keeper.connector
        here = namespace == claim.connector[0]
        whose = f"Connector {name}" if here else f"Connector {name} of namespace {namespace}"
        if keeper.located == located:
            problem = f"to {written}, as {whose} does"
        else:
            problem = f"to {written}, and {whose} writes to {keeper.written}, one inside the other"
        return (
            f"spec.config: it would write {problem}, and a directory belongs to one Connector: give it "
            f"another directory; or delete {whose}, and remove that directory or move it away"
        )
    return ""
