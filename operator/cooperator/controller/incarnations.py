"""Translates between the members' names of their incarnations and the pool's. Pure.

A member calls its incarnation ``uid.START``, a random name; the pool calls it ``uid.restarts`` (see
``observe``). The newest incarnation that the pool knows stands for every member of the same pod whose end is
not proven.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from cooperator.controller.observe import Body, Container, container, has_ended, milliseconds, phase, pod
from cooperator.host.known import Leader
from cooperator.host.stock import Incarnation
from cooperator.model import PodIncarnation
from cooperator.pool import Phase


def in_pool_names(leader: Leader, pods: Mapping[str, Body]) -> Leader:
    """Return the projection with each member's incarnation in the pool's naming. ``pods`` are by name."""
    if "members" not in leader:
        return leader
    members = [
        {**member, "incarnation": _in_pool_name(member["identity"], member["incarnation"], pods)}
        for member in leader["members"]
    ]
    return {**leader, "members": members}


def _in_pool_name(identity: str, incarnation: str, pods: Mapping[str, Body]) -> str:
    pod_incarnation, body = PodIncarnation.parse(incarnation), pods.get(identity)
    if (
        pod_incarnation is None
        or body is None
        or pod_incarnation.pod_uid != body["metadata"]["uid"]
        or has_ended(pod_incarnation, body)
    ):
        return incarnation
    return pod(body).incarnation


def proven_ends(
    incarnations: Iterable[Incarnation], bodies: Iterable[Body], ended_in_pool: Iterable[Incarnation]
) -> frozenset[Incarnation]:
    """Those of ``incarnations`` (in members' names) that have certainly ended.

    ``bodies`` are pods as they were seen last, including deleted ones. ``ended_in_pool`` are the ends that
    the pool has decided, in its names; of these only ends that no kubelet can report count here, namely those
    of pods on machines that are declared dead.
    """
    by_uid = {body["metadata"]["uid"]: body for body in bodies}
    dead_machines = frozenset(
        incarnation.rpartition(".")[0]
        for _, incarnation in ended_in_pool
        if (body := by_uid.get(incarnation.rpartition(".")[0])) is not None
        and pod(body).incarnation == incarnation
        and phase(body) in (Phase.RUNNING, Phase.TERMINATING)
    )

    def proven(incarnation: str) -> bool:
        pod_incarnation = PodIncarnation.parse(incarnation)
        if pod_incarnation is None:
            return False
        body = by_uid.get(pod_incarnation.pod_uid)
        return pod_incarnation.pod_uid in dead_machines or (
            body is not None and has_ended(pod_incarnation, body)
        )

    return frozenset(pod_incarnation for pod_incarnation in incarnations if proven(pod_incarnation[1]))


@dataclass(frozen=True, slots=True)
class PodStatus:
    """A pod as statuses show it (``host.status.MemberIncarnation``)."""

    identity: str
    incarnation: str
    started_ms: int
    ended_ms: int | None
    terminating_ms: int | None
    marked_for: str
    restarts: int
    past: tuple[str, ...] = ()
    removed: bool = False
    pid: int | None = None

    @property
    def ended(self) -> bool:
        return self.ended_ms is not None


def pod_status(body: Body) -> PodStatus:
    seen, decided = container(body) or Container(), pod(body)
    ended = decided.phase is Phase.ENDED
    started_ms = seen.started_ms or milliseconds(body["metadata"]["creationTimestamp"])
    deleted = body["metadata"].get("deletionTimestamp")
    return PodStatus(
        identity=decided.identity,
        incarnation=decided.incarnation,
        started_ms=started_ms,
        ended_ms=(seen.finished_ms or started_ms) if ended else None,
        terminating_ms=milliseconds(deleted) if deleted else None,
        marked_for=decided.mark or "",
        restarts=seen.restarts,
    )
