"""A group as its leader sees it, read from outside: the starting point of questions "what if", and of a
leader that is about to adopt it.

It reads the broker's description of the group and the group's logs. It neither joins nor writes, none of the
members notices, and it works whoever leads, since every member's metadata reports what it runs, or, in a
group without rounds, the leader log does.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from pydantic import TypeAdapter

from cooperator.group import DescribedGroup, DescribedMember, GroupState, GroupUnavailable, describe_group
from cooperator.leader.config_topic import read_to, topic_refusal
from cooperator.leader.group_log import GroupLog, group_records
from cooperator.leader.group_memory import restored
from cooperator.leader.held_reports import as_reported
from cooperator.leader.identities import tell_apart
from cooperator.leader.offer import is_chosen
from cooperator.leader.ownership import GroupPolicy, member_refusal
from cooperator.leader.settings import ServiceSettings
from cooperator.logs import LeaderRecords, LogsConfig, LogsRead, LogUnavailable, Topics, read_logs
from cooperator.logs.config_log import ConfigLog
from cooperator.model import ClusterConfig, Member, Memory, Policy, PolicyName, StateReplicas, TaskId
from cooperator.planner import Facts, View
from cooperator.reconciliation import ReconciledGroup
from cooperator.scenarios.snapshot import LedBy, Snapshot, fresh_memory
from cooperator.wire import (
    NO_ERROR,
    DecodeError,
    ExtendedAssignment,
    Metadata,
    Role,
    decode_assignment,
    decode_metadata,
    member_of,
)

UNITS: Final = "task.units"
_ADOPTION_MS: Final = 8_000
_AGAIN_S: Final = 0.3


class NotSeen(Exception):
    """The group cannot be inspected now; the message names the reason and the remedy."""


@dataclass(frozen=True, slots=True)
class GroupAddress:
    """A group on a broker.

    ``config_topic``: that of a Kafka Connect cluster, which chooses its own name. ``group_security`` and
    ``log_security``: as in ``ServiceSettings``; never shown.
    """

    bootstrap_servers: str
    group_id: str
    config_topic: str | None = None
    group_security: Mapping[str, Any] = field(default_factory=dict, repr=False)
    log_security: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def logs(self) -> LogsConfig:
        topics = Topics.of(self.group_id)
        if self.config_topic is not None:
            topics = replace(topics, config=self.config_topic)
        return LogsConfig(self.bootstrap_servers, self.group_id, self.log_security, topics)


def look(where: GroupAddress, timeout_s: float = 10) -> Snapshot:
    """A snapshot of the group between two rounds: its description is the same before and after reading.

    Raises NotSeen when the broker does not answer, the group does not exist, or it does not come to rest.
    """
    deadline = time.monotonic() + timeout_s
    before = _describe(where, deadline)
    while True:
        if before.state is GroupState.STABLE or before.state is GroupState.EMPTY:
            logs = _read(where, deadline)
            after = _describe(where, deadline)
            if after == before:
                return compose(where, before, logs, time.time_ns() // 1_000_000)
        else:
            time.sleep(_AGAIN_S)
            after = _describe(where, deadline)
        if time.monotonic() > deadline:
            raise NotSeen(
                f"group {where.group_id!r} is in mid-round ({after.state}): its members report what "
                f"they run only between rounds: try again in a moment"
            )
        before = after


def seen_refusal(settings: ServiceSettings, config: ConfigLog) -> str:
    """Returns why ``config`` cannot be the config log of the group, as its members are seen from outside.

    Empty when it can, or when the group is not to be adopted. Raises LogUnavailable.
    """
    if settings.group_policy is not GroupPolicy.ADOPT:
        return ""
    try:
        group = describe_group(
            settings.bootstrap_servers, settings.group_id, settings.group_security, _ADOPTION_MS / 1000
        )
    except GroupUnavailable as error:
        raise LogUnavailable(str(error)) from error
    # The end is asked for later than the members: it contains what they have read.
    read = read_to((member.client_id, member.metadata) for member in group.members)
    topic = settings.logs_config().topic_names.config
    return topic_refusal(settings.group_id, topic, config.end(_ADOPTION_MS), read)


def _describe(where: GroupAddress, deadline: float) -> DescribedGroup:
    left_s = max(1.0, deadline - time.monotonic())
    try:
        group = describe_group(where.bootstrap_servers, where.group_id, where.group_security, left_s)
    except GroupUnavailable as error:
        raise NotSeen(f"{error}; check --bootstrap-servers") from error
    if group.state is GroupState.DEAD:
        raise NotSeen(
            f"group {where.group_id!r} does not exist at {where.bootstrap_servers}; check --group "
            "(a Worker's is cooperator-NAMESPACE.NAME unless its spec.groupId says otherwise)"
        )
    if group.members and group.protocol_type != "connect":
        raise NotSeen(
            f"group {where.group_id!r} is used by clients of type {group.protocol_type!r}, not by Kafka "
            "Connect or cooperator; check --group"
        )
    return group


def _read(where: GroupAddress, deadline: float) -> LogsRead:
    try:
        return read_logs(where.logs, int(max(1.0, deadline - time.monotonic()) * 1000))
    except LogUnavailable as error:
        raise NotSeen(f"the logs of group {where.group_id!r} cannot be read: {error}") from error


def with_status(snapshot: Snapshot, status: Mapping[str, Any]) -> Snapshot:
    """Add what only the operator knows. ``status``: its leader's projection (``LeaderService``)."""
    inputs = status.get("inputs")
    if snapshot.led_by is not LedBy.OPERATOR or not status.get("leading") or not inputs:
        note = "the operator does not lead now: the facts of its host are not in the answer"
        return replace(snapshot, notes=(*snapshot.notes, note))
    facts = {name: value for name, value in inputs["facts"].items() if value is not None}
    view = replace(
        snapshot.view,
        facts=_FACTS.validate_python(facts),
        suspended=frozenset(TaskId(*task) for task in inputs["suspended"]),
        weights={name: weight for name, weight in inputs["weights"].items() if weight != 1.0},
        awaited=status["awaited"],
    )
    return replace(snapshot, view=view)


