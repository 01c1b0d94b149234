"""Converts members to the pool's types. Pure."""

from collections.abc import Iterable

from cooperator.local.members import ProcessIncarnation
from cooperator.pool import Mark, MarkReason, Phase, Pod


def pod(process: ProcessIncarnation) -> Pod:
    """Returns an incarnation as a pod. A local pod has only one incarnation, so both have the same name."""
    return Pod(
        identity=process.identity,
        uid=process.incarnation,
        incarnation=process.incarnation,
        phase=_phase(process),
        revision=process.revision,
        started_ms=process.started_ms,
        mark=Mark(MarkReason(process.marked_for), process.marked_ms) if process.marked_for else None,
        terminating_since_ms=process.terminating_ms,
    )


def _phase(process: ProcessIncarnation) -> Phase:
    if process.ended:
        return Phase.ENDED
    if process.terminating_ms is not None:
        return Phase.TERMINATING
    return Phase.PENDING if process.pid is None else Phase.RUNNING


def past_ends(incarnations: Iterable[ProcessIncarnation]) -> frozenset[tuple[str, str]]:
    """Returns (identity, incarnation) of ended incarnations, even from before the pool's first look."""
    ended = {(process.identity, incarnation) for process in incarnations for incarnation in process.past}
    return frozenset(
        ended | {(process.identity, process.incarnation) for process in incarnations if process.ended}
    )
