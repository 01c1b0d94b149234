"""Two fabrics, Kafka and memory, with one interface for tests of the logs."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from confluent_kafka.admin import AdminClient

from cooperator.local.broker import EmbeddedBroker
from cooperator.logs import (
    KafkaTransport,
    Logs,
    LogsConfig,
    MemoryBroker,
    MemoryTransport,
    Transport,
    ensure_topics_of,
)
from cooperator.model import Epoch, TaskId, TaskState, TaskStatus
from cooperator.wire import CommitRecord, ConnectorRecord, Owner, Record, TaskRecord, encode_config


class Fabric(Protocol):
    """A broker and its clients."""

    def transport(self, group_id: str, on_outage: Callable[[str], None]) -> Transport: ...
    def stop(self) -> None: ...
    def start(self) -> None: ...
    def delete(self, topic: str) -> None: ...


@dataclass
class MemoryFabric:
    broker: MemoryBroker = field(default_factory=MemoryBroker)

    def transport(self, group_id: str, on_outage: Callable[[str], None]) -> Transport:
        return MemoryTransport(self.broker, on_outage)

    def stop(self) -> None:
        self.broker.stop()

    def start(self) -> None:
        self.broker.start()

    def delete(self, topic: str) -> None:
        self.broker.delete(topic)


@dataclass
class KafkaFabric:
    broker: EmbeddedBroker

    def transport(self, group_id: str, on_outage: Callable[[str], None]) -> Transport:
        return KafkaTransport(self.broker.bootstrap_servers, group_id, {}, on_outage)

    def stop(self) -> None:
        self.broker.kill()

    def start(self) -> None:
        self.broker.start()

    def delete(self, topic: str) -> None:
        admin = AdminClient({"bootstrap.servers": self.broker.bootstrap_servers, "log_level": 0})
        admin.delete_topics([topic])[topic].result(10)


@dataclass
class LogsUnderTest:
    """The logs of one group in a fabric; everything opened is closed at the end."""

    fabric: Fabric
    config: LogsConfig
    opened: list[Logs] = field(default_factory=list)
    outages: list[str] = field(default_factory=list)

    def transport(self) -> Transport:
        return self.fabric.transport(self.config.group_id, lambda _: None)

    def ensure(self) -> None:
        ensure_topics_of(self.transport(), self.config.topic_names, -1, 10_000)

    def open(self) -> Logs:
        """Opens the logs with clients of their own, as another process would. ``outages`` records those of
        the first."""
        report = self.outages.append if not self.opened else lambda _: None
        logs = Logs(self.fabric.transport(self.config.group_id, report), self.config)
        self.opened.append(logs)
        return logs

    def close(self) -> None:
        for logs in self.opened:
            logs.close()


MS = 20_000
X = TaskId("x", 0)
RUNNING = TaskStatus(X, TaskState.RUNNING, "lake-0", Epoch(1, 1))
OWNER = Owner("local", "default", "lake")


def connector(version: int = 1) -> Record:
    return encode_config(ConnectorRecord("x", {"version": str(version)}))


def tasks(count: int) -> list[Record]:
    written = [encode_config(TaskRecord(TaskId("x", n), {"n": str(n)})) for n in range(count)]
    return [*written, encode_config(CommitRecord("x", count))]


def leading(under_test: LogsUnderTest) -> Logs:
    logs = under_test.open()
    logs.writer.open()
    return logs
