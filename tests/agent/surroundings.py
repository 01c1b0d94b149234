"""Test doubles for the group and the watchdog, and a member that uses them."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cooperator.agent.elected_lead import MakeLead
from cooperator.agent.main import Agent, Parts, make_runtime
from cooperator.agent.options import RuntimeKind, WorkerOptions
from cooperator.connectors.noop import Noop
from cooperator.connectors.units import task_configs
from cooperator.group import GroupConfig, Joined, Listener
from cooperator.logs import Logs, LogsConfig, MemoryBroker, MemoryTransport, ensure_topics_of
from cooperator.model import Epoch, TaskId, without_reserved
from cooperator.runtime import Runtime, RuntimeListener
from cooperator.wire import (
    AgentAssignment,
    CommitRecord,
    ConnectorRecord,
    ExtendedAssignment,
    Metadata,
    Protocol,
    Record,
    TaskRecord,
    decode_metadata,
    encode_assignment,
    encode_config,
)
from tests.harness.journal import Journal
from tests.harness.support import eventually

IN_MEMORY = "memory:1"
"""The address of brokers that do not exist."""


class Group:
    """A group whose rounds complete when the test says so; joins are sent at once."""

    def __init__(self, config: GroupConfig, listener: Listener) -> None:
        self.config = config
        self.listener = listener
        self.generation = 0
        self.joins: list[Metadata] = []
        self.reasons: list[str] = []
        self.left: bool | None = None

    def start(self) -> None:
        self.join()

    def rejoin(self, reason: str) -> None:
        self.reasons.append(reason)
        self.join()

    def evict(self, member_ids: Sequence[str]) -> None:
        raise AssertionError("a member that does not lead evicts nobody")

    def stop(self, leave: bool, timeout_s: float) -> None:
        self.left = leave if self.left is None else self.left

    def join(self) -> None:
        self.joins.append(decode_metadata(dict(self.listener.protocols())[Protocol.SESSIONED.value]))

    def assignment(
        self,
        assigned: Sequence[TaskId] = (),
        revoked: Sequence[TaskId] = (),
        config_offset: int = -1,
        leader_url: str = "http://127.0.0.1:1/",
    ) -> None:
        self.generation += 1
        assignment = ExtendedAssignment(
            0,
            "operator",
            leader_url,
            config_offset,
            tuple(assigned),
            tuple(revoked),
            agent=AgentAssignment(Epoch(1, self.generation), 40_000),
        )
        self.listener.contact(time.monotonic())
        data = encode_assignment(assignment, Protocol.SESSIONED)
        self.listener.joined(Joined(self.generation, "member-1", "sessioned", data))


class Watchdog:
    """Records its calls and kills nothing."""

    def __init__(self) -> None:
        self.watching: list[int | None] = []
        self.killed = 0
        self.closed = False

    def watch(self, kill_at_ms: int | None) -> None:
        self.watching.append(kill_at_ms)

    def kill(self) -> None:
        self.killed += 1

    def close(self) -> None:
        self.closed = True


def noop_records(name: str, task_units: Sequence[str], journal: Path, **options: str) -> tuple[Record, ...]:
    """The records of a ``noop`` connector in the config log; ``task_units`` lists the units of each task.

    They equal what its instance would write for units unit-0, unit-1, … if each task has as many.
    """
    units = ",".join(task_units).split(",")
    tasks_max = len(task_units)
    config = {
        "connector.class": "noop",
        "journal": str(journal),
        "units": str(len(units)),
        "tasks.max": str(tasks_max),
        **options,
    }
    computed = task_configs(Noop(), without_reserved(config), units, tasks_max)
    return (
        encode_config(ConnectorRecord(name, config)),
        *(
            encode_config(TaskRecord(TaskId(name, task), {**computed[task], "task.units": group}))
            for task, group in enumerate(task_units)
        ),
        encode_config(CommitRecord(name, tasks_max)),
    )


@dataclass
class LocalMember:
    """A member on a thread of this process; the test provides its group, logs and watchdog."""

    directory: Path
    runtime: Callable[[WorkerOptions, RuntimeListener], Runtime] = make_runtime
    lead: MakeLead | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    identity: str = "lake-0"

    def __post_init__(self) -> None:
        self.logs_config = LogsConfig("memory", "lake")
        transport = MemoryTransport(MemoryBroker())
        ensure_topics_of(transport, self.logs_config.topic_names, 1, 5_000)
        self.logs = Logs(transport, self.logs_config)
        self.logs.writer.open()
        self.journal = Journal(self.directory / "journal.jsonl")
        self.watchdog = Watchdog()
        self.code: int | None = None
        options = WorkerOptions(
            group_id="lake",
            bootstrap_servers=IN_MEMORY,
            identity=self.identity,
            incarnation="incarnation-1",
            state_dir=self.directory / "state",
            checkpoints=self.directory / "checkpoints",
            runtime=RuntimeKind.INLINE,
            journal=self.journal.path,
            **self.options,
        )
        parts = Parts(group=self._group, logs=lambda _: self.logs, runtime=self.runtime, lead=self.lead)
        self.agent = Agent(options, self.watchdog, parts)
        self._thread = threading.Thread(target=self._run)

    def _group(self, config: GroupConfig, listener: Listener) -> Group:
        self.group = Group(config, listener)
        return self.group

    def _run(self) -> None:
        self.code = self.agent.run()

    def start(self) -> None:
        self.agent.open()
        self._thread.start()
        eventually(lambda: self.group.joins, 10)

    def deliver(self, generation: int, member_id: str, protocol: str, assignment: bytes) -> None:
        """The broker answers the member's last JoinGroup with this assignment."""
        self.group.listener.contact(time.monotonic())
        self.group.listener.joined(Joined(generation, member_id, protocol, assignment))

    def write(self, *records: Record) -> int:
        """Writes to the config log; returns the offset that an assignment has to carry."""
        return self.logs.writer.write_config(records)

    def ended(self) -> int:
        self._thread.join(20)
        assert self.code is not None, "the member still runs"
        return self.code

    def stop(self) -> None:
        if self._thread.is_alive():
            self.agent.stop()
            self.ended()
