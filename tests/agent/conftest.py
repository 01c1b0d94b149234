"""A supervisor to talk to: the test sends events one by one and reads the instructions that follow."""

from collections.abc import Mapping, Sequence
from typing import TypeVar

import pytest

from cooperator.agent import events as ev
from cooperator.agent import instructions as do
from cooperator.agent.machine import Supervisor
from cooperator.agent.state import Report, Settings
from cooperator.connectors.topics import GroupCluster
from cooperator.model import (
    AutoRestart,
    ClusterConfig,
    ConnectorConfig,
    Epoch,
    TargetState,
    TaskId,
    TaskState,
)
from tests.agent.surroundings import IN_MEMORY

T = TypeVar("T")
LEASE_MS = 40_000


class Conversation:
    """A supervisor with a clock. Answers omit the instructions SetTimer, Watch and PutStatus."""

    def __init__(self, settings: Settings) -> None:
        self.supervisor = Supervisor(settings)
        self.now_ms = 100_000
        self.generation = 0
        self.config = ClusterConfig()
        self.said: list[do.Instruction] = []

    @property
    def report(self) -> Report:
        return self.supervisor.report

    def tell(self, event: ev.Event) -> list[do.Instruction]:
        self.said = self.supervisor.handle(event, self.now_ms)
        self.supervisor.validate()
        return [one for one in self.said if not isinstance(one, do.SetTimer | do.Watch | do.PutStatus)]

    def statuses(self) -> list[tuple[str, TaskState]]:
        """The statuses in the last answer."""
        return [(str(one.status.task), one.status.state) for one in self.all(do.PutStatus)]

    def all(self, kind: type[T]) -> list[T]:
        return [one for one in self.said if isinstance(one, kind)]

    def time_passes(self, ms: int) -> list[do.Instruction]:
        """Returns all instructions of that time; a tick comes whenever a timer is due."""
        until_ms = self.now_ms + ms
        heard: list[do.Instruction] = []
        while (at_ms := self.supervisor.state.timer_ms) is not None and at_ms <= until_ms:
            self.now_ms = at_ms
            heard += self.tell(ev.Tick())
        self.now_ms = until_ms
        return heard

    def configure(
        self,
        path: str = "/in",
        target: TargetState = TargetState.STARTED,
        tasks: Sequence[Mapping[str, str]] = ({"unit": "0"}, {"unit": "1"}, {"unit": "2"}),
        auto_restart: AutoRestart | None = None,
    ) -> list[do.Instruction]:
        """Changes the configuration of connector a."""
        more = {} if auto_restart is None else auto_restart.settings()
        connector = ConnectorConfig({"path": path, **more}, target, tuple(tasks))
        self.config = ClusterConfig(self.config.offset + 1, {"a": connector})
        return self.tell(ev.ConfigChanged(self.config))

    def assignment(
        self,
        assigned: Sequence[TaskId] = (),
        revoked: Sequence[TaskId] = (),
        *,
        answers: Report | None = None,
        config_offset: int | None = None,
        epoch: Epoch | None = None,
        **more: object,
    ) -> list[do.Instruction]:
        """Completes a round: the broker answers, then the assignment arrives."""
        self.generation += 1
        self.tell(ev.Contact(self.now_ms))
        assignment = ev.AssignmentReceived(
            epoch=epoch or Epoch(1, self.generation),
            answers=answers or self.report,
            assigned=tuple(assigned),
            revoked=tuple(revoked),
            config_offset=self.config.offset if config_offset is None else config_offset,
            lease_ms=LEASE_MS,
            leader_url="http://leader/",
            member_id="member-1",
            **more,  # type: ignore[arg-type]
        )
        return self.tell(assignment)

    def run(self, *tasks: TaskId) -> None:
        """Assigns the tasks and confirms their starts."""
        for start in [one for one in self.assignment(tasks) if isinstance(one, do.StartTask)]:
            self.tell(ev.Started(start.task, start.attempt))

    def attempt(self, task: TaskId) -> int:
        return self.supervisor.state.tasks[task].attempt

    def stopped(self, task: TaskId) -> list[do.Instruction]:
        return self.tell(ev.Stopped(task, self.attempt(task)))


@pytest.fixture(autouse=True)
def _logs_in_memory_have_no_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise instances would wait for the brokers of the group, whose cluster owns their checkpoints."""
    of_brokers = GroupCluster.id

    def cluster_id(cluster: GroupCluster) -> str:
        return "" if cluster._resolver.bootstrap_servers == IN_MEMORY else of_brokers(cluster)

    monkeypatch.setattr(GroupCluster, "id", cluster_id)


@pytest.fixture
def member() -> Conversation:
    talk = Conversation(Settings("lake-0", drain_timeout_ms=300_000))
    talk.configure()
    return talk
