"""What surrounds a supervisor, as far as it matters: a runtime, a broker, a leader, a clock.

``World`` is the machinery; what can happen in it is in the rules of the test.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from hypothesis.stateful import RuleBasedStateMachine

from cooperator.agent import events as ev
from cooperator.agent import instructions as do
from cooperator.agent.machine import Supervisor
from cooperator.agent.state import Report, Settings
from cooperator.model import INSTANCE, ClusterConfig, ConnectorConfig, Epoch, TaskId

LEASE_MS = 40_000
MARGIN_MS = 5_000
TASKS = [TaskId(connector, task) for connector in ("a", "b") for task in (INSTANCE, 0, 1)]


@dataclass
class Runtime:
    """Runs attempts, and tells of them some time later. ``runs``: what is going on, by task."""

    runs: dict[TaskId, int] = field(default_factory=dict)
    configs: dict[TaskId, Mapping[str, str]] = field(default_factory=dict)
    asked_to_stop: set[TaskId] = field(default_factory=set)
    ended: dict[TaskId, int] = field(default_factory=dict)
    telling: list[ev.Event] = field(default_factory=list)
    told: list[ev.Event] = field(default_factory=list)

    def start(self, task: TaskId, attempt: int, config: Mapping[str, str]) -> None:
        assert task not in self.runs, f"{task} would run twice"
        assert attempt > self.ended.get(task, 0), f"attempt {attempt} of {task} is over"
        self.runs[task] = attempt
        self.configs[task] = config

    def stop(self, task: TaskId, attempt: int) -> None:
        if self.runs.get(task) == attempt:
            self.asked_to_stop.add(task)
        else:
            self.telling.append(ev.Stopped(task, attempt))

    def end(self, task: TaskId) -> int:
        self.asked_to_stop.discard(task)
        self.ended[task] = self.runs.pop(task)
        return self.ended[task]


class World(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.now_ms = 1_000
        self.supervisor = Supervisor(Settings("lake-0", drain_timeout_ms=120_000))
        self.report = self.supervisor.report
        self.runtime = Runtime()
        self.timer_ms: int | None = None
        self.log = ClusterConfig()
        self.config = self.log
        self.lease_end_ms = 0
        self.depart_by_ms: int | None = None
        self.ended = False
        self.left = False
        # The broker and the leader.
        self.wants_rejoin = False
        self.joined: Report | None = None
        self.joins = 0
        self.answered_joins = 0
        self.member = False
        self.generation = 0
        self.shares: list[tuple[int, ev.ShareReceived]] = []
        self.past_shares: list[ev.ShareReceived] = []
        self.contacts: list[int] = []
        self.accepted_ms = 0
        self.elsewhere: set[TaskId] = set()
        self.believed: set[TaskId] = set()
        self.needs: dict[TaskId, int] = {}
        first = ConnectorConfig({"path": "x"}, tasks=({"unit": "u"}, {"unit": "v"}))
        self.put_config({"a": first, "b": first})
        self.config = self.log
        self.tell(ev.ConfigChanged(self.config))

    def tell(self, event: ev.Event) -> list[do.Instruction]:
        out = self.supervisor.handle(event, self.now_ms)
        self.report = self.supervisor.report
        for instruction in out:
            self.carry_out(instruction)
        return out

    def carry_out(self, instruction: do.Instruction) -> None:
        match instruction:
            case do.StartTask(task, attempt, config):
                assert config == self.config.task_config(task)
                assert self.config.offset >= self.needs[task]
                self.runtime.start(task, attempt, config)
            case do.StopTask(task, attempt):
                self.runtime.stop(task, attempt)
            case do.SetTimer(at_ms):
                assert at_ms is None or at_ms > self.now_ms
                self.timer_ms = at_ms
            case do.Rejoin():
                assert self.report != self.joined, "a rejoin with unchanged bytes makes no round"
                self.wants_rejoin = True
            case do.Leave():
                self.left = True
                in_peace = self.depart_by_ms is None or self.now_ms < self.depart_by_ms
                assert not (in_peace and self.believed), "leaves before the leader knows what it let go of"
            case do.Exit():
                assert not self.runtime.runs
                self.ended = True
            case do.KillGroup():
                self.runtime = Runtime()
                self.ended = True

    def put_config(self, connectors: dict[str, ConnectorConfig]) -> None:
        self.log = ClusterConfig(self.log.offset + 1, connectors)

    def hear(self, sent_at_ms: int) -> None:
        self.lease_end_ms = max(self.lease_end_ms, sent_at_ms + LEASE_MS)

    def complete_round(self, assigned: set[TaskId], revoked: set[TaskId], fate: str = "sent") -> None:
        joined = self.joined
        assert joined is not None
        self.joined = None
        self.generation += 1
        owned = set(joined.owned)
        if joined.draining:
            assigned, revoked = set(), owned
        share = ev.ShareReceived(
            Epoch(1, self.generation),
            joined,
            assigned=tuple(sorted(assigned - owned - self.elsewhere)),
            revoked=tuple(sorted((revoked & owned) | (self.elsewhere & owned))),
            config_offset=self.log.offset,
            lease_ms=LEASE_MS,
            leader_url="http://leader",
            error=1 if fate == "refused" else 0,
        )
        self.believed = (owned | set(share.assigned)) - set(share.revoked)
        if fate == "lost":
            # A SyncGroup without an answer: the membership joins again by itself.
            self.wants_rejoin = True
        else:
            self.shares.append((self.joins, share))

    def prove(self) -> None:
        """A request is sent, and the broker accepts it: the leader counts from here."""
        if self.member:
            self.accepted_ms = self.now_ms
            self.contacts.append(self.now_ms)
