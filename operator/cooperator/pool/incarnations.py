"""Deaths and their proofs: the state of each identity's incarnations.

    observed                                                      meaning
    ended; or a newer incarnation of the same object              dead
    reported as running, on a machine that nobody declared dead   alive, whatever was concluded before
    out-of-service taint, node not ready                          dead, and will not come back
    Node object deleted                                           unproven; dead where the cloud is trusted
    object gone, or another object in its place, never seen ended unproven: its lease has to expire
    node unreachable, still a member                              alive
    node unreachable, no longer a member                          unproven; stuck after a while

A death refers to an incarnation, never to an identity: a late observation of an old incarnation does not
affect a newer one.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from cooperator.pool.actions import Delete, Kill
from cooperator.pool.desired import PoolDesired, PoolPolicy
from cooperator.pool.memory import Crashes, IncarnationSeen, PoolMemory
from cooperator.pool.observed import End, EndCause, GroupSeen, MemberSeen, Node, Phase, Pod, PoolObserved

_REMEMBERED: Final = 8
"""Number of ends kept per identity; a leader cannot be further behind than this."""


@dataclass(frozen=True, slots=True)
class PodState:
    """The state of a pod as known now.

    ``ended``: the end of this incarnation is proven. ``lost``: the pod is lost with its node, which is out
    of service for good. ``member``: this incarnation's member in the group, if any. ``workless``: the pod is
    not a member and certainly runs nothing (a member that the group has just lost, or that a new leader has
    evicted, may still run its tasks). ``stuck``: the pod has been cut off for too long.
    """

    pod: Pod
    ordinal: int
    ended: bool
    lost: bool
    reachable: bool
    member: MemberSeen | None
    workless: bool
    stuck: bool
    seen: IncarnationSeen

    @property
    def terminating(self) -> bool:
        return not self.ended and self.pod.phase is Phase.TERMINATING

    @property
    def staying(self) -> bool:
        """It has not ended and was not asked to end."""
        return not self.ended and self.pod.phase is not Phase.TERMINATING

    @property
    def available(self) -> bool:
        """It is a member that is not about to leave."""
        return self.staying and self.pod.mark is None and self.member is not None

    @property
    def starting(self) -> bool:
        """It has tasks that do not run yet, or will get some when it is warm."""
        return self.member is not None and (self.member.warming or bool(self.member.starting))

    @property
    def unborn(self) -> bool:
        """Its process has never run."""
        return not self.ended and self.pod.phase is Phase.PENDING and self.member is None


@dataclass(frozen=True, slots=True)
class Survey:
    """``crashed``: per identity, the incarnation that ended or vanished without being asked to since the last
    decision."""

    incarnations: Mapping[str, PodState]
    memory: PoolMemory
    crashed: Mapping[str, str]


def survey(desired: PoolDesired, observed: PoolObserved, memory: PoolMemory, now_ms: int) -> Survey:
    """Interpret the observed state, given the memory."""
    pods = {pod.identity: pod for pod in observed.pods if desired.ordinal(pod.identity) is not None}
    ended = dict(memory.ended)
    crashes = dict(memory.crashes)
    crashed: dict[str, str] = {}

    def end(identity: str, pod_state: IncarnationSeen, *, proven: bool) -> None:
        if pod_state.incarnation in ended.get(identity, ()):
            return
        if proven:
            ended[identity] = (*ended.get(identity, ()), pod_state.incarnation)[-_REMEMBERED:]
        pod = pods.get(identity)
        requested = pod is not None and pod.end == End(pod_state.incarnation, EndCause.REQUESTED)
        if not pod_state.stopping and not requested:
            crashed[identity] = pod_state.incarnation
            crashes[identity] = _count(crashes.get(identity), pod_state, desired.policy, now_ms)

    seen: dict[str, IncarnationSeen] = {}
    for identity in sorted(memory.incarnations.keys() | pods.keys()):
        pod, last = pods.get(identity), memory.incarnations.get(identity)
        if last is not None and (pod is None or pod.incarnation != last.incarnation):
            # A later incarnation of the same object proves the end of the earlier one; a late observation of
            # an earlier incarnation proves nothing.
            later = pod is not None and pod.uid == last.uid and pod.restarts > last.restarts
            end(identity, last, proven=later)
        if pod is None:
            continue
        seen[identity] = _seen(pod, last, memory, observed.group, now_ms)
        node_deleted = desired.policy.trust_node_deletion and _node_deleted(pod, observed.nodes)
        dead_node = node_deleted or _out_of_service(pod, observed.nodes)
        # A pending pod cannot have ended: its node may be back before it runs.
        if pod.phase is Phase.ENDED or (dead_node and pod.phase is not Phase.PENDING):
            end(identity, seen[identity], proven=True)
        elif pod.phase is not Phase.PENDING and pod.incarnation in ended.get(identity, ()):
            # Its kubelet reports it as running, whatever was concluded before.
            ended[identity] = tuple(each for each in ended[identity] if each != pod.incarnation)

    cut_off = _cut_off(pods, observed, memory, now_ms)
    incarnations = {
        identity: PodState(
            pod=pod,
            ordinal=desired.ordinal(identity) or 0,
            ended=pod.incarnation in ended.get(identity, ()),
            lost=_out_of_service(pod, observed.nodes),
            reachable=_reachable(pod, observed.nodes),
            member=_member(pod, observed.group),
            workless=_workless(pod, seen[identity], observed.group),
            stuck=identity in cut_off and now_ms - cut_off[identity] >= desired.policy.stand_in_after_ms,
            seen=seen[identity],
        )
        for identity, pod in pods.items()
    }
    for identity, pod_state in incarnations.items():
        if pod_state.available and now_ms - pod_state.seen.since_ms >= desired.policy.healthy_after_ms:
            crashes.pop(identity, None)
    return Survey(
        incarnations,
        replace(memory, incarnations=seen, ended=ended, crashes=crashes, cut_off=cut_off),
        crashed,
    )


def backoff_ms(crashes: Crashes | None, policy: PoolPolicy) -> int:
    """Return how long after the last crash a pod is created again; 0 after the first crash."""
    if crashes is None or crashes.count < 2:
        return 0
    doublings = min(crashes.count - 2, 32)
    return min(policy.backoff_initial_ms << doublings, policy.backoff_max_ms)


def _count(earlier: Crashes | None, pod_state: IncarnationSeen, policy: PoolPolicy, now_ms: int) -> Crashes:
    healthy = now_ms - pod_state.since_ms >= policy.healthy_after_ms
    return Crashes(1 if earlier is None or healthy else earlier.count + 1, now_ms)


def _seen(
    pod: Pod, last: IncarnationSeen | None, memory: PoolMemory, group: GroupSeen | None, now_ms: int
) -> IncarnationSeen:
    asked = memory.asked.get(pod.identity)
    told_to_end = (
        asked is not None
        and isinstance(asked.action, Delete | Kill)
        and asked.action.incarnation == pod.incarnation
    )
    stopping = pod.phase is Phase.TERMINATING or told_to_end
    remembered = memory.slots is not None
    joined: bool | None = False if remembered or pod.phase is Phase.PENDING else None
    since_ms, marked_ms, terminating_ms = now_ms, None, None
    if last is not None and last.incarnation == pod.incarnation:
        since_ms, marked_ms, terminating_ms = last.since_ms, last.marked_since_ms, last.terminating_since_ms
        stopping = stopping or last.stopping
        joined = last.joined
    if _member(pod, group) is not None:
        joined = True
    return IncarnationSeen(
        pod.uid,
        pod.incarnation,
        since_ms,
        pod.restarts,
        stopping,
        joined,
        _since(pod.mark is not None, marked_ms, now_ms),
        _since(pod.phase is Phase.TERMINATING, terminating_ms, now_ms),
    )


def _since(is_so: bool, before_ms: int | None, now_ms: int) -> int | None:
    if not is_so:
        return None
    return now_ms if before_ms is None else before_ms


def _cut_off(
    pods: Mapping[str, Pod], observed: PoolObserved, memory: PoolMemory, now_ms: int
) -> dict[str, int]:
    """Return when each identity was cut off: its node is unreachable and it is not a member. A member is
    alive, whatever its node reports."""
    cut_off: dict[str, int] = {}
    for identity, pod in pods.items():
        over = pod.phase is Phase.ENDED and not pod.self_restarting
        if over or _reachable(pod, observed.nodes):
            continue
        since_ms = memory.cut_off.get(identity)
        if observed.group is not None:
            since_ms = None if _member(pod, observed.group) else since_ms or now_ms
        if since_ms is not None:
            cut_off[identity] = since_ms
    return cut_off


def _member(pod: Pod, group: GroupSeen | None) -> MemberSeen | None:
    member = group.members.get(pod.identity) if group is not None else None
    return member if member is not None and member.incarnation == pod.incarnation else None


def _workless(pod: Pod, seen: IncarnationSeen, group: GroupSeen | None) -> bool:
    if group is None or _member(pod, group) is not None:
        return False
    return seen.joined is False or not (group.moving or pod.identity in group.held)


def _reachable(pod: Pod, nodes: Mapping[str, Node] | None) -> bool:
    if nodes is None or not pod.node:
        return True
    return pod.node in nodes and nodes[pod.node].ready


def _out_of_service(pod: Pod, nodes: Mapping[str, Node] | None) -> bool:
    node = nodes.get(pod.node) if nodes is not None else None
    return node is not None and node.out_of_service and not node.ready


def _node_deleted(pod: Pod, nodes: Mapping[str, Node] | None) -> bool:
    return nodes is not None and pod.node != "" and pod.node not in nodes
