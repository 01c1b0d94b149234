"""Answers "what if" questions: simulates changes to a group, from a snapshot until the group is at rest. The
group itself is not touched.

The planner, the rounds and the measures are those of every simulation (``driver``); only the starting point
and the leader's facts about the changes differ. Stops, starts and rounds take no time.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count

from cooperator.model import Policy, PolicyName, TaskId, Warmth
from cooperator.planner import Facts, View, Workspace
from cooperator.scenarios.answer import WhatIfAnswer, answer_of, due
from cooperator.scenarios.changes import (
    Add,
    Change,
    Delete,
    Die,
    Drain,
    Join,
    Leave,
    Resize,
    Restart,
    Vanish,
    check,
)
from cooperator.scenarios.driver import play
from cooperator.scenarios.group import ScenarioGroup
from cooperator.scenarios.leaders import (
    ElectedLeader,
    Leader,
    LeaderOutcome,
    ScenarioOperator,
    StopTheWorldLeader,
    members_of,
)
from cooperator.scenarios.scenario import Event, Scenario
from cooperator.scenarios.snapshot import LedBy, Snapshot, fresh_memory
from cooperator.scenarios.workers import Process


def what_if(
    snapshot: Snapshot, changes: Sequence[Change] = (), workspace: Workspace | None = None
) -> WhatIfAnswer:
    """Simulate ``changes`` to rest; without changes, simulate the next rounds. Raises ChangeError.

    ``workspace``: has the assignors that are installed; None: those that are built in.
    """
    check(changes, snapshot.view)
    snapshot = under(snapshot, snapshot.view.policy)
    setup = _Setup(snapshot, changes, workspace)
    # A leader that is not a worker holds rounds even without any worker.
    run = play(setup.group, snapshot.view.policy.name, setup.leader, alone=snapshot.led_by is LedBy.OPERATOR)
    return answer_of(snapshot, changes, run, setup.notes())


def under(snapshot: Snapshot, policy: Policy) -> Snapshot:
    """Return the same group, planned under ``policy`` from now on; for Default, cooperator's leader replaces
    a stock leader."""
    led_by, memory = snapshot.led_by, snapshot.memory
    if policy.name is PolicyName.DEFAULT and led_by is LedBy.STOCK:
        led_by = LedBy.OPERATOR
    if policy.name is PolicyName.KIP415 and memory.kip415 is None:
        memory = replace(memory, kip415=fresh_memory(snapshot.view).kip415)
    return replace(snapshot, led_by=led_by, memory=memory, view=replace(snapshot.view, policy=policy))


class _Setup:
    """The group of a snapshot, set up for the simulation."""

    def __init__(self, snapshot: Snapshot, changes: Sequence[Change], workspace: Workspace | None) -> None:
        self.snapshot = snapshot
        self.workspace = workspace
        self.changes = tuple(changes)
        known = {member.identity for member in snapshot.view.members} | due(snapshot.memory).keys()
        self._pods = dict(enumerate(sorted(known)))
        self._joiners = _names(known, sum(c.count for c in changes if isinstance(c, Join)))
        self.leader = self._leader()
        self.group = self._group()

    def notes(self) -> Iterator[str]:
        """Yield what users should know about this simulation."""
        departs = any(isinstance(change, Leave | Die | Restart) for change in self.changes)
        if self.snapshot.led_by is LedBy.MEMBER and departs:
            yield "a member leads without proof of departures: tasks move only after leases have expired"
        warming = [m.identity for m in self.snapshot.view.members if m.warmth is Warmth.WARMING]
        if warming:
            yield f"these members are warming up and simulated as warm: {', '.join(sorted(warming))}"
        if self.snapshot.view.suspended:
            yield "the regrouping of tasks that is under way is simulated as if it never ended"

    def _leader(self) -> Leader:
        policy = self.snapshot.view.policy.name
        if self.snapshot.led_by is not LedBy.STOCK:
            return _Planner(self.snapshot, self.changes, self._joiners, self.workspace)
        return ElectedLeader(policy) if policy is PolicyName.KIP415 else StopTheWorldLeader(policy)

    def _group(self) -> ScenarioGroup:
        view = self.snapshot.view
        names = self._pods | dict(enumerate(self._joiners, start=len(self._pods)))
        pod_of = {identity: pod for pod, identity in names.items()}
        scenario = Scenario(
            id="",
            name="what if",
            protocol="sessioned",
            max_delay_ms=view.policy.scheduled_rebalance_max_delay_ms,
            rejoin_ms=0,
            config0=view.tasks,
            workers0=(),
            events=tuple(sorted(self._events(pod_of), key=lambda event: event.time_ms)),
            names=names,
        )
        group = ScenarioGroup(scenario, now_ms=view.now_ms)
        group.generation, group.leader_id = view.generation, view.leader_id
        free = count(len(names))
        for member in view.members:
            pod = pod_of[member.identity]
            group.admit(
                Process(
                    # An older incarnation of an identity is a process of its own.
                    pod=next(free) if pod in group.processes else pod,
                    incarnation=member.incarnation,
                    member_id=member.member_id,
                    identity=member.identity,
                    capacity=member.capacity,
                    zone=member.zone,
                    is_agent=member.is_agent,
                    draining=member.draining,
                    warmth=Warmth.STALLED if member.warmth is Warmth.STALLED else Warmth.WARM,
                    running=dict.fromkeys(member.owned),
                    stopping=member.stopping,
                    last_completed_generation=view.generation,
                    memory=self.snapshot.memory if member.member_id == view.leader_id else None,
                )
            )
        for identity, tasks in due(self.snapshot.memory).items():
            for task in tasks - group.meter.last_member.keys():
                group.meter.last_member[task] = ("", pod_of[identity])
        return group

    def _events(self, pod_of: Mapping[str, int]) -> Iterator[Event]:
        now_ms = self.snapshot.view.now_ms
        # Without a host, an end is not proven.
        ends = "vanish" if self.snapshot.led_by is LedBy.MEMBER else "leave"
        regroups = isinstance(self.leader, _Planner)
        for change in self.changes:
            says = {"says": str(change)}
            match change:
                case Leave(identity) | Die(identity):
                    yield Event(now_ms, ends, says, pod_of[identity])
                case Vanish(identity):
                    yield Event(now_ms, "vanish", says, pod_of[identity])
                case Restart(identity, after_ms):
                    yield Event(now_ms, ends, says, pod_of[identity])
                    yield Event(now_ms + after_ms, "join", {"says": f"{identity} is back"}, pod_of[identity])
                case Drain(identity):
                    yield Event(now_ms, "drain", says, pod_of[identity])
                case Join():
                    yield from (Event(now_ms, "join", says, pod_of[identity]) for identity in self._joiners)
                case Add(connector, tasks):
                    yield Event(now_ms, "set", says, connector=connector, count=tasks)
                case Resize(connector, tasks, affected):
                    # The changed tasks are released first; our planner does the rest.
                    kind = "rebalance" if affected and regroups else "set"
                    yield Event(now_ms, kind, says, connector=connector, count=tasks)
                case Delete(connector):
                    yield Event(now_ms, "delete", says, connector=connector)


class _Planner(ScenarioOperator):
    """Cooperator's planner, with the memory of the snapshot and the facts that the changes imply."""

    def __init__(
        self,
        snapshot: Snapshot,
        changes: Sequence[Change],
        joiners: Sequence[str],
        workspace: Workspace | None,
    ) -> None:
        super().__init__(snapshot.view.policy.name, None, workspace)
        self.memory = snapshot.memory
        self._start = snapshot.view
        self._regroups = {c.connector: c for c in changes if isinstance(c, Resize) and c.affected}
        self._is_informed = snapshot.led_by is not LedBy.MEMBER
        self._known = self._start.facts
        if self._is_informed:
            gone = {change.identity for change in changes if isinstance(change, Leave)}
            drained = {change.identity for change in changes if isinstance(change, Drain)}
            expected = self._known.expected
            self._known = replace(
                self._known,
                expected=None if expected is None else (expected | set(joiners)) - gone - drained,
                gone=self._known.gone | gone,
            )

    def view(self, group: ScenarioGroup, cause: str) -> View:
        affected = (TaskId(name, number) for name, c in self._regroups.items() for number in c.affected)
        members = members_of(group)
        # For an identity that was present at the start, another incarnation is awaited.
        back = {m.identity for m in members} - {m.identity for m in self._start.members}
        return replace(
            self._start,
            now_ms=group.now_ms,
            generation=group.generation,
            members=members,
            tasks=dict(group.config),
            facts=self._facts_now(group),
            suspended=self._start.suspended | set(affected),
            awaited={
                i: at_ms for i, at_ms in self._start.awaited.items() if at_ms > group.now_ms and i not in back
            },
            cause=cause,
            last_completed_generation=group.generation - 1,
        )

    def decide(self, group: ScenarioGroup, cause: str) -> LeaderOutcome:
        outcome = super().decide(group, cause)
        for name, change in list(self._regroups.items()):
            if not self._in_use(group, change):
                del self._regroups[name]
                group.configure({**group.config, name: change.tasks})
                group.want_rejoin()
        if self._regroups:
            # The planner has no timer for the end of a lease when its tasks are held for longer.
            timers = (group.leader_timer_ms, *(at_ms for at_ms, _ in self._fences()))
            group.leader_timer_ms = min((at_ms for at_ms in timers if at_ms is not None), default=None)
        return outcome

    def _facts_now(self, group: ScenarioGroup) -> Facts:
        if not self._is_informed:
            return self._known
        return replace(self._known, ended=self._known.ended | group.ended)

    def _in_use(self, group: ScenarioGroup, change: Resize) -> bool:
        """Return whether a task that changes is running, or may still run on a member that has vanished."""
        affected = {TaskId(change.connector, number) for number in change.affected}
        running = [task for process in group.members() for task in process.running]
        fenced = [task for _, tasks in self._fences() for task in tasks]
        return not affected.isdisjoint([*running, *fenced])

    def _fences(self) -> Iterator[tuple[int, frozenset[TaskId]]]:
        """Yield the times (ms) until which a vanished member may run tasks."""
        fence_ms = self._start.policy.fence_ms
        for entry in self.memory.unstopped:
            if entry.gone_since_ms is not None:
                yield entry.gone_since_ms + fence_ms, entry.tasks


def _names(taken: set[str], number: int) -> list[str]:
    """Return unused names for new members."""
    free = (name for n in count() if (name := f"new-{n}") not in taken)
    return [next(free) for _ in range(number)]
