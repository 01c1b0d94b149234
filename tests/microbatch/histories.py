"""Histories of attempts around one Kafka: every step of every thread in any order.

An attempt has a driver, which carries out what ``Ownership`` says, and a writer for each slot of a batch. They
are generators; whoever runs them may leave any of them alone for as long as it likes, so a thread may freeze
between any two steps and wake at the end of the history. A writer may outlive its driver, as an executor does.
"""

import random
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from cooperator.microbatch.claims import Claim, Position, PositionKey, Slots, UnitKey
from cooperator.microbatch.ownership import (
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
from cooperator.microbatch.positions import Ledger
from cooperator.model import Epoch
from tests.microbatch.kafka_model import Busy, Fenced, Kafka

CONNECTOR = "c"
UNITS = tuple(UnitKey(CONNECTOR, f"u-{number}") for number in range(4))
RECORDS = 10
"""The number of records of each unit's source."""
CALM_STEPS = 3_000
"""Within so many steps everything is delivered once the other attempts rest."""

POINTS = ("begin", "write", "init", "end", "read", "row", "position", "commit", "answer", "wait")
"""Where threads can be interrupted: before each of these."""

Thread = Generator[str, None, None]


class Broken(AssertionError):
    """A promise is broken."""


class Choices(Protocol):
    """Where a history's decisions come from."""

    def below(self, limit: int) -> int: ...


class Chance:
    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def below(self, limit: int) -> int:
        return self._random.randrange(limit)


class Tape:
    """Decisions from a list of numbers; then always the first choice. It shrinks well."""

    def __init__(self, numbers: Sequence[int]) -> None:
        self._numbers = iter(numbers)

    def below(self, limit: int) -> int:
        return next(self._numbers, 0) % limit


@dataclass(frozen=True, slots=True)
class Rules:
    """What attempts do. The defaults are right; everything else is a bug to plant.

    * ``writers_initialise``: a writer whose process has no producer of its session initialises one.
    * ``any_session``: a writer takes whatever producer its process has for its slot.
    * ``bare_sessions``: sessions are told apart by their numbers only.
    * ``reads_to_stable``: readers do not wait for open transactions.
    * ``may_disturb``: no bug, but one promise less: attempts that come too late may initialise ids.
    """

    start: tuple[Step, ...] = START
    recovery: tuple[Step, ...] = RECOVERY
    machine: Callable[..., Ownership] = Ownership
    writers_initialise: bool = False
    any_session: bool = False
    bare_sessions: bool = False
    reads_to_stable: bool = False
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
    late: bool = False
    """A newer claim on one of its units was there before it began, or before it began to recover."""

    @property
    def done(self) -> bool:
        return all(self.positions.get(unit, 0) == RECORDS for unit in self.attempt.units)


class History:
    def __init__(self, choices: Choices, rules: Rules | None = None) -> None:
        self.choices = choices
        self.rules = rules or Rules()
        self.kafka = Kafka()
        self.attempts: list[Running] = []
        self.producers: dict[tuple[int, str], tuple[str, int]] = {}
        """The session and the epoch of the producer that a member has for a transactional id."""
        self.asleep: dict[Thread, int] = {}
        self.point: dict[Thread, str] = {}
        self.generation = 0
        self.task_of: dict[UnitKey, int] = {}
        self.broker_one_in = (3, 6, 20)[choices.below(3)]
        self.freeze_one_in = (8, 15, 40, 0)[choices.below(4)]
        """0: each thread freezes once, at a step that is chosen in advance, and runs fast otherwise."""
        self.trap: dict[Thread, int] = {}
        self.turmoil_one_in = (40, 100, 250)[choices.below(3)]
        self.sore = POINTS[choices.below(len(POINTS))]
        """Threads freeze here more often than elsewhere."""
        self.by_rank = choices.below(2) == 1
        """The thread of the highest rank goes on, instead of any one: some race far ahead of others."""
        self.rank: dict[Thread, int] = {}
        self.steps = 0
        self.calm = False
        self.story: list[str] = []

    # Chance

    def chance(self, one_in: int) -> bool:
        """Calm histories, and exhausted tapes, have no mishaps."""
        return not self.calm and self.choices.below(one_in) == one_in - 1

    def tell(self, text: str) -> None:
        self.story.append(f"{self.steps:5} {text}")

    # The leader

    def deal(self) -> None:
        """A new generation: all units are dealt to tasks anew, or one unit moves; other tasks run on."""
        self.generation += 1
        before = dict(self.task_of)
        moved = UNITS if not before or self.choices.below(3) == 2 else (UNITS[self.choices.below(len(UNITS))],)
        self.task_of.update((unit, self.choices.below(3)) for unit in moved)
        for task in sorted({*(self.task_of[unit] for unit in moved), *(before.get(unit, 0) for unit in moved)}):
            units = [unit for unit in UNITS if self.task_of[unit] == task]
            if units:
                # An assignment may reach its member late, and when a newer one is already under way.
                late = self.choices.below(3)
                self.begin(task, units, Epoch(1, self.generation))
                if late and not self.calm:
                    self.begin(task, units, Epoch(1, max(0, self.generation - late)))

    def begin(self, task: int, units: Sequence[UnitKey], epoch: Epoch) -> Running:
        member = self.choices.below(2)
        number = len(self.attempts) + 1
        claim = Claim.of(epoch, number, f"m-{member}/life-1")
        prefix = f"w/{CONNECTOR}/{task}" if self.choices.below(2) else f"w/{CONNECTOR}/{task}/{number}"
        return self._start(Attempt(claim, tuple(units), Slots(prefix, 1 + self.choices.below(3))), member)

    def _start(self, attempt: Attempt, member: int) -> Running:
        machine = self.rules.machine(attempt, self.rules.start, self.rules.recovery)
        running = Running(attempt, member, machine)
        running.driver = self._driver(running)
        self.attempts.append(running)
        units = ", ".join(unit.unit for unit in attempt.units)
        self.tell(f"{attempt.claim}: begins with {units}, {attempt.slots}")
        return running

    # An attempt's driver

    def _driver(self, me: Running) -> Thread:
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
                yield from self._append(name, epoch, _output(unit), str(unit).encode(), b"%d" % offset)
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

    def _move(
        self, me: Running, name: str, epoch: int, ranges: Sequence[tuple[UnitKey, int, int]]
    ) -> Thread:
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

    # The world

    def run(self) -> None:
        """A history: some time in which anything happens, then rest. Raises Broken."""
        self.deal()
        length = 60 + self.choices.below(500)
        while self.steps < length:
            self.step()
        self.check()
        self.rest()

    def step(self) -> None:
        self.steps += 1
        if self.chance(self.turmoil_one_in):
            (self.deal, self._restart_one, self._crash_one)[self.choices.below(3)]()
        elif self.chance(self.broker_one_in):
            self._broker()
        else:
            self._advance(self._awake())

    def _restart_one(self) -> None:
        """A later attempt of the same task in the same epoch."""
        before = self.attempts[self.choices.below(len(self.attempts))]
        attempt = before.attempt
        claim = Claim(attempt.claim.epoch, len(self.attempts) + 1, attempt.claim.owner)
        slots = Slots(attempt.slots.prefix, 1 + self.choices.below(3))
        self._start(Attempt(claim, attempt.units, slots), before.member)

    def _crash_one(self) -> None:
        """A driver ends at any point; its writers end with it, or run on."""
        running = self.attempts[self.choices.below(len(self.attempts))]
        if running.driver is not None:
            running.driver, running.crashed = None, True
            self.tell(f"{running.attempt.claim}: crashes")
            if self.choices.below(2):
                running.writers.clear()

    def _broker(self) -> None:
        unmarked, ongoing = self.kafka.unmarked(), self.kafka.ongoing()
        if ongoing and self.chance(8):
            name = ongoing[self.choices.below(len(ongoing))]
            self.tell(f"broker: times out {name}")
            self.kafka.time_out(name)
        elif unmarked:
            self.kafka.mark(*unmarked[self.choices.below(len(unmarked))])

    def _awake(self) -> list[tuple[Running, Thread]]:
        found = [(each, thread) for each in self.attempts for thread in _threads(each)]
        return [each for each in found if self.asleep.get(each[1], 0) <= self.steps]

    def _advance(self, threads: Sequence[tuple[Running, Thread]]) -> None:
        if not threads:
            return
        running, thread = self._highest(threads) if self.by_rank else threads[self.choices.below(len(threads))]
        if self._freezes(running, thread):
            # For a while, or until everything else is over.
            self.asleep[thread] = self.steps + 10 * 4 ** self.choices.below(6)
            return
        before = self.point.get(thread)
        self._go(running, thread)
        if self.by_rank and (self.point[thread] in ("wait", before) or self.chance(20)):
            self.rank[thread] = self.choices.below(1_000)

    def _freezes(self, running: Running, thread: Thread) -> bool:
        if self.freeze_one_in:
            return self.chance(3 if self.point.get(thread) == self.sore else self.freeze_one_in)
        if thread not in self.trap:
            longest = 1 + self.choices.below(40 if thread is running.driver else 20)
            self.trap[thread] = 1 + self.choices.below(longest)
        self.trap[thread] -= 1
        return not self.calm and self.trap[thread] == 0

    def _highest(self, threads: Sequence[tuple[Running, Thread]]) -> tuple[Running, Thread]:
        for _, thread in threads:
            if thread not in self.rank:
                self.rank[thread] = self.choices.below(1_000)
        return max(threads, key=lambda each: self.rank[each[1]])

    def _go(self, running: Running, thread: Thread) -> None:
        try:
            self.point.setdefault(thread, "")
            self.point[thread] = next(thread)
        except StopIteration:
            if thread is running.driver:
                running.driver = None
            else:
                running.writers.remove(thread)

    # Rest

    def rest(self) -> None:
        """The newest attempts deliver alone; then all others wake, and change nothing; and once more so."""
        for running in [each for each in self.attempts if self._is_newest(each) and not each.crashed]:
            self._alone(running, "the newest of its units")
        self._wake_all(200)
        self.generation += 1
        self._alone(self.begin(9, UNITS, Epoch(2, self.generation)), "a fresh one")
        self._wake_all(300)
        self._settle()
        self.check()
        for unit in UNITS:
            if (rows := self.rows(unit)) != list(range(RECORDS)):
                raise Broken(f"{unit}: committed rows are {rows} at the end")

    def _wake_all(self, steps: int) -> None:
        self.calm = False
        self.asleep.clear()
        for _ in range(steps):
            self.steps += 1
            if self.choices.below(4) == 3:
                self._broker()
            else:
                self._advance(self._awake())

    def _is_newest(self, running: Running) -> bool:
        return not any(
            other.attempt.claim > running.attempt.claim and set(other.attempt.units) & set(running.attempt.units)
            for other in self.attempts
        )

    def _alone(self, running: Running, what: str) -> None:
        """This one runs until it is done; the broker does its part; all others rest."""
        self.calm = True
        who = f"{running.attempt.claim}, {what},"
        for count in range(CALM_STEPS):
            self.steps += 1
            if running.done and running.driver is None:
                return
            if running.stopped:
                raise Broken(f"{who} stopped: {running.stopped}")
            for thread in _threads(running):
                self._go(running, thread)
            for marker in self.kafka.unmarked():
                self.kafka.mark(*marker)
            if count % 100 == 99:
                # Transactions of threads that rest end at their time limit.
                for name in self.kafka.ongoing():
                    self.kafka.time_out(name)
        raise Broken(f"{who} did not deliver within {CALM_STEPS} steps")

    def _settle(self) -> None:
        for name in self.kafka.ongoing():
            self.kafka.time_out(name)
        while unmarked := self.kafka.unmarked():
            self.kafka.mark(*unmarked[0])

    # Promises

    def rows(self, unit: UnitKey) -> list[int]:
        """The committed rows of a unit, in the order in which readers get them."""
        end = self.kafka.last_stable_offset(_output(unit))
        key = str(unit).encode()
        entries = self.kafka.committed(_output(unit), end)
        return [int(entry.value or b"-1") for entry in entries if entry.key == key]

    def check(self) -> None:
        """Committed rows are the source's, in order, without gap and double."""
        for unit in UNITS:
            rows = self.rows(unit)
            if rows != list(range(len(rows))):
                raise Broken(f"{unit}: committed rows are {rows}")

    def _check_stop(self, me: Running) -> None:
        newer = any(
            other.attempt.claim > me.attempt.claim and set(other.attempt.units) & set(me.attempt.units)
            for other in self.attempts
        )
        if not newer:
            raise Broken(f"{me.attempt.claim} stopped without a newer attempt: {me.stopped}")

    def _check_init(self, me: Running, name: str) -> None:
        """An attempt that starts, or recovers, after a newer claim disturbs no other one."""
        if me.late and not self.rules.may_disturb:
            raise Broken(f"{me.attempt.claim} initialises {name}, though a newer claim was there before")

    def _is_replaced(self, me: Running) -> bool:
        """Whether a newer claim on one of its units is written."""
        ledger = Ledger()
        for entry in self.kafka.logs["claims"]:
            ledger.apply(entry.key, entry.value)
        claims = ledger.claims(me.attempt.units)
        return any(claim > me.attempt.claim for of_unit in claims.values() for claim in of_unit)

    def _label(self, session: str) -> str:
        return session.rpartition("/")[2] if self.rules.bare_sessions else session


def run(choices: Choices, rules: Rules | None = None) -> History:
    """Returns the history; raises Broken, with its story."""
    history = History(choices, rules)
    try:
        history.run()
    except Broken as error:
        raise Broken("\n".join([str(error), *history.story])) from error
    return history


def _threads(running: Running) -> list[Thread]:
    return [*([running.driver] if running.driver is not None else []), *running.writers]


def _output(unit: UnitKey) -> str:
    return f"rows-{int(unit.unit[-1]) % 2}"


def _shown(action: Action) -> str:
    match action:
        case Write(records):
            return "writes " + ", ".join(f"{key.decode()}{'' if value else ' (tombstone)'}" for key, value in records)
        case Run(positions, session):
            at = ", ".join(f"{unit.unit} {position.next}" for unit, position in positions.items())
            return f"runs from {at or 'the beginning'}, session {session}"
        case _:
            return str(action)
