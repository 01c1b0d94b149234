"""Histories of attempts at common units, over a real PostgreSQL.

An attempt has a driver, and a writer for each batch, which may outlive its driver's patience, as a Spark task
does. Both are generators that stop before the statements of their transactions; a history decides at random
who goes on. Any of them may sleep until the end, and the answer of a commit may be lost. Nothing waits for a
lock: a statement that would is refused at once, like one that has waited for too long.

A row of the table is (unit, line, offset): a line begins where an operation on offsets has put the unit.

Each writer decides anew which records the database refuses, as keys and references of other clients do. Their
letters are committed with the rows, and written by the driver, or by a later one.
"""

import random
import uuid
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import psycopg
from psycopg import Rollback, errors

from cooperator.connectors.exactly_once import Replaced
from cooperator.connectors.microbatch.claims import Claim
from cooperator.connectors.microbatch.letters import KeptLetters, UnitLetters
from cooperator.connectors.microbatch.postgres_positions import Move, PostgresPositions, Superseded
from cooperator.connectors.microbatch.ranges import LeftOut
from cooperator.connectors.output_record import OutputRecord
from cooperator.model import Epoch
from tests.microbatch.letter_topics import Topic, letters_of

RECORDS = 12
"""The number of records of each unit's source."""
UNITS = ("t-0", "t-1", "t-2")
_STEPS = 200

Steps = Generator[str, None, None]
Connection = psycopg.Connection[Any]


class Unanswered(Exception):
    """The answer of a writer does not come."""


@dataclass(eq=False)
class Thread:
    """A driver or a writer, on a connection of its own."""

    connection: Connection
    steps: Steps | None = None
    asleep: bool = False
    ended: str = ""
    """The reason of its end; "done" if nothing was wrong."""


@dataclass(eq=False)
class Attempt:
    claim: Claim
    units: Sequence[str]
    session: str = ""
    lines: dict[str, str] = field(default_factory=dict)
    at: dict[str, int] = field(default_factory=dict)
    letters: dict[str, UnitLetters] = field(default_factory=dict)

    def deliver(self, unit: str, kept: str) -> None:
        if unit not in self.letters:
            self.letters[unit] = letters_of(unit, self.claim)
        self.letters[unit].deliver(kept)


@dataclass
class Pool:
    """Connections of several histories: each costs a process of the server."""

    connect: Callable[[], Connection]
    free: list[Connection] = field(default_factory=list)

    def take(self) -> Connection:
        return self.free.pop() if self.free else self.connect()

    def give(self, connection: Connection) -> None:
        self.free.append(connection)

    def close(self) -> None:
        for connection in self.free:
            connection.close()


