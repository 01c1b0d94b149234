"""One Spark runtime and one broker for all tests of this package that need them."""

import faulthandler
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryFile
from threading import Event
from typing import Any

from confluent_kafka import Consumer, Message, Producer, TopicPartition

from cooperator.connectors.output import read_units
from cooperator.connectors.topics import ensure_topic, partition_counts
from cooperator.local.broker import EmbeddedBroker
from cooperator.model import INSTANCE, Epoch, TaskId
from cooperator.runtime import RuntimeSettings, TaskSpec
from cooperator.runtime.spark import SparkRuntime
from tests.harness.support import eventually
from tests.runtime.heard import Heard

Lines = Counter[tuple[str, str]]
"""Maps (relative path, line) to the number of its occurrences."""


def write_files(root: Path, names: list[str], lines: int) -> Lines:
    """Writes files whose lines name their place; returns what a reader must find."""
    wanted: Lines = Counter()
    for name in names:
        content = [f"line {number} of {name}" for number in range(lines)]
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        partial = file.with_name(f".{file.name}")
        partial.write_text("\n".join(content))
        partial.rename(file)
        wanted.update((name, line) for line in content)
    return wanted


LINES_SQL = (
    "SELECT get_json_object(value, '$.path') AS path, get_json_object(value, '$.line') AS line, "
    "partition, offset FROM input"
)


def lines_in(output: Path) -> Lines:
    """The committed lines of an output that was made with ``LINES_SQL``."""
    table = read_units(output)
    if table.num_rows == 0:
        return Counter()
    return Counter(zip(table["path"].to_pylist(), table["line"].to_pylist(), strict=True))


def to_files(output: Path, topic: str) -> dict[str, str]:
    """Options that copy the first partition of a topic, a few lines per batch, for ``lines_in``."""
    return {
        "connector.class": "kafka-to-files",
        "path": str(output),
        "topics": topic,
        "sql": "SELECT 'one' AS path, value AS line FROM input",
        "trigger.interval.ms": "200",
        "rotate.interval.ms": "0",
        "max.offsets.per.trigger": "50",
        "task.units": f"{topic}-0",
    }


def query_to_files(output: Path, topic: str, bootstrap_servers: str) -> dict[str, str]:
    """Options of the class spark that do the same, by Spark's own file sink."""
    return {
        "connector.class": "spark",
        "source.format": "kafka",
        "source.options.kafka.bootstrap.servers": bootstrap_servers,
        "source.options.assign": json.dumps({topic: [0]}),
        "source.options.startingOffsets": "earliest",
        "source.options.maxOffsetsPerTrigger": "50",
        "sink.format": "parquet",
        "sink.options.path": f"{output}/unit-0",
        "transform.sql": "SELECT 'one' AS path, CAST(value AS STRING) AS line FROM input",
        "trigger.interval.ms": "200",
        "task.units": "unit-0",
    }


@contextmanager
def member(member_options: dict[str, object], log: Path) -> Iterator[int]:
    """Starts a process group (yields its id), which is killed at the end, whatever it is doing."""
    script = Path(__file__).with_name("member.py")
    with log.open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, str(script), json.dumps(member_options)],
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield process.pid
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@contextmanager
def spark_bench(broker: EmbeddedBroker, root: Path, **more: Any) -> Iterator["SparkBench"]:
    """A Spark runtime with its files below ``root``; ``more`` are further settings."""
    settings = RuntimeSettings(
        member="lake-0",
        incarnation="incarnation-1",
        checkpoints=root / "checkpoints",
        state_dir=root / "state",
        group_id=root.name,
        bootstrap_servers=broker.bootstrap_servers,
        **more,
    )
    heard = Heard()
    runtime = SparkRuntime(settings, heard)
    runtime.warm_up()
    yield SparkBench(runtime, heard, settings)
    assert runtime.close(30), "a task still runs"


