"""Histories of attempts: every step of every thread in any order.

A thread may freeze between any two steps, and wake at the end of the history.
"""

import random
from collections.abc import Sequence

from cooperator.connectors.microbatch.claims import Claim, TransactionalIds, UnitKey
from cooperator.connectors.microbatch.ownership import Attempt
from cooperator.connectors.microbatch.positions import Ledger
from cooperator.model import Epoch
from tests.microbatch.attempts import (
    CONNECTOR,
    LEAST,
    OFFSETS,
    POINTS,
    RECORDS,
    UNITS,
    Broken,
    Choices,
    Rules,
    Running,
    Thread,
    Threads,
    output_of,
)

CALM_STEPS = 3_000
"""Within so many steps everything is delivered once the other attempts rest."""


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


class History(Threads):
    def __init__(self, choices: Choices, rules: Rules | None = None) -> None:
        super().__init__(choices, rules or Rules())
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

    # The leader

    def deal(self) -> None:
        """A new generation: all units are dealt to tasks anew, or one unit moves; other tasks run on."""
        self.generation += 1
        before = dict(self.task_of)
        moved = (
            UNITS if not before or self.choices.below(3) == 2 else (UNITS[self.choices.below(len(UNITS))],)
        )
        self.task_of.update((unit, self.choices.below(3)) for unit in moved)
        for task in sorted(
            {*(self.task_of[unit] for unit in moved), *(before.get(unit, 0) for unit in moved)}
        ):
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
        claim = Claim.of(epoch, number, f"m-{member}/incarnation-1")
        names = [str(task)] if self.rules.ids_by_task else [unit.unit for unit in units]
        slots = TransactionalIds.of_units("w", CONNECTOR, names, 1 + self.choices.below(3))
        if self.choices.below(2) == 0:
            # An id may also be an attempt's own.
            slots = TransactionalIds(f"{slots.prefix}/{number}", slots.count)
        return self._start(Attempt(claim, tuple(units), slots), member)

    def _start(self, attempt: Attempt, member: int, *, alters: bool = False) -> Running:
        steps = self.rules.altering if alters else self.rules.start
        machine = self.rules.machine(attempt, steps, self.rules.recovery)
        running = Running(attempt, member, machine, alters=alters)
        running.driver = self.driver(running)
        self.attempts.append(running)
        units = ", ".join(unit.unit for unit in attempt.units)
        self.tell(f"{attempt.claim}: begins with {units}, {attempt.slots}")
        return running

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
            (self.deal, self._restart_one, self._crash_one, self._alter_one)[self.choices.below(4)]()
        elif self.chance(self.broker_one_in):
            self._broker()
        else:
            self._advance(self._awake())

    def _restart_one(self) -> None:
        """A later attempt of the same task in the same epoch."""
        before = self.attempts[self.choices.below(len(self.attempts))]
        attempt = before.attempt
        claim = Claim(attempt.claim.epoch, len(self.attempts) + 1, attempt.claim.owner)
        slots = TransactionalIds(attempt.slots.prefix, 1 + self.choices.below(3))
        self._start(Attempt(claim, attempt.units, slots), before.member)

    def _alter_one(self) -> None:
        """A user changes the offsets of some units, while attempts may run that nobody knows of."""
        units = UNITS[self.choices.below(2) :][: 1 + self.choices.below(3)]
        ledger = Ledger()
        for log in ("claims", "positions"):
            for entry in self.kafka.committed(log, self.kafka.last_stable_offset(log)):
                ledger.apply(entry.key, entry.value)
        claims = [claim for of_unit in ledger.claims(units).values() for claim in of_unit]
        committed = [position.claim for position in ledger.positions(units).values()]
        newest = max(claims + committed, default=LEAST)
        claim = Claim(newest.epoch, newest.attempt + 1, f"{OFFSETS}-{len(self.attempts)}")
        slots = TransactionalIds.of_units("w", CONNECTOR, [unit.unit for unit in units], 1)
        self._start(Attempt(claim, units, slots), 2, alters=True)

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
        running, thread = (
            self._highest(threads) if self.by_rank else threads[self.choices.below(len(threads))]
        )
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
            if not running.alters:
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
            other.attempt.claim > running.attempt.claim
            and set(other.attempt.units) & set(running.attempt.units)
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
        end = self.kafka.last_stable_offset(output_of(unit))
        key = str(unit).encode()
        entries = self.kafka.committed(output_of(unit), end)
        return [int(entry.value or b"-1") for entry in entries if entry.key == key]

    def check(self) -> None:
        """Committed rows are the source's, in order, without gap and double."""
        for unit in UNITS:
            rows = self.rows(unit)
            if rows != list(range(len(rows))):
                raise Broken(f"{unit}: committed rows are {rows}")


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
