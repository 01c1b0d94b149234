"""A reconciled group in unfriendly surroundings: a leader with a log, members, a broker, and messages.

The broker keeps members by their heartbeats, and tells each one the leader's term in a round, as Kafka's
group protocol does. Reports and answers travel on their own, are lost, late, repeated and overtake each
other. Members freeze, lose their network, die with and without proof, and come back. A new leader continues
from the log, while its predecessor still answers. A leader may hold a report before it considers it, and
gives new tasks to others that a member does not take up in time. A member keeps to its lease, and its
watchdog kills it soon after the lease has ended, even if it is frozen.
"""

import heapq
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from random import Random

from cooperator.model import TaskId
from cooperator.reconciliation import (
    Answer,
    ReconciledGroup,
    Records,
    Rejection,
    Report,
    apply_answer,
    changes,
    depart,
    end,
    expire,
    fold,
    handle_report,
    join,
    late,
    next_report,
    overdue,
    retarget,
    told_term,
    waiting,
    waits,
    withdrawn,
)
from cooperator.reconciliation.reporting import NO_TERM, ReportingMember

TICK_MS = 500
RETRY_MS = 3_000
SESSION_MS = 10_000
LEASE_MS = 15_000
KILL_AFTER_MS = 1_000
FENCE_MS = LEASE_MS + 2_000
REVOCATION_TIMEOUT_MS = 20_000
START_MS = 1_000_000


class TaskRunsTwice(Exception):
    """Two processes may run one task."""


@dataclass
class Process:
    """One incarnation. ``runs``: by task, when (ms) its stop ends; None: it is not being stopped."""

    side: ReportingMember
    beat_ms: int
    runs: dict[TaskId, int | None] = field(default_factory=dict)
    frozen: bool = False
    cut_off: bool = False
    alive: bool = True
    reports_again: bool = False
    stop_ms: int = 50

    @property
    def identity(self) -> str:
        return self.side.identity

    @property
    def incarnation(self) -> str:
        return self.side.incarnation


@dataclass
class Leader:
    """``deposed``: it has not noticed that its writes would fail."""

    group: ReconciledGroup
    deposed: bool = False

    @property
    def term(self) -> int:
        return self.group.term


@dataclass
class Faults:
    """Shares of messages (0 to 1), and the longest delay. ``held``: the share of reports that are held."""

    lost: float = 0.0
    repeated: float = 0.0
    longest_delay_ms: int = 20
    held: float = 0.0
    longest_hold_ms: int = 5_000


