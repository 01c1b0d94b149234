"""Batches that are written row by row: each record is a row or a letter, once and in order, although the
database refuses other records in each attempt, answers are lost, and attempts end before their letters."""

import random
from collections.abc import Callable, Iterator, Sequence
from threading import Event
from typing import Any
from unittest.mock import MagicMock

import pyarrow as pa
import pytest

from cooperator.connectors.dead_letters import Letter, RecordRefused
from cooperator.connectors.microbatch import postgres_batches
from cooperator.connectors.microbatch.batches import Owned, Stand
from cooperator.connectors.microbatch.claims import Claim
from cooperator.connectors.microbatch.postgres_batches import Converted, PostgresBatches, RowConverter
from cooperator.connectors.microbatch.postgres_positions import PostgresPositions
from cooperator.connectors.microbatch.postgres_units import PostgresUnits
from cooperator.connectors.microbatch.ranges import LeftOut, OffsetRange, Partition
from cooperator.connectors.options import parse
from cooperator.connectors.postgres import Database, DatabaseUnavailable
from cooperator.connectors.postgres_sink import Chunk, TargetTable
from cooperator.connectors.postgres_target import KafkaToPostgresOptions
from cooperator.model import Epoch
from tests.microbatch.letter_topics import Topic, install, letters_of
from tests.runtime.postgres import Postgres

pytestmark = pytest.mark.real

RECORDS = 60
PARTITIONS = (Partition("t", 0), Partition("t", 1), Partition("t", 2))
UNREADABLE, FORBIDDEN, REFERRING = 11, 7, 3
"""Each such record is left out by its conversion, is refused, and is refused if its reference is missing."""


def rows_of(number: int) -> int:
    return {0: 0, 1: 2}.get(number % 5, 1)


class Crashed(Exception):
    """The attempt has ended between its commit and its letters."""


class Batches(PostgresBatches):
    """Records are given, and converted already."""

    table: str

    def _converted(self, slots: Sequence[Sequence[OffsetRange]]) -> list[Converted]:
        found = []
        for each in [each for slot in slots for each in slot if each.size]:
            offsets = range(each.start, each.end)
            raw = pa.table(
                {
                    "topic": ["t" for _ in offsets],
                    "partition": [each.partition.number for _ in offsets],
                    "offset": list(offsets),
                    "key": [b"key-%d" % offset for offset in offsets],
                    "value": [b"%d" % offset for offset in offsets],
                    "headers": pa.nulls(len(offsets)),
                }
            )
            left_out = [offset for offset in offsets if offset % UNREADABLE == 5]
            rows: list[tuple[int, Sequence[Any]]] = []
            for number, offset in enumerate(offsets):
                thing = "1" if offset % REFERRING == 1 else None
                row = (str(each.partition.number), str(offset), thing)
                rows += [(number, row)] * (0 if offset in left_out else rows_of(offset))
            target = TargetTable(self.table, ("part", "number", "thing"))
            half = len(rows) // 2
            while 0 < half < len(rows) and rows[half - 1][0] == rows[half][0]:
                half += 1  # The rows of a record are in one chunk.
            chunks = [Chunk(target, rows[:half]), Chunk(target, rows[half:])]
            letters = [
                Letter(raw.slice(offset - each.start, 1).to_pylist()[0], "VALUE_CONVERTER", ValueError("x"))
                for offset in left_out
            ]
            found.append(Converted(each, raw, chunks, letters))
        return found


class Attempt:
    """An attempt at all units, with faults."""

    def __init__(self, world: "World", generation: int) -> None:
        self.world = world
        self.database = Database(world.options, "c", Event(), lambda text: None)
        names = {partition: str(partition) for partition in PARTITIONS}
        positions = PostgresPositions("cooperator_positions", "g", world.table)
        self.units = PostgresUnits(
            self.database, positions, names, Epoch(1, generation), 1, f"m-{generation}", self.deliver
        )
        claim = Claim(Epoch(1, generation), 1, f"m-{generation}")
        self.letters = {unit: letters_of(unit, claim) for unit in names.values()}

        def kept(partition: Partition, found: Sequence[Letter]) -> list[LeftOut]:
            return self.letters[str(partition)].of(found)

        self.said: list[str] = []
        spark: Any = MagicMock()
        source: Any = None
        converter = RowConverter(lambda partition, raw: ([], []), kept if world.tolerates else None)
        self.batches = Batches(
            spark, source, self.database, positions, self.units, converter, self.said.append
        )
        self.batches.table = world.table
        self.crashes = world.crashes
        self.once = self.database.once
        self.owned: Owned = self.units.claim()
        untyped: Any = self.database
        untyped.once = self._once

    def _once(self, work: Callable[[Any], Any]) -> Any:
        if self.world.chance.random() < self.crashes:
            raise DatabaseUnavailable("before")
        result = self.once(work)
        if self.world.chance.random() < self.crashes:
            raise DatabaseUnavailable("after the commit")
        return result

    def deliver(self, unit: str, kept: str) -> None:
        if self.world.chance.random() < self.world.crashes:
            raise Crashed
        self.letters[unit].deliver(kept)

    def recover(self) -> None:
        untyped: Any = self.database
        untyped.once = self.once
        self.owned = self.units.recover()
        untyped.once = self._once


