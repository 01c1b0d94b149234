"""The records of a run: the same rows for every contender, and a producer at a steady rate.

A row is (id, name, amount, note). As text it is JSON of the wanted size; the other converters have the same
fields, so that their records have other sizes. All text is ASCII and hard to compress.
"""

import io
import json
import random
import string
import struct
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from benchmarks.pipelines.job import Converter

VALUE_DDL: Final = "id LONG, name STRING, amount DOUBLE, note STRING"
_AVRO: Final = {
    "type": "record",
    "name": "Row",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "name", "type": "string"},
        {"name": "amount", "type": "double"},
        {"name": "note", "type": "string"},
    ],
}
_CONNECT_SCHEMA: Final = {
    "type": "struct",
    "optional": False,
    "fields": [
        {"field": "id", "type": "int64", "optional": False},
        {"field": "name", "type": "string", "optional": False},
        {"field": "amount", "type": "double", "optional": False},
        {"field": "note", "type": "string", "optional": False},
    ],
}
_TEXT_BYTES: Final = 1 << 20
_TIMEOUT_S: Final = 60.0
_TICK_S: Final = 0.002
_TRANSACTION_MS: Final = 3_600_000
TRANSACTION_LIMIT: Final = {"transaction.max.timeout.ms": str(_TRANSACTION_MS)}
"""The broker's setting that lets a transaction stay open while a contender starts."""
_PRODUCER: Final = {
    "linger.ms": 5,
    # The records of a batch on the broker's disk are as many as a busy Java producer's, not a megabyte.
    "batch.size": 65_536,
    "queue.buffering.max.messages": 200_000,
    "queue.buffering.max.kbytes": 262_144,
    "message.max.bytes": 2_000_000,
    "log_level": 0,
}


@cache
def _text() -> str:
    generator = random.Random(7)
    return "".join(generator.choices(string.ascii_letters + string.digits, k=_TEXT_BYTES))


@dataclass(frozen=True)
class Rows:
    """Rows by number. ``size_bytes`` is that of the JSON text, 80 or more."""

    size_bytes: int
    converter: Converter = "bytes"
    registry_url: str = ""

    def key(self, number: int) -> bytes:
        return b"key-%09d" % number

    def text(self, number: int) -> str:
        """The row as JSON."""
        head = f'{{"id":{number},"name":"name {number % 1000:03d}","amount":{number % 997}.5,"note":"'
        return f'{head}{self._note(number, self.size_bytes - len(head) - 2)}"}}'

    def values(self, topic: str) -> Callable[[int], bytes]:
        """The encoder from a number to a record's value. Registers the schema, for avro."""
        if self.converter in ("bytes", "json"):
            return lambda number: self.text(number).encode()
        if self.converter == "flawed json":
            return lambda number: self.text(number).encode()[1 if number % 100 == 50 else 0 :]
        if self.converter == "json-schema":
            schema = json.dumps(_CONNECT_SCHEMA, separators=(",", ":"))
            return lambda number: f'{{"schema":{schema},"payload":{self.text(number)}}}'.encode()
        return self._avro(topic)

    def _note(self, number: int, length: int) -> str:
        begin = number * 7919 % (_TEXT_BYTES - length)
        return _text()[begin : begin + length]

    def _avro(self, topic: str) -> Callable[[int], bytes]:
        from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
        from fastavro import parse_schema, schemaless_writer

        client = SchemaRegistryClient({"url": self.registry_url})
        head = struct.pack(
            ">bI", 0, client.register_schema(f"{topic}-value", Schema(json.dumps(_AVRO), "AVRO"))
        )
        schema = parse_schema(_AVRO)

        def encode(number: int) -> bytes:
            out = io.BytesIO()
            out.write(head)
            schemaless_writer(out, schema, json.loads(self.text(number)))
            return out.getvalue()

        return encode


def create_topics(bootstrap_servers: str, partitions: int, *names: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})
    for future in admin.create_topics([NewTopic(name, partitions, 1) for name in names]).values():
        future.result(_TIMEOUT_S)