class GroupSimulation:
    def __init__(self, seed: int, tasks: int = 12) -> None:
        self.random = Random(seed)
        self.now_ms = START_MS
        self.faults = Faults()
        self.tasks = frozenset(TaskId(f"c{number % 3}", number // 3 - 1) for number in range(tasks))
        self.log: list[Records] = []
        self.processes: dict[str, Process] = {}
        self.in_group: dict[str, Process] = {}
        self.leaders: dict[int, Leader] = {}
        self.layout: dict[str, frozenset[TaskId]] = {}
        self.counts: Counter[str] = Counter()
        self._incarnations = 0
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._order = 0
        self.applies_any_answer = False
        self.takes_late_members_for_dead = False
        self._waits_ms: Mapping[str, int] = {}
        self._late_at_ms: int | None = None
        self._changed = False
        self.lead()
        self._after(TICK_MS, self._leader_tick)

    # --- faults -----------------------------------------------------------------------------------------

    def start(self, identity: str) -> Process:
        """Start a new incarnation, which joins at its next heartbeat."""
        self._incarnations += 1
        process = Process(ReportingMember(identity, f"{identity}#{self._incarnations}"), self.now_ms)
        self.processes[identity] = process
        self._member_tick(process)
        return process

    def kill(self, identity: str, proven: bool) -> None:
        process = self.processes.pop(identity)
        process.alive = False
        if proven:
            self._after(self.random.randint(1, 3_000), lambda: self._prove_end(process))

    def lead(self) -> None:
        """A new leader removes all members from the group, which join again, and continues from the log."""
        for leader in self.leaders.values():
            leader.deposed = True
        group = fold(self.log)
        leader = Leader(replace(group, term=group.term + 1))
        self._log(changes(group, leader.group))
        self.leaders[leader.term] = leader
        self.in_group.clear()
        self._regroup()

    @property
    def leader(self) -> Leader:
        return self.leaders[max(self.leaders)]

    def relayout(self) -> None:
        """Give every task to a random identity that is in the group, or keeps its place for another one."""
        identities = sorted(self.in_group)
        layout: dict[str, set[TaskId]] = {identity: set() for identity in identities}
        places = {task: identity for identity, tasks in self.layout.items() for task in tasks}
        for task in sorted(self.tasks) if identities else ():
            moves = places.get(task) not in layout or self.random.random() < 0.4
            layout[self.random.choice(identities) if moves else places[task]].add(task)
        self.set_layout(layout)

    def set_layout(self, layout: dict[str, set[TaskId]]) -> None:
        self.layout = {identity: frozenset(tasks) for identity, tasks in layout.items()}
        self._write(self.leader, retarget(self.leader.group, self.layout))

    # --- time -------------------------------------------------------------------------------------------

    def run(self, duration_ms: int, until: Callable[[], bool] = lambda: False) -> bool:
        """Let time pass, at most ``duration_ms``; returns whether ``until`` has come true."""
        end_ms = self.now_ms + duration_ms
        while self._events and self._events[0][0] <= end_ms:
            self.now_ms, _, action = heapq.heappop(self._events)
            action()
            if self._changed:
                self._changed = False
                self.check()
                if until():
                    return True
        self.now_ms = end_ms
        return until()

    def check(self) -> None:
        """Raise TaskRunsTwice, or BrokenInvariant of the leader's group."""
        found: dict[TaskId, str] = {}
        for process in self.processes.values():
            for task in process.runs:
                if task in found:
                    raise TaskRunsTwice(f"{self.now_ms}: {task} at {found[task]} and {process.incarnation}")
                found[task] = process.incarnation
        self.leader.group.validate()

    def running(self, identity: str) -> frozenset[TaskId]:
        runs = self.processes[identity].runs if identity in self.processes else {}
        return frozenset(task for task, stops_ms in runs.items() if stops_ms is None)

    def is_settled(self) -> bool:
        return self.leader.group.is_settled and all(
            self.running(identity) == tasks for identity, tasks in self.layout.items()
        )

    def _after(self, delay_ms: int, action: Callable[[], None]) -> None:
        self._order += 1
        heapq.heappush(self._events, (self.now_ms + delay_ms, self._order, action))

    def _send(self, deliver: Callable[[], None]) -> None:
        """Deliver a message once, twice or never."""
        for _ in range(1 + (self.random.random() < self.faults.repeated)):
            if self.random.random() < self.faults.lost:
                self.counts["lost"] += 1
                continue
            self._after(self.random.randint(1, self.faults.longest_delay_ms), deliver)

    # --- members ----------------------------------------------------------------------------------------

    def _member_tick(self, process: Process) -> None:
        if not process.alive:
            return
        if self.now_ms >= process.beat_ms + LEASE_MS + KILL_AFTER_MS:
            # Its watchdog.
            self.counts["killed"] += 1
            self.kill(process.identity, proven=self.random.random() < 0.5)
            return
        self._after(TICK_MS, lambda: self._member_tick(process))
        if process.frozen:
            return
        if self.now_ms >= process.beat_ms + LEASE_MS:
            process.runs.clear()
        if not process.cut_off:
            process.beat_ms = self.now_ms
            self._heartbeat(process)
        process.runs = {t: at for t, at in process.runs.items() if at is None or at > self.now_ms}
        self.report(process)

    def report(self, process: Process) -> None:
        """Send a report, unless one is on its way that may still be answered."""
        if process.cut_off or process.frozen or not process.alive:
            return
        waits = process.side.sent_ms is not None
        process.side, report = next_report(process.side, process.runs, self.now_ms, RETRY_MS)
        process.reports_again = waits and report is None
        if report is not None:
            self._send(lambda: self._leader_hears(report, process))

    def _member_hears(self, process: Process, answer: Answer | Rejection, sequence: int) -> None:
        if process.frozen and process.alive:
            # It reads its sockets when it goes on.
            self._after(TICK_MS, lambda: self._member_hears(process, answer, sequence))
            return
        if not process.alive:
            return
        if self.applies_any_answer and isinstance(answer, Answer):
            may_run: frozenset[TaskId] | None = frozenset(answer.assigned)
        else:
            process.side, may_run = apply_answer(process.side, answer, sequence, self.now_ms, LEASE_MS)
        if may_run is not None:
            self._changed = True
            self._run_only(process, may_run, at_once=isinstance(answer, Rejection))
        if process.reports_again or answer is Rejection.STALE_REPORT:
            self.report(process)

    def _run_only(self, process: Process, tasks: frozenset[TaskId], at_once: bool) -> None:
        if at_once:
            process.runs.clear()
        for task in tasks:
            process.runs.setdefault(task, None)
        for task, stops_ms in process.runs.items():
            if task not in tasks and stops_ms is None:
                process.runs[task] = self.now_ms + process.stop_ms
                self._after(process.stop_ms, lambda: self._stopped(process))

    def _stopped(self, process: Process) -> None:
        if process.frozen:
            return
        before = len(process.runs)
        process.runs = {t: at for t, at in process.runs.items() if at is None or at > self.now_ms}
        if len(process.runs) < before:
            self.report(process)

    # --- the broker -------------------------------------------------------------------------------------

    def _heartbeat(self, process: Process) -> None:
        if self.in_group.get(process.identity) is not process:
            self.in_group[process.identity] = process
            process.side = told_term(process.side, NO_TERM)
            self._regroup()

    def _regroup(self) -> None:
        """A round: the leader learns who is in the group, and the members learn its term."""
        leader = self.leader
        group = leader.group
        for identity, process in self.in_group.items():
            group = join(group, identity, process.incarnation, self.now_ms, FENCE_MS)
            if process.side.term != leader.term:
                self._send(lambda process=process: self._synced(process, leader.term))
        for identity in [*group.members]:
            if identity not in self.in_group:
                group = depart(group, identity, self.now_ms, FENCE_MS)
        self._write(leader, group)

    def _synced(self, process: Process, term: int) -> None:
        if self.in_group.get(process.identity) is process and term == self.leader.term:
            process.side = told_term(process.side, term)

    def _expire_sessions(self) -> None:
        for identity, process in list(self.in_group.items()):
            if self.now_ms >= process.beat_ms + SESSION_MS:
                del self.in_group[identity]
                self.counts["expired"] += 1

    # --- the leader -------------------------------------------------------------------------------------

    def _leader_tick(self) -> None:
        self._after(TICK_MS, self._leader_tick)
        self._expire_sessions()
        self._regroup()
        leader = self.leader
        self._write(leader, expire(leader.group, self.now_ms))
        for identity in overdue(leader.group, self.now_ms):
            if identity in self.processes:
                self.counts["overdue"] += 1
                self.kill(identity, proven=True)
        self._wake_waiting()

    def _prove_end(self, process: Process) -> None:
        if self.in_group.get(process.identity) is process:
            del self.in_group[process.identity]
        self._write(self.leader, end(self.leader.group, process.identity, process.incarnation))

    def _leader_hears(self, report: Report, process: Process) -> None:
        if self.faults.held and self.random.random() < self.faults.held:
            hold_ms = self.random.randint(1, self.faults.longest_hold_ms)
            self._after(hold_ms, lambda: self._leader_considers(report, process, is_held=True))
        else:
            self._leader_considers(report, process, is_held=False)

    def _leader_considers(self, report: Report, process: Process, is_held: bool) -> None:
        leader = self.leaders.get(report.term, self.leader)
        group, answer = handle_report(leader.group, report, self.now_ms, REVOCATION_TIMEOUT_MS, is_held)
        if leader.deposed and changes(leader.group, group):
            # The log refuses its transaction.
            del self.leaders[leader.term]
            return
        self.counts[answer if isinstance(answer, Rejection) else answer.state] += 1
        self._send(lambda: self._member_hears(process, answer, report.sequence))
        self._write(leader, group)

    def _look_for_late_members(self) -> None:
        """Wake when the first member is late with its new tasks."""
        self._waits_ms = waits(self._waits_ms, self.leader.group, self.now_ms)
        at_ms = min(self._waits_ms.values(), default=None)
        if at_ms is not None and at_ms != self._late_at_ms:
            self._late_at_ms = at_ms
            self._after(max(1, at_ms - self.now_ms), self.give_to_others)

    def give_to_others(self) -> None:
        """Give the tasks that late members have not taken up to random other ones."""
        group = self.leader.group
        # The group has changed since: all of them are its members again.
        self._waits_ms = waits(self._waits_ms, group, self.now_ms)
        found = late(self._waits_ms, group, self.now_ms)
        if self.takes_late_members_for_dead:
            for identity in found & self.leader.group.members.keys():
                incarnation = self.leader.group.members[identity].incarnation
                self._write(self.leader, end(self.leader.group, identity, incarnation))
        taken = withdrawn(self.leader.group, found)
        others = sorted(self.leader.group.members.keys() - found)
        if taken:
            self.counts["withdrawn"] += 1
            gone = frozenset[TaskId]().union(*taken.values())
            layout = {i: set(t.tasks - gone) for i, t in self.leader.group.targets.items()}
            for task in sorted(gone):
                layout.setdefault(self.random.choice(others), set()).add(task)
            self.set_layout(layout)

    def _wake_waiting(self) -> None:
        """Answer the requests that are held open, so that these members report again."""
        for identity in waiting(self.leader.group):
            if identity in self.processes:
                process = self.processes[identity]
                self._send(lambda process=process: self.report(process))

    def _write(self, leader: Leader, group: ReconciledGroup) -> None:
        """Make the leader's new group durable; whoever it concerns is told."""
        records = changes(leader.group, group)
        leader.group = group
        if records and not leader.deposed:
            self._log(records)
            self._wake_waiting()
        if not leader.deposed:
            self._look_for_late_members()

    def _log(self, records: Records) -> None:
        if records:
            self._changed = True
            self.log.append(records)
            self.counts["records"] += len(records)
