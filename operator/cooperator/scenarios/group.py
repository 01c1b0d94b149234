"""A simulated group: membership, config log and time, by the rules that produced the test vectors.

Starts, stops and rounds take no time. A worker that had to stop something, or did not get its assignment,
rejoins after ``rejoin_ms`` (one timer for the group); a delay makes all members rejoin at its end.
Everything that is due at one time makes one round; an empty group has none.

Cooperator's members keep to their lease: a process that the broker has dropped stops everything ``lease_ms``
later. Stock workers have no lease, and keep running.
"""

from collections.abc import Mapping

from cooperator.model import INSTANCE, TaskId
from cooperator.scenarios.meter import HAND_OVER_MS, Meter
from cooperator.scenarios.scenario import QUIET, Event, Scenario
from cooperator.scenarios.state import ScenarioState
from cooperator.scenarios.workers import Process, member_id, pod_name

FIRST_OFFSET = 2
"""The config offset with which the vectors start, whatever the number of connectors."""


class ScenarioGroup:
    """The processes, the configuration and the timers of a simulated group."""

    def __init__(self, scenario: Scenario, lease_ms: int | None = None, now_ms: int = 0) -> None:
        self.scenario, self.lease_ms = scenario, lease_ms
        self.now_ms = now_ms
        self.config: Mapping[str, int] = dict(scenario.config0)
        self.config_offset = FIRST_OFFSET
        self.generation = 0
        self.leader_id = ""
        self.meter = Meter(scenario.rejoin_ms or HAND_OVER_MS)
        self.state = ScenarioState(scenario)
        self.meter.configure(self.items(), now_ms)
        self.processes: dict[int, Process] = {}
        self.ended: set[tuple[str, str]] = set()
        self.unstarted: set[TaskId] = set()
        self.cordoned: set[str] = set()
        self.expected: frozenset[str] | None = None
        self.rejoin_at_ms: int | None = None
        self.leader_timer_ms: int | None = None
        self._fail_next: dict[int, bool] = {}
        self._memberships: dict[int, int] = {}
        self._incarnations: dict[int, int] = {}
        self._joins = 0
        for pod in scenario.workers0:
            self._join(self._new_process(pod))

    def admit(self, process: Process) -> None:
        """Add a member that is in the group already, with the items that it runs."""
        self.processes[process.pod] = process
        for item in process.running:
            self.meter.appears(item, self.now_ms)
            self.meter.last_member[item] = (process.member_id, process.pod)
        self._joins += 1
        process.joined, process.in_group = self._joins, True

    # Observable state

    def items(self) -> frozenset[TaskId]:
        return frozenset(
            TaskId(c, task) for c, count in self.config.items() for task in range(INSTANCE, count)
        )

    def members(self) -> list[Process]:
        """Return the members of the group, in the order in which Kafka's leader iterates over them."""
        return sorted((p for p in self.processes.values() if p.in_group), key=lambda p: p.member_id)

    def leader(self) -> Process:
        """Return the member that the broker makes leader: the present one, or else the first that joined."""
        members = self.members()
        for member in members:
            if member.member_id == self.leader_id:
                return member
        leader = min(members, key=lambda member: member.joined)
        self.leader_id = leader.member_id
        return leader

    def offset_of(self, process: Process) -> int:
        return self.config_offset if process.frozen is None else process.frozen[0]

    def config_of(self, process: Process) -> Mapping[str, int]:
        return self.config if process.frozen is None else process.frozen[1]

    # Time

    def advance(self, to_ms: int) -> None:
        """Advance the time; leases may expire on the way."""
        for process in self.processes.values():
            expires_ms = process.lease_expires_ms
            if not process.in_group and expires_ms is not None and expires_ms <= to_ms:
                self.meter.stops(process.running, expires_ms)
                process.running, process.lease_expires_ms = {}, None
        self.now_ms = to_ms

    def next_timer_ms(self) -> int | None:
        """Return when the next timer is due."""
        timers = [m.scheduled_ms for m in self.members() if m.scheduled_ms is not None and not m.dead]
        timers += [at_ms for at_ms in (self.rejoin_at_ms, self.leader_timer_ms) if at_ms is not None]
        return min(timers, default=None)

    def take_timers(self) -> list[str]:
        """Return the triggers that are due now, and clear their timers."""
        due = []
        if self.rejoin_at_ms is not None and self.rejoin_at_ms <= self.now_ms:
            self.rejoin_at_ms = None
            due.append("rejoin")
        scheduled = False
        if self.leader_timer_ms is not None and self.leader_timer_ms <= self.now_ms:
            self.leader_timer_ms = None
            scheduled = True
        for member in self.members():
            if member.scheduled_ms is not None and member.scheduled_ms <= self.now_ms:
                member.scheduled_ms = None
                scheduled = True
        return [*due, "scheduled"] if scheduled else due

    def want_rejoin(self) -> None:
        """Request a rejoin after ``rejoin_ms``; requests merge into the earliest."""
        at_ms = self.now_ms + self.scenario.rejoin_ms
        self.rejoin_at_ms = at_ms if self.rejoin_at_ms is None else min(self.rejoin_at_ms, at_ms)

    def undelivered(self) -> dict[str, bool]:
        """Return the member ids that the next assignment will not reach, and whether each dies of it."""
        failing: dict[str, bool] = {}
        for member in self.members():
            if member.dead or member.pod in self._fail_next:
                failing[member.member_id] = member.dead or self._fail_next[member.pod]
        self._fail_next.clear()
        return failing

    def finish_stops(self) -> None:
        """Complete the stops that were under way when the simulation began."""
        for member in self.members():
            if member.stopping:
                self.meter.stops(member.stopping, self.now_ms)
                member.running = {item: None for item in member.running if item not in member.stopping}
                member.stopping = frozenset()
                self.want_rejoin()

    def configure(self, config: Mapping[str, int]) -> None:
        """Set the config log to ``config`` (number of tasks per connector) from now on."""
        self.config = config
        self.config_offset += 1
        self.meter.configure(self.items(), self.now_ms)

    # Events

    def apply(self, event: Event) -> bool:
        """Apply ``event``; return whether it triggers a round."""
        handler = getattr(self, f"_on_{event.type}")
        handler(event)
        return event.type not in QUIET

    def _on_join(self, event: Event) -> None:
        self._join(self._new_process(event.pod))

    def _on_join_with(self, event: Event) -> None:
        process = self._new_process(event.pod)
        process.running = dict.fromkeys(event.items)
        for item in event.items:
            self.meter.appears(item, self.now_ms)
        self._join(process)

    def _on_leave(self, event: Event) -> None:
        self.end(self.processes.get(event.pod))

    def _on_kick(self, event: Event) -> None:
        process = self.processes.get(event.pod)
        if process is not None and process.in_group:
            process.in_group, process.scheduled_ms = False, None
            process.lease_expires_ms = None if self.lease_ms is None else self.now_ms + self.lease_ms

    def _on_rejoin_running(self, event: Event) -> None:
        process = self.processes.get(event.pod)
        if process is not None and not process.in_group:
            self._join(process)

    def _on_freeze(self, event: Event) -> None:
        process = self.processes.get(event.pod)
        if process is not None and process.frozen is None:
            process.frozen = (self.config_offset, self.config)

    def _on_fail_next(self, event: Event) -> None:
        self._fail_next.update(dict.fromkeys(event.pods, event.dead))

    def _on_set(self, event: Event) -> None:
        self.configure({**self.config, event.connector: event.count})

    def _on_delete(self, event: Event) -> None:
        self.configure({name: count for name, count in self.config.items() if name != event.connector})

    def _on_rebalance(self, event: Event) -> None:
        """Change nothing; the event only triggers a round."""

    def _on_drain(self, event: Event) -> None:
        process = self.processes.get(event.pod)
        if process is not None:
            process.draining = True

    def _on_cordon(self, event: Event) -> None:
        self.cordoned.add(pod_name(event.pod))

    def _on_uncordon(self, event: Event) -> None:
        self.cordoned.discard(pod_name(event.pod))

    def _on_expect(self, event: Event) -> None:
        self.expected = frozenset(map(pod_name, event.pods))

    def _on_vanish(self, event: Event) -> None:
        self.end(self.processes.get(event.pod), proven=False)

    def end(self, process: Process | None, proven: bool = True) -> None:
        """End the process, in the group or not; unless ``proven``, there is no proof of its end."""
        if process is None:
            return
        if not process.dead:
            self.meter.dies(process, self.now_ms)
        del self.processes[process.pod]
        if proven:
            self.ended.add((process.name, process.incarnation))

    def dies_unnoticed(self, process: Process) -> None:
        """End the process without the broker noticing yet."""
        if not process.dead:
            self.meter.dies(process, self.now_ms)
            process.dead = True

    def _new_process(self, pod: int) -> Process:
        self.end(self.processes.get(pod))
        self._incarnations[pod] = self._incarnations.get(pod, 0) + 1
        name = self.scenario.names.get(pod, "")
        process = Process(pod, f"{name or pod_name(pod)}#{self._incarnations[pod]}", identity=name)
        self.processes[pod] = process
        return process

    def _join(self, process: Process) -> None:
        self._memberships[process.pod] = self._memberships.get(process.pod, 0) + 1
        process.member_id = member_id(process.pod, self._memberships[process.pod])
        self._joins += 1
        process.joined, process.in_group = self._joins, True