class World:
    def __init__(self, postgres: Postgres, table: str, seed: int) -> None:
        self.postgres = postgres
        self.table = table
        self.chance = random.Random(seed)
        self.crashes = 0.1
        self.tolerates = True
        config = {"connector.class": "kafka-to-postgres", "topics": "t", "bootstrap.servers": "nowhere:1"}
        self.options = parse(KafkaToPostgresOptions, {**config, **postgres.config})
        postgres.query(f"CREATE TABLE {table}_things (id integer PRIMARY KEY)")
        postgres.query(
            f"CREATE TABLE {table} (part integer, number integer CHECK (mod(number, {FORBIDDEN}) <> 3), "
            f"thing integer REFERENCES {table}_things ON DELETE SET NULL DEFERRABLE INITIALLY DEFERRED, "
            "place bigint GENERATED BY DEFAULT AS IDENTITY)"
        )

    def change(self) -> None:
        """Another client adds what records refer to, or removes it."""
        if self.chance.random() < 0.5:
            self.postgres.query(f"INSERT INTO {self.table}_things VALUES (1) ON CONFLICT DO NOTHING")
        else:
            self.postgres.query(f"DELETE FROM {self.table}_things")


def attempts(world: World) -> Iterator[Attempt]:
    generation = 0
    while True:
        generation += 1
        try:
            yield Attempt(world, generation)
        except Crashed:
            continue


def reached(attempt: Attempt) -> dict[Partition, int]:
    return {each: attempt.owned.positions.get(each, Stand(-1)).next for each in PARTITIONS}


def run(world: World) -> list[str]:
    """Writes all records; returns what was shown meanwhile."""
    made = attempts(world)
    attempt = next(made)
    said: list[str] = []
    while True:
        try:
            at = reached(attempt)
            while any(offset < RECORDS for offset in at.values()):
                world.change()
                ranges = []
                for partition, offset in at.items():
                    size = min(world.chance.choice([0, 1, 2, 7, 20]), RECORDS - offset)
                    if offset < 0:
                        ranges.append(OffsetRange(partition, 0, 0))
                    elif size:
                        ranges.append(OffsetRange(partition, offset, offset + size))
                record = attempt.units.record
                records = {each.partition: record(each.partition, Stand(each.end)) for each in ranges}
                outcome = attempt.batches.run(attempt.owned.session, [ranges], records)
                if outcome.failures:
                    attempt.recover()
                    at = reached(attempt)
                else:
                    at |= {each.partition: each.end for each in ranges}
                if world.chance.random() < 0.1:
                    raise Crashed
            if world.crashes == 0:
                return [*said, *attempt.said]
            world.crashes = 0
            raise Crashed
        except Crashed:
            said += attempt.said
            attempt.database.close()
            attempt = next(made)


@pytest.mark.parametrize("seed", range(6))
def test_each_record_is_a_row_or_a_letter_once_and_in_order(
    postgres: Postgres, unique: str, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    world = World(postgres, f"t{unique.replace('-', '_')}", seed)
    topics = {str(partition): Topic() for partition in PARTITIONS}
    install(monkeypatch, topics)
    monkeypatch.setattr(postgres_batches, "_MOST_KEPT", 1_500)
    said = run(world)
    found = postgres.query(f"SELECT part, number FROM {world.table} ORDER BY place")
    for partition in PARTITIONS:
        rows = [number for part, number in found if part == partition.number]
        letters = topics[str(partition)].offsets
        assert letters == sorted(set(letters)), f"letters of {partition}"
        assert rows == [n for n in range(RECORDS) if n not in letters for _ in range(rows_of(n))]
        readable = [n for n in range(RECORDS) if n % UNREADABLE != 5]
        surely = {n for n in range(RECORDS) if n not in readable}
        surely |= {n for n in readable if n % FORBIDDEN == 3 and rows_of(n)}
        assert surely <= set(letters)
        assert set(letters) - surely <= {n for n in readable if n % REFERRING == 1 and rows_of(n)}
    assert any("for those that the database refuses" in text for text in said)


def test_without_tolerance_the_batch_fails_and_names_the_record(
    postgres: Postgres, unique: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(postgres, f"t{unique.replace('-', '_')}", 0)
    world.crashes, world.tolerates = 0.0, False
    install(monkeypatch, {str(partition): Topic() for partition in PARTITIONS})
    with pytest.raises(RecordRefused) as refused:
        run(world)
    message = str(refused.value)
    assert message.startswith("t-")
    assert ", offset " in message
    assert ", key key-" in message
    assert f"table {world.table} refuses column " in message
    assert message.endswith("or set errors.tolerance to all")
