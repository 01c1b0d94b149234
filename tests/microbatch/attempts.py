"""Attempts as threads around one Kafka.

An attempt has a driver, which carries out what ``Ownership`` says, and a writer for each slot of a batch.
They are generators; a test may leave any of them alone for as long as it likes. A writer may
outlive its driver, as an executor does.
"""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from cooperator.connectors.microbatch.claims import Claim, ClaimKey, Position, PositionKey, UnitKey
from cooperator.connectors.microbatch.ownership import (
    RECOVERY,
    START,
    Action,
    Attempt,
    BatchFailed,
    Begin,
    Done,
    Event,
    Fence,
    Initialise,
    Look,
    Ownership,
    Read,
    Run,
    Seen,
    Step,
    Stop,
    Write,
)
from cooperator.connectors.microbatch.positions import Ledger, Positions
from cooperator.model import Epoch
from tests.microbatch.kafka_model import Busy, Fenced, Kafka

CONNECTOR = "c"
UNITS = tuple(UnitKey(CONNECTOR, f"u-{number}") for number in range(4))
RECORDS = 10
"""The number of records of each unit's source."""

POINTS = ("begin", "write", "init", "end", "read", "row", "position", "commit", "answer", "wait")
"""Where threads can be interrupted: before each of these."""

OFFSETS = "offsets"
LEAST = Claim(Epoch(0, 0), 0, OFFSETS)
"""The claim of positions that an operation on offsets commits."""
FOREIGN = "they have no unit in common"

Thread = Generator[str, None, None]


class Broken(AssertionError):
    """A promise is broken."""


class Choices(Protocol):
    """Where a history's decisions come from."""

    def below(self, limit: int) -> int: ...


@dataclass(frozen=True, slots=True)
class Rules:
    """The actions of attempts. The defaults are right; everything else is a bug to plant.

    * ``writers_initialise``: a writer whose process has no producer of its session initialises one.
    * ``any_session``: a writer takes whatever producer its process has for its slot.
    * ``bare_sessions``: sessions are told apart by their numbers only.
    * ``reads_to_stable``: readers do not wait for open transactions.
    * ``ids_by_task``: attempts name their ids by the number of their task.
    * ``altering``: the steps of an operation on offsets.
    * ``may_disturb``: no bug, but one promise less: attempts that come too late may initialise ids.
    """

    start: tuple[Step, ...] = START
    recovery: tuple[Step, ...] = RECOVERY
    machine: Callable[..., Ownership] = Ownership
    writers_initialise: bool = False
    any_session: bool = False
    bare_sessions: bool = False
    reads_to_stable: bool = False
    ids_by_task: bool = False
    altering: tuple[Step, ...] = START
    may_disturb: bool = False


@dataclass(slots=True)
class Running:
    """An attempt and its threads. ``member`` is the process that they share with other attempts."""

    attempt: Attempt
    member: int
    machine: Ownership
    driver: Thread | None = None
    writers: list[Thread] = field(default_factory=list)
    positions: dict[UnitKey, int] = field(default_factory=dict)
    stopped: str = ""
    crashed: bool = False
    alters: bool = False
    """It changes offsets: it commits positions with the least claim, and removes its own claims."""
    late: bool = False
    """A newer claim on one of its units was there before it began, or before it began to recover."""

    @property
    def done(self) -> bool:
        return all(self.positions.get(unit, 0) == RECORDS for unit in self.attempt.units)


