"""Claims and positions of units in a real PostgreSQL: every history writes each row once."""

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import psycopg
import pytest

from cooperator.connectors.exactly_once import Replaced
from cooperator.connectors.microbatch.claims import Claim
from cooperator.connectors.microbatch.postgres_positions import (
    Move,
    PostgresPositions,
    Superseded,
    UnitState,
)
from cooperator.connectors.options import OptionError
from cooperator.connectors.units import Layout
from cooperator.model import Epoch
from tests.microbatch.letter_topics import Topic, install
from tests.runtime.postgres import PASSWORD, Postgres
from tests.runtime.postgres_histories import UNITS, Connection, History, Pool

pytestmark = pytest.mark.real

FEW, MANY = range(12), range(12, 1_000)


def connect(postgres: Postgres) -> Connection:
    url = postgres.url.removeprefix("jdbc:")
    options = "-c lock_timeout=1ms -c synchronous_commit=off"
    return psycopg.connect(url, user="tester", password=PASSWORD, autocommit=True, options=options)


@pytest.fixture
def connection(postgres: Postgres) -> Iterator[Connection]:
    with connect(postgres) as made:
        yield made


@pytest.fixture
def pool(postgres: Postgres) -> Iterator[Pool]:
    made = Pool(lambda: connect(postgres))
    yield made
    made.close()


def histories(pool: Pool, name: str, kind: type[PostgresPositions], seeds: range) -> None:
    table = f"t{name.replace('-', '_')}"
    connection = pool.take()
    text: Any = f"CREATE TABLE {table} (unit text, line text, number bigint)"
    connection.execute(text)
    kind(f"{table}_positions", "g", "c").create(connection)
    text = f"TRUNCATE {table}"
    for seed in seeds:
        connection.execute(text)
        topics = {unit: Topic() for unit in UNITS}
        with pytest.MonkeyPatch.context() as patch:
            install(patch, topics)
            History(pool, kind(f"{table}_positions", "g", f"c{seed}"), table, topics, seed).run()
    pool.give(connection)


@pytest.mark.parametrize(
    "seeds",
    [
        pytest.param(FEW, id="few"),
        pytest.param(
            MANY,
            id="many",
            marks=pytest.mark.long(
                "tests/runtime/test_postgres_positions.py::test_every_history_writes_each_row_once"
            ),
        ),
    ],
)
@pytest.mark.timeout(1_800)
def test_every_history_writes_each_row_once(pool: Pool, unique: str, seeds: range) -> None:
    histories(pool, unique, PostgresPositions, seeds)


class AnySession(PostgresPositions):
    """A transaction of an earlier session is not refused."""

    def advance(self, connection: Connection, session: str, moves: Sequence[Move]) -> bool:
        stored = self.locked(connection, [move.unit for move in moves])
        return super().advance(connection, stored[moves[0].unit].session, moves)


class AnyStart(PostgresPositions):
    """A batch is written wherever the position is."""

    def advance(self, connection: Connection, session: str, moves: Sequence[Move]) -> bool:
        stored = self.locked(connection, [move.unit for move in moves])
        here = [replace(move, start=stored[move.unit].next or 0) for move in moves]
        return super().advance(connection, session, here)


class OneSession(PostgresPositions):
    """A recovery keeps the session, and the batch that nobody waits for any more may still be written."""

    def renew(
        self, connection: Connection, units: Sequence[str], claim: Claim, session: str
    ) -> Mapping[str, UnitState]:
        kept = self.locked(connection, units)
        found = super().renew(connection, units, claim, session)
        for unit in units:
            self._take(connection, [unit], claim, kept[unit].session)
        return {unit: state._replace(session=kept[unit].session) for unit, state in found.items()}


class NotOnceMore(PostgresPositions):
    """A batch that was committed is written again by its repetition."""

    def advance(self, connection: Connection, session: str, moves: Sequence[Move]) -> bool:
        super().advance(connection, session, moves)
        return True