@dataclass
class SparkBench:
    runtime: SparkRuntime
    heard: Heard
    settings: RuntimeSettings
    attempts: Counter[TaskId] = field(default_factory=Counter)
    epoch: Epoch | None = None

    @property
    def client(self) -> dict[str, Any]:
        return {"bootstrap.servers": self.settings.bootstrap_servers}

    def create_topic(self, topic: str, partitions: int) -> None:
        ensure_topic(self.client, topic, partitions, -1)
        eventually(lambda: partition_counts(self.client, [topic])[topic] == partitions)

    def produce(self, topic: str, records: Sequence[Any]) -> None:
        """Produces in order: values, or keyword arguments of confluent-kafka's ``produce``. Creates a missing
        topic with one partition."""
        ensure_topic(self.client, topic, 1, -1)
        producer = Producer({**self.client, "message.max.bytes": 2_000_000})
        failed: list[object] = []
        for record in records:
            arguments = record if isinstance(record, dict) else {"value": record}
            producer.produce(topic, **arguments, on_delivery=lambda error, _: failed.append(error))
        assert producer.flush(30) == 0
        assert not any(failed), failed

    def start(self, task: TaskId, config: dict[str, str]) -> int:
        self.attempts[task] += 1
        self.heard.texts.pop(task, None)
        self.runtime.start(TaskSpec(task, config, epoch=self.epoch), self.attempts[task])
        return self.attempts[task]

    def stop(self, *tasks: TaskId) -> None:
        for task in tasks:
            self.runtime.stop(task, self.attempts[task])
        for task in tasks:
            last = ("stopped", self.attempts[task])
            eventually(lambda task=task, last=last: self.heard.of(task)[-1:] == [last], 60)

    def start_connector(self, name: str, config: dict[str, str], units: int) -> list[TaskId]:
        """Starts the instance, waits until it has found this many units, and starts its tasks."""
        instance = TaskId(name, INSTANCE)
        known = len(self.heard.configs.get(name, []))
        self.start(instance, config)

        def grouped() -> list[dict[str, str]] | None:
            configs = self.heard.configs.get(name, [])[known:]
            found = sum(len(task["task.units"].split(",")) for task in configs[-1]) if configs else 0
            return configs[-1] if found == units else None

        configs = eventually(grouped, 180, f"{units} units of {name}: {self.heard.texts}") or []
        tasks = [TaskId(name, number) for number in range(len(configs))]
        for task, task_config in zip(tasks, configs, strict=True):
            self.start(task, task_config)
        for task in tasks:
            self.wait_started(task)
        return [instance, *tasks]

    def wait_started(self, task: TaskId) -> None:
        attempt = self.attempts[task]

        def begun() -> list[tuple[str, int]]:
            return [
                event for event in self.heard.of(task) if event in (("started", attempt), ("failed", attempt))
            ]

        [*_, last] = eventually(begun, 180, f"{task} starts")
        assert last == ("started", attempt), self.heard.traces[task, attempt]

    def unharmed(self, tasks: list[TaskId]) -> bool:
        """The newest event of each task is its start."""
        return all(self.heard.of(task)[-1] == ("started", self.attempts[task]) for task in tasks)

    @contextmanager
    def explaining(self, task: TaskId, topic: str) -> Iterator[None]:
        """Adds to a failure inside what is needed to explain it: the task's reports, the end of its topic,
        the JVM's log, and the stacks of all threads here and there.
        """
        try:
            yield
        except AssertionError as error:
            attempts = [self.heard.of(task), self.heard.texts.get(task), self.heard.traces]
            parts = [f"{error}", *map(str, attempts), f"end of {topic}: {self.end_of(topic)}"]
            with TemporaryFile("w+") as stacks:
                faulthandler.dump_traceback(stacks)
                stacks.seek(0)
                parts.append(stacks.read())
            output = self.settings.state_dir / "jvm.out"
            written = output.stat().st_size
            os.kill(self.jvm_pid(), signal.SIGQUIT)  # the JVM prints its stacks
            with suppress(AssertionError):
                eventually(lambda: "class space" in output.read_text()[written:], 10)
            log = self.settings.state_dir / "jvm.log"
            parts += [log.read_text()[-20_000:], output.read_text()[written:]]
            raise AssertionError("\n\n".join(parts)) from error

    def jvm_pid(self) -> int:
        return int(self.runtime.session(Event()).sparkContext._gateway.proc.pid)

    def messages(self, topic: str) -> list[Message]:
        """All committed messages of a topic, partition by partition."""
        config = {"group.id": "reader", "enable.auto.commit": False, "enable.partition.eof": True}
        consumer = Consumer({**self.client, **config})
        found: list[Message] = []
        try:
            for partition in range(partition_counts(self.client, [topic])[topic]):
                consumer.assign([TopicPartition(topic, partition, 0)])
                while (message := consumer.poll(10)) is not None and message.error() is None:
                    found.append(message)
                assert message is not None, "no end of the partition within 10 s"
        finally:
            consumer.close()
        return found

    def end_of(self, topic: str) -> int:
        """The sum of the end offsets, transactions' markers included: cheap, also while others write."""
        consumer = Consumer({**self.client, "group.id": "reader"})
        try:
            partitions = range(partition_counts(self.client, [topic])[topic])
            ends = [consumer.get_watermark_offsets(TopicPartition(topic, each), 10) for each in partitions]
            return sum(high for _, high in ends)
        finally:
            consumer.close()

    def records(self, topic: str) -> list[tuple[bytes | None, bytes]]:
        """The keys and values of all committed records of a topic."""
        return [(message.key(), message.value() or b"") for message in self.messages(topic)]