_FACTS: Final = TypeAdapter(Facts)


# Pure functions that compose what was read.


@dataclass(frozen=True, slots=True)
class _Seen:
    """A member: its report when it joined, and its assignment since."""

    described: DescribedMember
    metadata: Metadata
    given: ExtendedAssignment | None

    @property
    def role(self) -> Role | None:
        """The member's role; None: a stock worker."""
        return self.metadata.agent.role if self.metadata.agent is not None else None

    def member(self) -> Member:
        """The member as it will report next, if nothing else happens."""
        member = member_of(self.described.member_id, self.described.client_id, self.metadata)
        given = self.given
        if given is None or given.error != NO_ERROR:
            return member
        return replace(
            member,
            owned=tuple(dict.fromkeys((*member.owned, *given.assigned))),
            stopping=member.stopping | frozenset(given.revoked).intersection(member.owned),
            applied=given.agent.epoch if member.is_agent and given.agent is not None else member.applied,
        )


def compose(where: GroupAddress, group: DescribedGroup, logs: LogsRead, now_ms: int) -> Snapshot:
    """The snapshot of what was described and read. Raises NotSeen."""
    if logs.config is None:
        raise NotSeen(
            f"topic {where.logs.topic_names.config} does not exist: name the config topic of group "
            f"{where.group_id!r} by --config-topic (config.storage.topic of a Kafka Connect cluster)"
        )
    notes: list[str] = []
    seen = [each for member in group.members if (each := _see(member, notes)) is not None]
    workers = [each for each in seen if each.role is not Role.LEADER]
    leader_id = next((each.given.leader for each in seen if each.given is not None), "")
    led_by = _led_by(seen, leader_id)
    state = logs.leader or LeaderRecords()
    memory = state.memory if led_by is not LedBy.STOCK else None
    known = memory or Memory()
    # A client id that is an identity in the leader's memory counts as one worker's.
    members = tell_apart(tuple(w.member() for w in workers), known, known.given.__contains__).members
    if is_chosen(group.protocol):
        reconciled = _reconciled(where.group_id, state)
        members = tuple(as_reported(reconciled, member) for member in members)
        memory = known = restored(known, reconciled)
    epochs = [
        each.given.agent.epoch for each in seen if each.given is not None and each.given.agent is not None
    ]
    generation = max((epoch.generation for epoch in epochs), default=memory.generation if memory else 0)
    view = View(
        now_ms=now_ms,
        generation=generation,
        members=members,
        tasks=logs.config.task_counts(),
        policy=_policy(state.policy, led_by, group.protocol, notes),
        leader_id=leader_id,
        last_completed_generation=generation,
    )
    if memory is None:
        memory = fresh_memory(view)
    if led_by is LedBy.OPERATOR:
        view = replace(view, facts=Facts(expected=_expected(members, memory)))
    if led_by is LedBy.STOCK:
        described = [(each.described.client_id, each.described.metadata) for each in seen]
        refusals = [member_refusal("", described, GroupPolicy.ADOPT, where.group_id)]
        if logs.config_end is not None:
            topic, read = where.logs.topic_names.config, read_to(described)
            refusals.append(topic_refusal(where.group_id, topic, logs.config_end, read))
        notes += [f"a leader of ours would not lead this group: {refusal}" for refusal in refusals if refusal]
        if (owner := state.owner) is not None:
            notes.append(
                f"the group is marked as that of Worker {owner.namespace}/{owner.name} of cluster "
                f"{owner.cluster!r}: every other one would refuse to lead it (GroupConflict)"
            )
    if not members:
        notes.append("the group has no members: nothing runs")
    learned = [n for n, c in logs.config.connectors.items() if StateReplicas.of(c.config) is not None]
    if learned:
        notes.append(
            f"tasks of {', '.join(sorted(learned))} move when members have learned their state "
            "(stateReplicas): the answer shows where they end, and leaves out the time for that"
        )
    return Snapshot(
        group=where.group_id,
        led_by=led_by,
        view=view,
        memory=memory,
        units=_units(logs.config),
        classes={n: c.config.get("connector.class", "") for n, c in logs.config.connectors.items()},
        notes=tuple(notes),
    )


