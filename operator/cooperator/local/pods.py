"""Members in the pool's terms. Pure."""

from collections.abc import Iterable

from cooperator.local.members import Life
from cooperator.pool import Mark, MarkReason, Phase, Pod


def pod(life: Life) -> Pod:
    """A life as a pod. Here a pod has one life only, so both have one name."""
    return Pod(
        identity=life.identity,
        uid=life.incarnation,
        incarnation=life.incarnation,
        phase=_phase(life),
        revision=life.revision,
        started_ms=life.started_ms,
        mark=Mark(MarkReason(life.marked_for), life.marked_ms) if life.marked_for else None,
        terminating_since_ms=life.terminating_ms,
    )


def _phase(life: Life) -> Phase:
    if life.ended:
        return Phase.ENDED
    if life.terminating_ms is not None:
        return Phase.TERMINATING
    return Phase.PENDING if life.pid is None else Phase.RUNNING


def past_ends(lives: Iterable[Life]) -> frozenset[tuple[str, str]]:
    """(identity, incarnation) of lives that have ended, also of those before the pool began to look."""
    ended = {(life.identity, incarnation) for life in lives for incarnation in life.past}
    return frozenset(ended | {(life.identity, life.incarnation) for life in lives if life.ended})