class Threads:
    """The threads of all attempts, and what they share."""

    def __init__(self, choices: Choices, rules: Rules) -> None:
        self.choices = choices
        self.rules = rules
        self.kafka = Kafka()
        self.attempts: list[Running] = []
        self.producers: dict[tuple[int, str], tuple[str, int]] = {}
        """The session and the epoch of the producer that a member has for a transactional id."""
        self.steps = 0
        self.calm = False
        self.story: list[str] = []

    def chance(self, one_in: int) -> bool:
        """Calm histories, and exhausted tapes, have no mishaps."""
        return not self.calm and self.choices.below(one_in) == one_in - 1

    def tell(self, text: str) -> None:
        self.story.append(f"{self.steps:5} {text}")

    def driver(self, me: Running) -> Thread:
        yield "begin"
        me.late = self._is_replaced(me)
        event: Event = Begin()
        while True:
            action = me.machine.on(event)
            self.tell(f"{me.attempt.claim}: {_shown(action)}")
            match action:
                case Write(records):
                    for key, value in records:
                        yield "write"
                        self.kafka.append_plainly("claims", key, value)
                    event = Done()
                case Look():
                    claims = yield from self._read(["claims"])
                    event = Seen(claims.claims(me.attempt.units))
                case Fence(ids):
                    for name in ids:
                        self._check_init(me, name)
                        yield from self._init(name)
                    event = Done()
                case Initialise(ids, session):
                    for name in ids:
                        self._check_init(me, name)
                        epoch = yield from self._init(name)
                        self.producers[me.member, name] = (self._label(session), epoch)
                    event = Done()
                case Read():
                    orders = (["claims", "positions"], ["positions", "claims"])
                    ledger = yield from self._read(orders[self.choices.below(2)])
                    event = Seen(
                        ledger.claims(me.attempt.units),
                        ledger.positions(me.attempt.units),
                    )
                case Run(positions, session) if me.alters:
                    yield from self._alter(me, session, positions)
                    return
                case Run(positions, session):
                    me.positions = {unit: positions[unit].next for unit in positions}
                    while (yield from self._batch(me, session)):
                        if me.done:
                            return
                    event = BatchFailed()
                    me.late = self._is_replaced(me)
                case Stop(reason):
                    me.stopped = reason
                    self._check_stop(me)
                    return

    def _alter(self, me: Running, session: str, positions: Positions) -> Thread:
        """Commits the positions as they are, so that no record is delivered twice or left out."""
        name = me.attempt.slots.ids[0]
        held, epoch = self.producers[me.member, name]
        if held != self._label(session):
            # Each operation has a producer of its own, which a later one with the same id has fenced.
            me.stopped = "fenced"
            return
        try:
            for unit, position in positions.items():
                value = Position(position.next, LEAST).encode()
                yield from self._append(name, epoch, "positions", PositionKey(unit).encode(), value)
            yield "commit"
            self.kafka.end(name, epoch, commits=True)
        except (Fenced, Busy):
            me.stopped = "fenced"
            return
        for unit in me.attempt.units:
            yield "write"
            self.kafka.append_plainly("claims", ClaimKey(unit, me.attempt.claim).encode(), None)
        me.stopped = "done"

    def _init(self, name: str) -> Generator[str, None, int]:
        while True:
            yield "init"
            try:
                return self.kafka.init(name)
            except Busy:
                continue

    def _read(self, partitions: Sequence[str]) -> Generator[str, None, Ledger]:
        ledger = Ledger()
        for partition in partitions:
            yield "end"
            end = self.kafka.high_watermark(partition)
            if self.rules.reads_to_stable:
                end = min(end, self.kafka.last_stable_offset(partition))
            yield "read"
            while self.kafka.last_stable_offset(partition) < end:
                yield "read"
            if self.chance(2):
                end = self.kafka.last_stable_offset(partition)
            for entry in self.kafka.committed(partition, end):
                ledger.apply(entry.key, entry.value)
        return ledger

    def _batch(self, me: Running, session: str) -> Generator[str, None, bool]:
        """Runs one batch; returns whether everything is known to be committed."""
        plan: dict[int, list[tuple[UnitKey, int, int]]] = {}
        for unit in me.attempt.units:
            begin = me.positions.get(unit, 0)
            if begin < RECORDS:
                end = min(RECORDS, begin + 1 + self.choices.below(2))
                plan.setdefault(self.choices.below(me.attempt.slots.count), []).append((unit, begin, end))
        outcomes: dict[int, bool] = {}
        for slot, ranges in plan.items():
            me.writers.append(self._writer(me, slot, session, ranges, outcomes))
        while len(outcomes) < len(plan):
            yield "wait"
            if self.chance(12):
                self.tell(f"{me.attempt.claim}: gives a batch up")
                return False
        if not all(outcomes.values()):
            return False
        for ranges in plan.values():
            me.positions.update((unit, end) for unit, _, end in ranges)
        return True

    def _writer(
        self,
        me: Running,
        slot: int,
        session: str,
        ranges: Sequence[tuple[UnitKey, int, int]],
        outcomes: dict[int, bool],
    ) -> Thread:
        yield "begin"
        name = me.attempt.slots.ids[slot]
        held, epoch = self.producers.get((me.member, name), ("", 0))
        is_mine = held == self._label(session)
        if self.rules.writers_initialise and (not is_mine or self.chance(3)):
            # As at an executor that did not serve the slot's last batch.
            epoch = yield from self._init(name)
        elif not is_mine and not self.rules.any_session:
            outcomes[slot] = False
            return
        try:
            rows = [(unit, offset) for unit, begin, end in ranges for offset in range(begin, end)]
            # Nothing depends on the order of records within a transaction.
            early = self.choices.below(2) == 1
            if early:
                yield from self._move(me, name, epoch, ranges)
            for unit, offset in rows:
                yield from self._append(name, epoch, output_of(unit), str(unit).encode(), b"%d" % offset)
            if not early:
                yield from self._move(me, name, epoch, ranges)
            yield "commit"
            if self.chance(10):
                self.kafka.end(name, epoch, commits=False)
                outcomes[slot] = False
                return
            self.kafka.end(name, epoch, commits=True)
            moved = ", ".join(f"{unit.unit} [{begin}, {end})" for unit, begin, end in ranges)
            self.tell(f"{me.attempt.claim}: commits {moved} by {name}, epoch {epoch}")
            yield "answer"
            # The answer may get lost.
            outcomes[slot] = not self.chance(6)
        except (Fenced, Busy):
            outcomes[slot] = False

    def _move(self, me: Running, name: str, epoch: int, ranges: Sequence[tuple[UnitKey, int, int]]) -> Thread:
        for unit, _, end in ranges:
            value = Position(end, me.attempt.claim).encode()
            yield from self._append(name, epoch, "positions", PositionKey(unit).encode(), value)

    def _append(self, name: str, epoch: int, partition: str, key: bytes, value: bytes) -> Thread:
        while True:
            yield "position" if partition == "positions" else "row"
            try:
                self.kafka.append(name, epoch, partition, key, value)
                return
            except Busy:
                continue

    def _check_stop(self, me: Running) -> None:
        newer = any(
            other.attempt.claim > me.attempt.claim and set(other.attempt.units) & set(me.attempt.units)
            for other in self.attempts
        )
        if not newer:
            raise Broken(f"{me.attempt.claim} stopped without a newer attempt: {me.stopped}")

    def _check_init(self, me: Running, name: str) -> None:
        """An attempt that starts, or recovers, after a newer claim disturbs no other one.

        None ever disturbs an attempt of other units.
        """
        mine = set(me.attempt.units)
        # An operation on offsets ends newer attempts, and leaves the units to whoever comes.
        changed = any(other.alters and mine.intersection(other.attempt.units) for other in self.attempts)
        if me.late and not self.rules.may_disturb and not changed:
            raise Broken(f"{me.attempt.claim} initialises {name}, though a newer claim was there before")
        for other in self.attempts:
            if name in other.attempt.slots.ids and mine.isdisjoint(other.attempt.units):
                raise Broken(f"{me.attempt.claim} initialises {name} of {other.attempt.claim}: {FOREIGN}")

    def _is_replaced(self, me: Running) -> bool:
        """Whether a newer claim on one of its units is written."""
        ledger = Ledger()
        for entry in self.kafka.logs["claims"]:
            ledger.apply(entry.key, entry.value)
        claims = ledger.claims(me.attempt.units)
        return any(claim > me.attempt.claim for of_unit in claims.values() for claim in of_unit)

    def _label(self, session: str) -> str:
        return session.rpartition("/")[2] if self.rules.bare_sessions else session


def output_of(unit: UnitKey) -> str:
    return f"rows-{int(unit.unit[-1]) % 2}"


def _shown(action: Action) -> str:
    match action:
        case Write(records):
            return "writes " + ", ".join(
                f"{key.decode()}{'' if value else ' (tombstone)'}" for key, value in records
            )
        case Run(positions, session):
            at = ", ".join(f"{unit.unit} {position.next}" for unit, position in positions.items())
            return f"runs from {at or 'the beginning'}, session {session}"
        case _:
            return str(action)