def delete_topics(bootstrap_servers: str, *names: str) -> None:
    """Deletes what is there of ``names``, so that a run needs no more disk than its largest turn."""
    admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})
    for future in admin.delete_topics(list(names)).values():
        try:
            future.result(_TIMEOUT_S)
        except KafkaException:
            continue


class Lots:
    """The records of one topic in two lots, whose rows are numbered on.

    Both are on the broker before anything reads: the first is visible at once, the second when ``release``
    commits its transaction. So no producer is at work while a contender is measured.
    """

    def __init__(self, bootstrap_servers: str, topic: str, partitions: int, rows: Rows) -> None:
        self._client = {"bootstrap.servers": bootstrap_servers, **_PRODUCER}
        self._topic, self._partitions, self._rows = topic, partitions, rows
        self._encode = rows.values(topic)
        self._open: Producer | None = None

    def warm(self, count: int) -> None:
        """Produce rows 0 to ``count``, which readers see at once."""
        producer = Producer(self._client)
        self._produce(producer, 0, count)

    def hide(self, begin: int, end: int) -> None:
        """Produce these rows in a transaction that stays open."""
        self._open = Producer(
            {
                **self._client,
                "transactional.id": f"lot-{self._topic}",
                "transaction.timeout.ms": _TRANSACTION_MS,
            }
        )
        self._open.init_transactions(_TIMEOUT_S)
        self._open.begin_transaction()
        self._produce(self._open, begin, end)

    def release(self) -> None:
        """Make the hidden rows visible."""
        assert self._open is not None
        self._open.commit_transaction(_TIMEOUT_S)
        self._open = None

    def drop(self) -> None:
        """Abort what is still hidden."""
        if self._open is not None:
            self._open.abort_transaction(_TIMEOUT_S)
            self._open = None

    def _produce(self, producer: Producer, begin: int, end: int) -> None:
        failed: list[object] = []

        def report(error: object, _: object) -> None:
            if error is not None:
                failed.append(error)

        for number in range(begin, end):
            arguments: dict[str, Any] = {
                "key": self._rows.key(number),
                "value": self._encode(number),
                "partition": number % self._partitions,
                "on_delivery": report,
            }
            while True:
                try:
                    producer.produce(self._topic, **arguments)
                    break
                except BufferError:
                    producer.poll(0.05)
            if number % 1_000 == 0:
                producer.poll(0)
        if producer.flush(_TIMEOUT_S) or failed:
            raise RuntimeError(f"{self._topic}: records were not produced: {failed[:3]}")


def due_ns(value: bytes) -> int:
    """The time at which ``steadily`` was to produce a record, in nanoseconds since the epoch."""
    return int(struct.unpack_from(">q", value)[0])


def number_due(rate: int, elapsed_ns: int) -> int:
    """Returns how many records of ``steadily`` are due before a time after its begin."""
    return -(-max(0, elapsed_ns) // (1_000_000_000 // rate))


def steadily(
    bootstrap_servers: str, topic: str, partitions: int, rate: int, size_bytes: int, begin_ns: int
) -> None:
    """Produce ``rate`` records a second from ``begin_ns`` on, one partition after the other, without an end.

    Record n is due n / rate seconds after the begin, and carries that time: so it is known how many there are
    to be, and a delay of the producer is no gap in what is measured.
    """
    producer = Producer({"bootstrap.servers": bootstrap_servers, **_PRODUCER})
    padding = _text()[: size_bytes - 8].encode()
    step_ns, done = 1_000_000_000 // rate, 0
    while True:
        due = max(0, time.time_ns() - begin_ns) // step_ns
        for number in range(done, due):
            stamp = struct.pack(">q", begin_ns + number * step_ns)
            producer.produce(topic, stamp + padding, key=b"key-%09d" % number, partition=number % partitions)
        done = due
        producer.poll(0)
        time.sleep(_TICK_S)


def main(arguments: list[str]) -> int:
    """Produce steadily until the process is ended."""
    servers, topic, *numbers = arguments
    steadily(servers, topic, *map(int, numbers))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
