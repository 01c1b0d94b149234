"""A group of obedient members in an unfriendly world, to try plans on.

Members keep to their lease: a process that is out of the group stops everything ``lease_ms`` after it was
last in it. All else may go wrong: assignments get lost, stops take long, processes freeze, die with and
without proof.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from cooperator.model import INSTANCE, Epoch, Member, Memory, Policy, StateReplicas, TaskId, Warmth
from cooperator.planner import Facts, Plan, View, Why, Workspace, plan
from cooperator.planner.learners import learned_by
from cooperator.wire import decode_leader, encode_leader

POLICY = Policy()


@dataclass
class Process:
    """One incarnation of an identity: what it runs, what it is stopping, and since when it is out of the
    group."""

    identity: str
    incarnation: str
    running: set[TaskId] = field(default_factory=set)
    stopping: set[TaskId] = field(default_factory=set)
    out_since_ms: int | None = None
    draining: bool = False
    applied: Epoch | None = None
    fails_next: bool = False
    warmth: Warmth = Warmth.WARM
    learns: bool = False
    behind_bytes: dict[TaskId, int] = field(default_factory=dict)
    cannot_learn: frozenset[TaskId] = frozenset()

    @property
    def owned(self) -> set[TaskId]:
        return self.running | self.stopping


class UnreliableGroup:
    def __init__(self, policy: Policy = POLICY, **task_counts: int) -> None:
        self.policy = policy
        self.task_counts = dict(task_counts)
        self.processes: list[Process] = []
        self.dead: set[tuple[str, str]] = set()
        self.proven: set[tuple[str, str]] = set()
        self.memory = Memory()
        self.now_ms = 1_000_000
        self.incarnations = 0
        self.facts = Facts()
        self.awaited: dict[str, int] = {}
        self.suspended: set[TaskId] = set()
        self.unstarted: set[TaskId] = set()
        self.cause = ""
        self.last: Plan | None = None
        self.workspace = Workspace()
        self.stateful: dict[str, StateReplicas] = {}
        self.state_bytes = 100

    # Events

    def join(self, identity: str, warmth: Warmth = Warmth.WARM, learns: bool = False) -> Process:
        self.incarnations += 1
        process = Process(identity, f"{identity}#{self.incarnations}", warmth=warmth, learns=learns)
        self.processes.append(process)
        return process

    def kill(self, process: Process, proven: bool) -> None:
        self.processes.remove(process)
        self.dead.add((process.identity, process.incarnation))
        if proven:
            self.proven.add((process.identity, process.incarnation))

    def drop(self, process: Process) -> None:
        """The broker drops it; the process runs on."""
        process.out_since_ms = self.now_ms

    def rejoin(self, process: Process) -> None:
        process.out_since_ms = None
        self.processes.remove(process)
        self.processes.append(process)

    def take_over(self, wait_ms: int = 25_000) -> None:
        """A new leader evicts all members to take the lead; each has still to come back."""
        for process in self.members():
            self.drop(process)
            self.awaited[process.identity] = self.now_ms + wait_ms

    def stopped(self, process: Process) -> None:
        process.stopping.clear()

    def learn(self, process: Process, by_bytes: int) -> None:
        """It hears what to learn, and comes nearer by ``by_bytes`` in each of these tasks."""
        told = learned_by(self.memory, self.stateful, process.identity, self.now_ms) if process.learns else {}
        process.behind_bytes = {
            task: max(0, process.behind_bytes.get(task, self.state_bytes) - by_bytes)
            for task in told
            if task not in process.owned
        }

    def advance(self, by_ms: int) -> None:
        self.now_ms += by_ms
        for process in self.processes:
            out = process.out_since_ms
            if out is not None and self.now_ms >= out + self.policy.lease_ms:
                process.running.clear()
                process.stopping.clear()

    # The leader's part

    def members(self) -> list[Process]:
        return [process for process in self.processes if process.out_since_ms is None]

    def named(self, identity: str) -> Process:
        """The newest process of ``identity``."""
        return [process for process in self.processes if process.identity == identity][-1]

    def view(self) -> View:
        present = {process.identity for process in self.members()}
        self.awaited = {i: until for i, until in self.awaited.items() if i not in present}
        return View(
            now_ms=self.now_ms,
            generation=self.memory.generation + 1,
            members=tuple(
                Member(
                    member_id=process.incarnation,
                    identity=process.identity,
                    incarnation=process.incarnation,
                    owned=tuple(sorted(process.owned)),
                    stopping=frozenset(process.stopping),
                    draining=process.draining,
                    applied=process.applied,
                    warmth=process.warmth,
                    learns=process.learns,
                )
                for process in self.members()
            ),
            tasks=dict(self.task_counts),
            policy=self.policy,
            facts=replace(self.facts, ended=frozenset(self.proven)),
            suspended=frozenset(self.suspended),
            unstarted=frozenset(self.unstarted),
            cause=self.cause,
            awaited={i: until for i, until in self.awaited.items() if until > self.now_ms},
            stateful=dict(self.stateful),
            behind_bytes={(p.identity, p.incarnation): dict(p.behind_bytes) for p in self.members()},
            cannot_learn={(p.identity, p.incarnation): p.cannot_learn for p in self.members()},
        )

    def plan_only(self) -> Plan:
        """The decision of a round that is not held."""
        view = self.view()
        decided, _ = plan(view, self.memory, self.workspace)
        check_safe(view, decided)
        return decided

    def round(self) -> Plan:
        """One round: everybody who is in the group reports, and is told what to do."""
        view = self.view()
        decided, memory = plan(view, self.memory, self.workspace)
        check_safe(view, decided)
        check_learners(view, self.memory, decided, memory)
        for process in self.members():
            assignment = decided.assignments[process.incarnation]
            if process.fails_next:
                process.fails_next = False
                continue
            gone = process.running.intersection(assignment.revoked)
            process.running -= gone
            process.stopping |= gone
            process.running.update(assignment.assigned)
            process.applied = Epoch(1, view.generation)
        self.memory, self.last = memory, decided
        self.check_nothing_runs_twice()
        return decided

    def settle(self, limit: int = 200) -> Plan:
        """Faults are over: rounds and timers until nothing is left to do."""
        for process in self.processes:
            process.warmth = Warmth.WARM
        for _ in range(limit):
            for process in self.members():
                self.stopped(process)
                self.learn(process, self.state_bytes)
                if process.draining and not process.running:
                    self.kill(process, proven=True)
            before = self.memory
            decided = self.round()
            if not all(assignment.is_empty for assignment in decided.assignments.values()):
                continue
            if (before.warmups, before.standbys) != (self.memory.warmups, self.memory.standbys):
                continue
            if decided.rejoin_at_ms is None:
                return decided
            assert decided.rejoin_at_ms > self.now_ms, "a timer in the past would make rounds for ever"
            self.advance(decided.rejoin_at_ms - self.now_ms)
        raise AssertionError(f"no rest after {limit} rounds")

    # Invariants

    def configured(self) -> set[TaskId]:
        return {TaskId(c, i) for c, count in self.task_counts.items() for i in range(INSTANCE, count)}

    def check_nothing_runs_twice(self) -> None:
        seen: dict[TaskId, str] = {}
        for process in self.processes:
            for task in process.owned:
                assert task not in seen, f"{task} at {seen[task]} and at {process.incarnation}"
                seen[task] = process.incarnation

    def check_complete_and_balanced(self) -> None:
        running = {process.incarnation: process.running for process in self.members()}
        assert set().union(*running.values()) == self.configured() - self.suspended
        blocked = self.facts.cordoned | self.facts.leaving
        open_to_work = [p for p in self.members() if p.identity not in blocked]
        for instances in (True, False):
            loads = [sum(task.is_instance is instances for task in p.running) for p in open_to_work]
            assert max(loads, default=0) - min(loads, default=0) <= 1, loads

    def check_at_rest(self) -> None:
        """The same view again, and later: nothing to do."""
        for _ in range(2):
            decided = self.round()
            assert all(assignment.is_empty for assignment in decided.assignments.values())
            self.advance(3_000)


def check_safe(view: View, decided: Plan) -> None:
    """Invariants of every plan, whatever happened before."""
    reported: set[TaskId] = {
        task
        for member in view.members
        for task in member.owned
        if (member.identity, member.incarnation) not in view.facts.ended
    }
    assigned = [task for assignment in decided.assignments.values() for task in assignment.assigned]
    revoked = [task for assignment in decided.assignments.values() for task in assignment.revoked]
    assert decided.assignments.keys() == {member.member_id for member in view.members}
    assert len(assigned) == len(set(assigned)), "one task to two members"
    assert not reported.intersection(assigned), "assigned although somebody still reports it"
    assert not view.barred.intersection(assigned)
    for member in view.members:
        assignment = decided.assignments[member.member_id]
        assert set(assignment.revoked) <= set(member.owned) - member.stopping, (
            "revoked what does not run there"
        )
    assert decided.assigned_why.keys() == set(assigned)
    assert decided.revoked_why.keys() == set(revoked)
    assert not decided.held.keys() & set(assigned), "assigned although held"
    check_warm(view, decided)


def check_warm(view: View, decided: Plan) -> None:
    """Nothing is taken from a member that runs it for one whose runtime is not up; nor is anything given to
    such a one, but its own, while another who may have it is warm."""
    alone = {m.member_id for m in view.members if sum(m.identity == o.identity for o in view.members) == 1}
    gone = view.facts.leaving | view.facts.gone
    ended = view.facts.ended
    # Of several incarnations of an identity only the planner knows which one is the newest, and may be given
    # work.
    any_incarnation = [
        member
        for member in view.members
        if not member.draining
        and member.identity not in gone | view.facts.cordoned
        and (member.identity, member.incarnation) not in ended
    ]
    one_of_several_is_warm = any(
        m.warmth is Warmth.WARM and m.member_id not in alone for m in any_incarnation
    )
    open_to_work = [m for m in any_incarnation if m.member_id in alone]
    warm = [member for member in open_to_work if member.warmth is Warmth.WARM]
    coming = [member for member in open_to_work if member.warmth is Warmth.WARMING]
    own = {Why.RETURNED, Why.UNDELIVERED}
    for member in view.members:
        assignment = decided.assignments[member.member_id]
        cold = member.warmth is not Warmth.WARM
        for task in assignment.assigned if cold and warm else ():
            assert decided.assigned_why[task].why in own, f"{task} starts at {member.identity}, which is cold"
        if cold or warm or one_of_several_is_warm or not coming or member.member_id not in alone:
            continue
        for task in assignment.revoked:
            held = task in decided.held
            assert held or decided.revoked_why[task].why not in (Why.BALANCE, Why.DRAIN), (
                f"{task} is taken from {member.identity}, and nobody is warm"
            )


def check_learners(view: View, before: Memory, decided: Plan, after: Memory) -> None:
    """The lemmas of ``cooperator.planner.learners`` that every round keeps."""
    by_identity: dict[str, list[Member]] = {}
    for member in view.members:
        by_identity.setdefault(member.identity, []).append(member)
    now_ms = view.now_ms

    def has_caught_up(task: TaskId, identity: str | None = None) -> bool:
        limit_bytes = view.stateful[task.connector].acceptable_lag_bytes
        return any(
            behind[task] <= limit_bytes
            for (name, _), behind in view.behind_bytes.items()
            if task in behind and identity in (None, name)
        )

    assert not view.stateful or decode_leader(encode_leader(after)) == after
    everyone_learns = all(member.learns for member in view.members) and not any(view.cannot_learn.values())
    warmups = {warmup.item: warmup for warmup in before.warmups}
    for member in view.members:
        for task in decided.assignments[member.member_id].revoked:
            why = decided.revoked_why[task].why
            if task.is_instance or task.connector not in view.stateful or not everyone_learns:
                continue
            known = warmups.get(task)
            over = (
                known is not None
                and known.since_ms + view.stateful[task.connector].warmup_timeout_ms <= now_ms
            )
            if why is Why.BALANCE:
                assert over or has_caught_up(task), f"{task} moves cold for balance"
            since_ms = before.departing.get(member.identity, now_ms)
            notices_ms = [ms // 2 for name, ms in view.facts.notices_ms if name == member.identity]
            is_late = now_ms >= since_ms + min([view.policy.depart_warm_ms, *notices_ms])
            # A task that is held for its member waits for no learner.
            if why is Why.DRAIN and task not in decided.held and member.identity not in view.facts.gone:
                assert over or is_late or has_caught_up(task), f"{task} moves cold before the deadline"
    under_way = [
        warmup
        for warmup in after.warmups
        if warmup.since_ms + view.stateful[warmup.connector].warmup_timeout_ms > now_ms
        and warmup.item not in after.standbys.get(warmup.identity, ())
    ]
    most = max((replicas.max_warmups for replicas in view.stateful.values()), default=0)
    assert len(under_way) <= most, f"{len(under_way)} learn at a time, at most {most} may"
    owners = {task: m.identity for m in view.members for task in {*m.owned} - m.stopping}
    for warmup in after.warmups:
        assert warmup.connector in view.stateful
        assert any(member.learns for member in by_identity[warmup.identity])
        assert owners.get(warmup.item) != warmup.identity, "it learns what it runs"
        earlier = warmups.get(warmup.item)
        if earlier is not None and earlier.identity == warmup.identity:
            assert earlier.since_ms == warmup.since_ms, "its time has begun anew"
    for identity, tasks in after.standbys.items():
        assert not {task for task in tasks if owners.get(task) == identity}, "a standby of itself"


def owned(group: UnreliableGroup) -> dict[str, set[TaskId]]:
    return {process.identity: set(process.running) for process in group.members()}


def of(*names: str) -> set[TaskId]:
    """Tasks by their short names: ``of("a", "a-0")``."""
    return set(_parse(names))


def _parse(names: Iterable[str]) -> Iterable[TaskId]:
    for name in names:
        connector, dash, number = name.partition("-")
        yield TaskId(connector, int(number) if dash else INSTANCE)