@dataclass
class History:
    """One history.

    ``topics`` have the letters of units; ``starts`` maps lines to the offsets at which they begin,
    ``holders`` units to the sessions that have them.
    """

    pool: "Pool"
    positions: PostgresPositions
    rows: str
    topics: dict[str, Topic]
    seed: int
    chance: random.Random = field(init=False)
    threads: list[Thread] = field(default_factory=list)
    starts: dict[tuple[str, str], int] = field(default_factory=dict)
    holders: dict[str, str] = field(default_factory=dict)
    attempts: int = 0
    calm: bool = False

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        self.reader = self.pool.take()

    def run(self) -> None:
        """Runs the history. Raises ``AssertionError`` when a row is missing, or there twice."""
        try:
            self._begin(UNITS)
            for _ in range(_STEPS):
                if self.chance.random() < 0.04:
                    self._begin(sorted(self.chance.sample(UNITS, self.chance.randint(1, 3))))
                if self.chance.random() < 0.02:
                    self._alter()
                awake = [each for each in self.threads if not each.asleep and not each.ended]
                if awake:
                    self._step(self.chance.choice(awake))
            self._end()
        finally:
            for each in self.threads:
                if not each.ended:
                    each.connection.close()
            self.pool.give(self.reader)

    def _end(self) -> None:
        """All that sleep wake up; servers end what is idle for too long; a last attempt writes the rest."""
        sleeping = [each for each in self.threads if not each.ended]
        for _ in range(4 * len(sleeping)):
            self._step(self.chance.choice(sleeping))
        self.check()
        for each in self.threads:
            if not each.ended:
                each.connection.close()
                each.ended = "its connection was closed"
        self.calm = True
        last = self._begin(UNITS)
        for _ in range(_STEPS):
            for each in self.threads[self.threads.index(last) :]:
                self._step(each)
        assert last.ended == "done", f"seed {self.seed}: the newest attempt: {last.ended}"
        self.check()
        states = self.positions.all(self.reader)
        for unit, state in states.items():
            kept = self._undelivered(unit, state.letters)
            assert kept == [], f"seed {self.seed}: letters {kept} of {unit} were not written"
        at = {unit: state.next for unit, state in states.items()}
        assert at == dict.fromkeys(UNITS, RECORDS), f"seed {self.seed}: {at}"

    def check(self) -> None:
        """Each line has each offset from its start on once, as a row or a letter, and the current one ends at
        the position.
        """
        text: Any = f"SELECT unit, line, number FROM {self.rows} ORDER BY unit, line, number"
        found: dict[tuple[str, str], list[int]] = {}
        for unit, line, number in self.reader.execute(text):
            found.setdefault((unit, line), []).append(number)
        states = self.positions.all(self.reader)
        for unit, topic in self.topics.items():
            kept = states[unit].letters if unit in states else ""
            written = [_line_and_offset(value) for value in topic.values]
            for line in {line for line, _ in written}:
                numbers = [number for its_line, number in written if its_line == line]
                assert numbers == sorted(numbers), f"seed {self.seed}: letters {numbers} of {unit}"
            for line, number in [*written, *self._undelivered(unit, kept)]:
                found.setdefault((unit, line), []).append(number)
        for unit, state in states.items():
            if state.next is not None:
                found.setdefault((unit, state.line), [])
                end = self.starts[unit, state.line] + len(found[unit, state.line])
                assert state.next == end, f"seed {self.seed}: {unit} is at {state.next}, not at {end}"
        for (unit, line), numbers in found.items():
            start = self.starts[unit, line]
            wanted = list(range(start, start + len(numbers)))
            assert sorted(numbers) == wanted, f"seed {self.seed}: {unit} has {numbers} from {start} on"

    def _undelivered(self, unit: str, kept: str) -> list[tuple[str, int]]:
        """Letters that are committed, and not written yet."""
        if not kept:
            return []
        line, _, letters = KeptLetters.decode(kept)
        there = {_line_and_offset(value) for value in self.topics[unit].values}
        return [(line, one.offset) for one in letters if (line, one.offset) not in there]

    def _begin(self, units: Sequence[str]) -> Thread:
        self.attempts += 1
        claim = Claim(Epoch(1, self.attempts // 2), self.attempts, f"m-{self.attempts}")
        return self._thread(lambda me: self._driver(Attempt(claim, units), me))

    def _thread(self, steps: Callable[[Connection], Steps]) -> Thread:
        connection = self.pool.take()
        made = Thread(connection, steps(connection))
        self.threads.append(made)
        return made

    def _step(self, thread: Thread) -> None:
        if thread.ended or thread.steps is None:
            return
        if not self.calm and self.chance.random() < 0.02:
            thread.asleep = True
            return
        try:
            next(thread.steps)
            return
        except StopIteration:
            thread.ended = "done"
        except (Replaced, Superseded, errors.LockNotAvailable, errors.DeadlockDetected) as error:
            thread.ended = f"{type(error).__name__}: {error}"
        self.pool.give(thread.connection)

    def _driver(self, me: Attempt, connection: Connection) -> Steps:
        yield from self._claimed(me, connection)
        while True:
            try:
                fresh = [unit for unit in me.units if unit not in me.at]
                if fresh:
                    jumps = [Move(unit, me.lines[unit], 0, 0, jump=uuid.uuid4().hex) for unit in fresh]
                    self.starts.update({(move.unit, move.jump): 0 for move in jumps})
                    yield from self._batch(me, jumps)
                moves = self._planned(me)
                if moves:
                    yield from self._batch(me, moves)
                elif self.calm:
                    return
                yield "between two batches"
            except Unanswered:
                yield from self._claimed(me, connection)

    def _claimed(self, me: Attempt, connection: Connection) -> Steps:
        """Claims the units, or recovers. The first answer may be lost; then it asks again."""
        session, again = uuid.uuid4().hex, bool(me.session)
        while True:
            yield "claim"
            try:
                with connection.transaction():
                    if again:
                        states = self.positions.renew(connection, me.units, me.claim, session)
                    else:
                        states = self.positions.claim(connection, me.units, lambda _: me.claim, session)
                    yield "before the commit"
            except (errors.LockNotAvailable, errors.DeadlockDetected):
                continue
            self.holders.update(dict.fromkeys(me.units, session))
            if self.calm or self.chance.random() > 0.1:
                break
        me.session = session
        for unit, state in states.items():
            if state.letters:
                yield "letters of an earlier session"
                me.deliver(unit, state.letters)
        me.lines = {unit: state.line for unit, state in states.items()}
        me.at = {unit: state.next for unit, state in states.items() if state.next is not None}

    def _planned(self, me: Attempt) -> list[Move]:
        found = []
        for unit in me.units:
            end = min(RECORDS, me.at[unit] + self.chance.randint(1, 3))
            if end > me.at[unit] and (self.calm or self.chance.random() < 0.8):
                found.append(Move(unit, me.lines[unit], me.at[unit], end))
        return found

    def _batch(self, me: Attempt, moves: Sequence[Move]) -> Steps:
        """Starts a writer, and waits for its answer, or not; then writes the letters."""
        moves = [self._with_letters(move) for move in moves]
        writer = self._thread(lambda own: self._writer(me.session, moves, own))
        while not writer.ended:
            yield "wait"
            if not self.calm and self.chance.random() < 0.05:
                raise Unanswered
        if writer.ended != "done" or (not self.calm and self.chance.random() < 0.05):
            raise Unanswered
        for move in moves:
            me.lines[move.unit], me.at[move.unit] = move.line_after, move.end
        for move in moves:
            if move.letters:
                yield "before the letters"
                me.deliver(move.unit, move.letters)

    def _with_letters(self, move: Move) -> Move:
        refused = [at for at in range(move.start, move.end) if self.chance.random() < 0.3]
        letters = [LeftOut(at, OutputRecord(None, f"{move.line} {at}".encode())) for at in refused]
        return replace(move, letters=KeptLetters(move.line, move.end, letters).encode())

    def _writer(self, session: str, moves: Sequence[Move], connection: Connection) -> Steps:
        """Writes a batch, which may be repeated after its commit; its rows go through a copy or directly."""
        direct = self.chance.random() < 0.5
        for _ in range(self.chance.choice([1, 1, 1, 2])):
            with connection.transaction():
                if direct:
                    self._insert(connection, moves)
                yield "rows are copied"
                writes = self.positions.advance(connection, session, moves)
                if not writes:
                    raise Rollback
                yield "positions are moved"
                if not direct:
                    self._insert(connection, moves)
                yield "before the commit"
            late = [move.unit for move in moves if self.holders[move.unit] != session]
            assert not (writes and late), (
                f"seed {self.seed}: {late} were written by an attempt that lost them"
            )

    def _insert(self, connection: Connection, moves: Sequence[Move]) -> None:
        text: Any = f"INSERT INTO {self.rows} SELECT %s, %s, unnest(%s::int[])"
        for move in moves:
            letters = KeptLetters.decode(move.letters).letters if move.letters else ()
            refused = {one.offset for one in letters}
            accepted = [at for at in range(move.start, move.end) if at not in refused]
            connection.execute(text, [move.unit, move.line, accepted])

    def _alter(self) -> None:
        """An operation on offsets; one that finds a lock is not repeated."""
        unit, offset, session = self.chance.choice(UNITS), self.chance.randint(0, RECORDS), uuid.uuid4().hex
        self.starts[unit, session] = offset
        try:
            with self.reader.transaction():
                self.positions.put(self.reader, {unit: offset}, session)
            self.holders[unit] = session
        except errors.LockNotAvailable:
            return


def _line_and_offset(value: bytes) -> tuple[str, int]:
    line, _, offset = value.decode().rpartition(" ")
    return line, int(offset)