def _see(member: DescribedMember, notes: list[str]) -> _Seen | None:
    try:
        metadata = decode_metadata(member.metadata)
        given = decode_assignment(member.assignment) if member.assignment else None
    except DecodeError as error:
        notes.append(f"member {member.member_id} cannot be understood, and counts as none: {error}")
        return None
    return _Seen(member, metadata, given)


def _led_by(seen: list[_Seen], leader_id: str) -> LedBy:
    roles = {each.described.member_id: each.role for each in seen}
    if Role.LEADER in roles.values() or not seen:
        # An operator that restarted may still be known by its earlier id.
        return LedBy.OPERATOR
    if leader_id in roles:
        return LedBy.STOCK if roles[leader_id] is None else LedBy.MEMBER
    return LedBy.STOCK if set(roles.values()) == {None} else LedBy.MEMBER


def _reconciled(group_id: str, state: LeaderRecords) -> ReconciledGroup:
    """The group of the leader log, since its members report no tasks to the broker. Raises NotSeen."""
    term = state.memory.term if state.memory is not None else 0
    try:
        found = GroupLog().read(group_records(state.others), term)
    except DecodeError as error:
        raise NotSeen(f"the leader log of group {group_id!r} cannot be read: {error}") from error
    if found is None:
        raise NotSeen(
            f"it is not known what the members of group {group_id!r} run: its leader changes the protocol; "
            "try again in a moment"
        )
    return found


def _policy(said: Policy | None, led_by: LedBy, protocol: str, notes: list[str]) -> Policy:
    if led_by is LedBy.STOCK:
        name = PolicyName.EAGER if protocol == "default" else PolicyName.KIP415
        notes.append(
            "a Kafka Connect worker leads: a delay that runs now cannot be seen from outside, nor what "
            "scheduled.rebalance.max.delay.ms is (--max-delay-ms says it)"
        )
        return Policy(name)
    if said is None:
        notes.append("the leader log has no policy: the default one is taken")
    return said or Policy()


def _expected(members: tuple[Member, ...], memory: Memory) -> frozenset[str]:
    """The members that the operator's host expects, as far as its leader has recorded it."""
    return frozenset(member.identity for member in members) | memory.joins.keys() | memory.holds.keys()


def _units(config: ClusterConfig) -> dict[str, tuple[tuple[str, ...], ...]]:
    """The units of each task, by connector; only connectors whose tasks all name their units."""
    found: dict[str, tuple[tuple[str, ...], ...]] = {}
    for name, connector in config.connectors.items():
        if connector.tasks and all(UNITS in task for task in connector.tasks):
            found[name] = tuple(tuple(filter(None, task[UNITS].split(","))) for task in connector.tasks)
    return found
