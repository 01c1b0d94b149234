"""The product as a user has it, a Kafka and a PostgreSQL: all that the table runs in.

The surroundings are hostile to values: Spark's session, the member and the database are in different zones,
and the JVM has a Turkish locale.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.runtime.postgres import PASSWORD, Postgres
from tests.values.registry import RegistryProcess

WORKER = "values"
GROUP = f"cooperator-default.{WORKER}"
LONGEST = 2_000_000
"""Bytes of the largest record that topics of the table take."""

SESSION_ZONE, MEMBER_ZONE, DATABASE_ZONE = "Europe/Berlin", "Asia/Kathmandu", "America/New_York"


_IN_VAIN = 2
_PAUSE_S = 0.3


@dataclass(frozen=True)
class Record:
    """A record as a plain consumer reads it."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp_ms: int = -1

    def header(self, name: str) -> str:
        return next((value.decode() for key, value in self.headers if key == name and value), "")


class World:
    """One Worker with one member, which all cells of a run share."""

    def __init__(self, root: Path, postgres: Postgres, session_zone: str = SESSION_ZONE) -> None:
        self.root = root
        self.postgres = postgres
        self.bootstrap = ""
        self._read: dict[str, int] = {}
        self._registry: RegistryProcess | None = None
        self._session_zone = session_zone
        self._environment = {
            **os.environ,
            "COOPERATOR_STATE_DIR": str(root / "state"),
            "TZ": MEMBER_ZONE,
        }

    def up(self) -> None:
        said = self.local("up")
        found = re.search(r"Kafka broker: (\S+)", said)
        assert found is not None, said
        self.bootstrap = found[1]
        self._producer = Producer({"bootstrap.servers": self.bootstrap, "message.max.bytes": LONGEST})
        self._admin = AdminClient({"bootstrap.servers": self.bootstrap})
        self.postgres.query(f"ALTER ROLE tester SET timezone = '{DATABASE_ZONE}'")
        secrets = self.root / "secrets"
        secrets.mkdir(exist_ok=True)
        (secrets / "postgres").write_text(f"password={PASSWORD}\n")
        conf = {
            "spark.sql.session.timeZone": self._session_zone,
            "spark.driver.extraJavaOptions": "-Duser.language=tr -Duser.country=TR",
        }
        spec = {
            "replicas": 1,
            "spark": {"conf": conf},
            "allowedFileReferences": [str(secrets)],
        }
        self.apply([manifest("Worker", WORKER, spec)])

    def down(self) -> None:
        try:
            self.local("down")
        finally:
            if self._registry is not None:
                self._registry.close()

    @property
    def registry(self) -> str:
        """The URL of a schema registry, which begins with its first user."""
        if self._registry is None:
            self._registry = RegistryProcess(self.root / "registry.log")
        return self._registry.url

    def local(self, *words: str, stdin: str = "") -> str:
        """Runs a command of ``cooperator local``, which must succeed; returns all that it says."""
        run = subprocess.run(
            [sys.executable, "-m", "cooperator.cli", "local", *words],
            env=self._environment,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=150,
            check=False,
        )
        assert run.returncode == 0, run.stdout + run.stderr
        return run.stdout + run.stderr

    def apply(self, manifests: Iterable[Mapping[str, Any]]) -> str:
        return self.local("apply", "-f", "-", stdin=yaml.safe_dump_all(manifests, sort_keys=False))

    def failures(self) -> dict[str, str]:
        """What tasks say that have failed, or repeat a batch in vain, by their connectors. Notes also how
        many rows each one has read.
        """
        run = self.local("get", "tasks", "-o", "json")
        found: dict[str, str] = {}
        for task in json.loads(run[run.index("{") :])["items"]:
            progress = json.loads(task["progress"] or "{}")
            if progress.get("lag") == 0:
                self._read[task["connector"]] = progress["rows_in"]
            if task["state"] == "FAILED":
                found[task["connector"]] = task["trace"]
            elif progress.get("failures", 0) >= _IN_VAIN:
                found[task["connector"]] = progress["last_error"]["text"]
        return found

    @property
    def database(self) -> dict[str, str]:
        """A connector's options for the database."""
        return {
            "connection.url": self.postgres.url,
            "connection.user": "tester",
            "connection.password": f"${{file:{self.root}/secrets/postgres:password}}",
        }

    def create_topics(self, names: Sequence[str]) -> None:
        config = {"max.message.bytes": str(LONGEST), "message.timestamp.after.max.ms": str(2**63 - 1)}
        topics = [NewTopic(name, 1, 1, config=config) for name in names]
        for future in self._admin.create_topics(topics).values():
            try:
                future.result(30)
            except Exception as error:
                if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise

    def produce(self, topic: str, records: Iterable[Record]) -> None:
        refused: list[object] = []
        for record in records:
            self._producer.produce(
                topic,
                record.value,
                record.key,
                headers=list(record.headers),
                on_delivery=lambda error, message: refused.append(error) if error else None,
                **({"timestamp": record.timestamp_ms} if record.timestamp_ms >= 0 else {}),
            )
        assert self._producer.flush(60) == 0
        assert refused == []

    def records(self, topic: str) -> list[Record]:
        """All committed records of a topic that has one partition; none if it does not exist."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": "readers-of-values",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "isolation.level": "read_committed",
                "fetch.message.max.bytes": LONGEST,
            }
        )
        found: list[Record] = []
        try:
            metadata = consumer.list_topics(topic, 10).topics[topic]
            unread = set(metadata.partitions) if metadata.error is None else set()
            consumer.assign([TopicPartition(topic, number, 0) for number in unread])
            while unread:
                message = consumer.poll(30)
                assert message is not None, f"{topic} does not end"
                if message.error() is None:
                    headers = tuple(message.headers() or ())
                    found.append(Record(message.key(), message.value(), headers, message.timestamp()[1]))
                elif message.error().code() == KafkaError._PARTITION_EOF:
                    unread.discard(message.partition())
                else:
                    raise AssertionError(message.error())
        finally:
            consumer.close()
        return found

    def has_read(self, connector: str, topic: str, due: int) -> bool:
        """Whether the connector has read so many records of the topic, which has no others.

        Tools for lag see it first; but a position that a broker under load has refused is copied to the group
        no sooner than the next one.
        """
        return self._read.get(connector, 0) >= due or self.position(connector, topic) == due

    def position(self, connector: str, topic: str) -> int:
        """How far the connector has read the topic's only partition, as tools for lag see it."""
        asked = ConsumerGroupTopicPartitions(f"{GROUP}/{connector}", [TopicPartition(topic, 0)])
        [future] = self._admin.list_consumer_group_offsets([asked]).values()
        [partition] = future.result(30).topic_partitions
        return max(0, int(partition.offset))


def manifest(kind: str, name: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "cooperator.dev/v1alpha1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": dict(spec),
    }


def connector(name: str, class_name: str, config: Mapping[str, Any]) -> dict[str, Any]:
    texts = {option: str(value) for option, value in config.items()}
    spec = {
        "workerRef": {"name": WORKER},
        "class": class_name,
        "tasksMax": 1,
        "autoRestart": {"enabled": False},
        "config": texts,
    }
    return manifest("Connector", name, spec)


def wait_for(condition: Callable[[], bool], timeout_s: float, what: str) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"not within {timeout_s:g} s: {what}"
        time.sleep(_PAUSE_S)