class WithoutLetters(PostgresPositions):
    """Letters are not kept: only the attempt that has committed their batch can write them."""

    def move(self, connection: Connection, session: str, moves: Sequence[Move]) -> None:
        super().move(connection, session, [replace(move, letters="") for move in moves])


@pytest.mark.parametrize("kind", [AnySession, AnyStart, OneSession, NotOnceMore, WithoutLetters])
def test_a_planted_bug_is_found(pool: Pool, unique: str, kind: type[PostgresPositions]) -> None:
    with pytest.raises(AssertionError, match="seed"):
        histories(pool, unique, kind, FEW)


def claim_of(number: int) -> Claim:
    return Claim(Epoch(1, 1), number, f"m-{number}")


@pytest.fixture
def positions(connection: Connection, unique: str) -> PostgresPositions:
    made = PostgresPositions("cooperator_positions", "g", unique)
    made.create(connection)
    return made


def claimed(connection: Connection, positions: PostgresPositions, number: int, *units: str) -> str:
    session = uuid.uuid4().hex
    with connection.transaction():
        positions.claim(connection, units, lambda newest: claim_of(number), session)
    return session


def test_the_newest_attempt_has_the_units_and_others_are_told(
    connection: Connection, positions: PostgresPositions
) -> None:
    first = claimed(connection, positions, 1, "t-0", "t-1")
    claimed(connection, positions, 2, "t-1")
    with pytest.raises(Superseded, match="unit t-1 is claimed anew"):
        positions.advance(
            connection, first, [Move("t-0", "", 0, 0, jump="a"), Move("t-1", "", 0, 0, jump="b")]
        )
    assert positions.all(connection)["t-0"].next is None, "a transaction is all or nothing"
    with pytest.raises(Replaced, match=r"unit t-1 is claimed by attempt 1-1-2-m-2 now, not by 1-1-1-m-1"):
        positions.renew(connection, ["t-0", "t-1"], claim_of(1), "x")
    with pytest.raises(Replaced, match=r"unit t-1 was claimed under epoch 1[.]1 by attempt 1-1-2-m-2"):
        claimed(connection, positions, 1, "t-0", "t-1")
    claimed(connection, positions, 2, "t-1")
    claimed(connection, positions, 3, "t-0", "t-1")


def test_an_operation_on_offsets_takes_the_units_from_all_attempts_and_is_older_than_later_ones(
    connection: Connection, positions: PostgresPositions
) -> None:
    session = claimed(connection, positions, 7, "t-0")
    assert positions.advance(connection, session, [Move("t-0", "", 0, 5, jump="line")])
    assert not positions.advance(connection, session, [Move("t-0", "", 0, 5, jump="line")]), "it is done"
    with connection.transaction():
        positions.put(connection, {"t-0": 2, "t-1": None}, "operation")
    assert {unit: state.next for unit, state in positions.all(connection).items()} == {"t-0": 2, "t-1": None}
    with pytest.raises(Superseded):
        positions.advance(connection, session, [Move("t-0", "line", 5, 6)])
    with pytest.raises(Replaced):
        positions.renew(connection, ["t-0"], claim_of(7), "x")
    claimed(connection, positions, 1, "t-0")
    positions.forget(connection)
    with pytest.raises(Replaced, match="its offsets were reset"):
        positions.renew(connection, ["t-0"], claim_of(1), "x")


def test_a_layout_is_written_once(connection: Connection, positions: PostgresPositions) -> None:
    layout = Layout({"a": "1"}, frozenset({"t-0"}))
    positions.settle_layout(connection, layout)
    positions.settle_layout(connection, replace(layout, first=frozenset()))
    assert positions.layout(connection) == layout
    with pytest.raises(OptionError, match="is fixed"):
        positions.settle_layout(connection, replace(layout, fixed={"a": "2"}))
    assert positions.all(connection) == {}, "it is no unit"
