"""Histories of attempts at units of files: every step of every thread in any order.

A thread may freeze between any two steps and wake at the end; requests may be carried out long after their
sender has given them up; users take visible files away.
"""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from cooperator.connectors.intents.machine import (
    Action,
    Append,
    Begin,
    Create,
    Created,
    Done,
    Event,
    Found,
    Hold,
    Look,
    Newest,
    Publish,
    Read,
    Recover,
    Stop,
    Tidy,
    UnitMachine,
    Withdraw,
)
from cooperator.connectors.intents.values import RELEASED, Intent, StagedFile
from cooperator.connectors.microbatch.claims import Claim
from cooperator.model import Epoch

UNITS = ("a-0", "a-1")
RECORDS = 7
CALM_STEPS = 1_500
FRESH = "a fresh one"
KEPT = 1
"""Fewer intents than in earnest, so that numbers become free soon."""

Thread = Generator[str, None, None]


class Choices(Protocol):
    def below(self, limit: int) -> int: ...


class Broken(AssertionError):
    """A promise is broken; the message says which, and the story follows."""


class Failed(Exception):
    """A request has failed, as far as its sender can tell."""


@dataclass
class Directory:
    """The store. Each method is one atomic step, as a file system and S3 have it."""

    logs: dict[str, dict[int, Intent]] = field(default_factory=lambda: {unit: {} for unit in UNITS})
    staged: dict[str, tuple[str, int, range]] = field(default_factory=dict)
    visible: dict[str, tuple[str, range]] = field(default_factory=dict)
    taken: list[tuple[str, range]] = field(default_factory=list)
    """The rows of files that users have compacted: they are rows of the table still."""

    def newest(self, unit: str) -> int:
        return max(self.logs[unit], default=0)

    def create(self, unit: str, number: int, intent: Intent) -> bool:
        return self.logs[unit].setdefault(number, intent) is intent

    def publish(self, file: StagedFile) -> None:
        found = self.staged.pop(file.token, None)
        if found is not None:
            self.visible[file.name] = (found[0], found[2])

    def rows(self, unit: str) -> list[int]:
        files = [*self.visible.values(), *self.taken]
        return sorted(row for of_unit, rows in files if of_unit == unit for row in rows)


@dataclass
class Rules:
    """The code under test, and bugs that are planted around it."""

    machine: Callable[..., UnitMachine] = UnitMachine
    directory: Callable[[], Directory] = Directory
    discards: Callable[[int, int], bool] = lambda other, mine: other < mine


class Attempt:
    def __init__(self, claim: Claim, units: Sequence[str], machines: dict[str, UnitMachine]) -> None:
        self.claim = claim
        self.units = units
        self.machines = machines
        self.at: dict[str, int | None] = {}
        self.driver: Thread | None = None
        self.stopped = ""
        self.crashed = False
        self.alters = False

    @property
    def is_done(self) -> bool:
        return bool(self.at) and all(self.at.get(unit) == RECORDS for unit in self.units)


class History:
    def __init__(self, choices: Choices, rules: Rules | None = None) -> None:
        self.choices = choices
        self.rules = rules or Rules()
        self.store = self.rules.directory()
        self.attempts: list[Attempt] = []
        self.requests: list[Thread] = []
        """Requests that their senders have given up."""
        self.asleep: dict[Thread, int] = {}
        self.begun: dict[str, Claim] = {}
        """The newest claim of a unit whose session was accepted: no older one commits from then on."""
        self.released: set[str] = set()
        """Units whose offsets a user has changed: any attempt may stop there, or go on."""
        self.steps = 0
        self.files = 0
        self.calm = False
        self.story: list[str] = []
        self.freeze_one_in = (6, 15, 40)[choices.below(3)]
        self.turmoil_one_in = (25, 60, 150)[choices.below(3)]
        self.sore = ("create", "look", "publish", "withdraw", "list", "read", "remove", "discard")[
            choices.below(8)
        ]
        """Threads freeze here more often than elsewhere."""

    def chance(self, one_in: int) -> bool:
        """Calm histories, and exhausted tapes, have no mishaps."""
        return not self.calm and self.choices.below(one_in) == one_in - 1

    def tell(self, text: str) -> None:
        self.story.append(f"{self.steps:5} {text}")

    # Attempts

    def begin(self, generation: int, units: Sequence[str], *, publishes: bool = True) -> Attempt:
        claim = Claim(Epoch(1, generation), len(self.attempts) + 1, f"m-{self.choices.below(2)}")
        machines = {unit: self.rules.machine(unit, claim, KEPT, publishes=publishes) for unit in units}
        attempt = Attempt(claim, units, machines)
        attempt.driver = self._drive(attempt)
        self.attempts.append(attempt)
        self.tell(f"{claim}: begins with {', '.join(units)}")
        return attempt

    def _drive(self, me: Attempt) -> Thread:
        yield "begin"
        event: Event = Begin()
        while True:
            try:
                for unit in me.units:
                    yield from self._until_held(me, unit, event)
                if me.alters:
                    yield from self._alter(me)
                    return
                while not me.stopped:
                    yield from self._batch(me)
                    if me.is_done:
                        return
            except Failed:
                self.tell(f"{me.claim}: recovers")
                event = Recover()
            if me.stopped:
                return

    def _until_held(self, me: Attempt, unit: str, event: Event) -> Thread:
        if me.stopped:
            return
        machine = me.machines[unit]
        if machine.action is None:
            event = Begin()
        action = machine.on(event)
        while not isinstance(action, Hold | Stop):
            self.tell(f"{me.claim} {unit}: {_shown(action)}")
            answer: list[Event] = []
            yield from self._carry_out(me, unit, action, answer)
            action = machine.on(answer[0])
        if isinstance(action, Stop):
            me.stopped = action.reason
            self.tell(f"{me.claim} {unit}: stops: {action.reason[:60]}")
            self._check_stop(me)
        else:
            me.at[unit] = action.last.next
            self.tell(f"{me.claim} {unit}: is at {action.last.next}")

    def _alter(self, me: Attempt) -> Thread:
        """Leaves the positions as they are, so that no row is there twice or not at all."""
        for unit in me.units:
            if not me.stopped:
                yield from self._until_held(me, unit, Append(me.at[unit], "", (), True))

    def _batch(self, me: Attempt) -> Thread:
        for unit in me.units:
            action = me.machines[unit].action
            assert isinstance(action, Hold)
            start = me.at[unit]
            if start == RECORDS or me.stopped:
                continue
            if start is None:
                cut = Append(0)
            else:
                end = min(RECORDS, start + 1 + self.choices.below(3))
                cut = Append(end, "", tuple(self._stage(unit, action.base, range(start, end))))
                yield "stage"
                if self.chance(12):
                    raise Failed
            yield from self._until_held(me, unit, cut)
            if not me.stopped and me.at[unit] != cut.next:
                raise Failed

    def _stage(self, unit: str, base: int, rows: range) -> list[StagedFile]:
        found = []
        middle = rows.start + self.choices.below(len(rows))
        for part in (range(rows.start, middle), range(middle, rows.stop)):
            if part:
                self.files += 1
                token = f"{unit}/{base}/{self.files}"
                self.store.staged[token] = (unit, base, part)
                found.append(StagedFile(f"{unit}+{part.start}.{self.files}", token))
        return found

    def _carry_out(self, me: Attempt, unit: str, action: Action, answer: list[Event]) -> Thread:
        store, log = self.store, self.store.logs[unit]
        match action:
            case Read():
                while True:
                    yield "list"
                    number = store.newest(unit)
                    yield "read"
                    found = log.get(number)
                    yield "look"
                    if store.newest(unit) == number:
                        answer.append(Found(number, found))
                        return
            case Look():
                yield "look"
                answer.append(Newest(store.newest(unit)))
            case Create(number, intent):
                yield "create"
                if self.chance(12):
                    # The request is under way, and its sender waits no longer.
                    self.requests.append(self._late(me.claim, unit, number, intent))
                    raise Failed
                is_mine = store.create(unit, number, intent)
                self._note(me.claim, unit, number, intent, is_mine)
                if self.chance(12):
                    raise Failed
                if self.chance(12):
                    # It was repeated by the client.
                    is_mine = store.create(unit, number, intent) and not is_mine
                answer.append(Created(is_mine))
            case Publish(files):
                for file in files:
                    yield "publish"
                    store.publish(file)
                    self.check()
                answer.append(Done())
            case Withdraw(number):
                yield "withdraw"
                log.pop(number, None)
                answer.append(Done())
            case Tidy(below, base):
                for number in [each for each in log if each < below]:
                    yield "remove"
                    log.pop(number, None)
                for token, (of_unit, other, _) in list(store.staged.items()):
                    if base is not None and of_unit == unit and self.rules.discards(other, base):
                        yield "discard"
                        store.staged.pop(token, None)
                answer.append(Done())

    def _late(self, claim: Claim, unit: str, number: int, intent: Intent) -> Thread:
        yield "late"
        is_mine = self.store.create(unit, number, intent)
        self._note(claim, unit, number, intent, is_mine)
        self.tell(
            f"{intent.session} {unit}: a late request for {number} {'succeeds' if is_mine else 'fails'}"
        )

    def _note(self, claim: Claim, unit: str, number: int, intent: Intent, is_mine: bool) -> None:
        if not is_mine or number != self.store.newest(unit):
            return
        newest = self.begun.get(unit, claim)
        if newest > claim:
            raise Broken(f"{claim} commits in {unit}, which {newest} owns")
        if intent.session == RELEASED:
            self.begun.pop(unit, None)
            self.released.add(unit)
        elif intent.start == intent.next:
            self.begun[unit] = claim

    # The world

    def run(self) -> None:
        """A history: some time in which anything happens, then rest. Raises Broken."""
        generation = 1
        self.begin(generation, UNITS)
        length = 40 + self.choices.below(300)
        while self.steps < length:
            self.steps += 1
            if self.chance(self.turmoil_one_in):
                generation += 1
                some = (UNITS, UNITS[:1], UNITS[1:])[self.choices.below(3)]
                late = self.choices.below(4) == 3
                self.begin(generation - 2 * late, some)
            elif self.chance(60):
                self._change()
            elif self.chance(30):
                self._crash()
            elif self.chance(15):
                self._user()
            else:
                self._advance(self._awake())
            self.check()
        self._rest(generation)

    def _user(self) -> None:
        """A user compacts a visible file: its rows are elsewhere, and its name is free."""
        if self.store.visible:
            name = sorted(self.store.visible)[self.choices.below(len(self.store.visible))]
            self.tell(f"a user compacts {name}")
            self.store.taken.append(self.store.visible.pop(name))

    def _change(self) -> None:
        """A user changes offsets, while attempts may run that nobody knows of."""
        newest = max(attempt.claim for attempt in self.attempts)
        publishes = not self.chance(2)
        attempt = self.begin(newest.epoch.generation, UNITS[self.choices.below(2) :], publishes=publishes)
        attempt.alters = True

    def _crash(self) -> None:
        attempt = self.attempts[self.choices.below(len(self.attempts))]
        if attempt.driver is not None:
            self.tell(f"{attempt.claim}: crashes")
            attempt.driver, attempt.crashed = None, True

    def _threads(self) -> list[tuple[Attempt | None, Thread]]:
        drivers = [(each, each.driver) for each in self.attempts if each.driver is not None]
        return [*drivers, *((None, request) for request in self.requests)]

    def _awake(self) -> list[tuple[Attempt | None, Thread]]:
        return [each for each in self._threads() if self.asleep.get(each[1], 0) <= self.steps]

    def _advance(self, threads: Sequence[tuple[Attempt | None, Thread]]) -> None:
        if not threads:
            return
        attempt, thread = threads[self.choices.below(len(threads))]
        point = self._go(attempt, thread)
        if self.chance(3 if point == self.sore else self.freeze_one_in):
            self.asleep[thread] = self.steps + 10 * 4 ** self.choices.below(5)

    def _go(self, attempt: Attempt | None, thread: Thread) -> str:
        try:
            return next(thread)
        except StopIteration:
            if attempt is not None:
                attempt.driver = None
            else:
                self.requests.remove(thread)
            return ""

    def _rest(self, generation: int) -> None:
        """The newest attempts deliver alone; then all others wake, and change nothing; and once more so."""
        for attempt in [each for each in self.attempts if self._is_newest(each) and not each.crashed]:
            self._alone(attempt, "the newest of its units")
        self._wake_all(150)
        self._alone(self.begin(generation + 1, UNITS), FRESH)
        self._user()
        self._wake_all(300)
        for unit in UNITS:
            if (rows := self.store.rows(unit)) != list(range(RECORDS)):
                raise Broken(f"{unit}: rows are {rows} at the end")
        if any(each.stopped == "" and each.driver is not None for each in self.attempts):
            self._wake_all(2_000)

    def _wake_all(self, steps: int) -> None:
        self.calm = False
        self.asleep.clear()
        for _ in range(steps):
            self.steps += 1
            self._advance(self._awake())
            self.check()

    def _is_newest(self, attempt: Attempt) -> bool:
        return not any(
            other.claim > attempt.claim and set(other.units) & set(attempt.units) for other in self.attempts
        )

    def _alone(self, attempt: Attempt, what: str) -> None:
        """This one runs until it is done; all others rest."""
        self.calm = True
        for _ in range(CALM_STEPS):
            self.steps += 1
            if attempt.stopped and not self.released.isdisjoint(attempt.units) and what != FRESH:
                return
            if attempt.stopped:
                raise Broken(f"{attempt.claim}, {what}, stopped: {attempt.stopped}")
            if attempt.driver is None:
                return
            self._go(attempt, attempt.driver)
            self.check()
        raise Broken(f"{attempt.claim}, {what}, did not deliver within {CALM_STEPS} steps")

    # Promises

    def check(self) -> None:
        """No row is there twice, in visible files and in what users have made of earlier ones."""
        for unit in UNITS:
            rows = self.store.rows(unit)
            if len(set(rows)) < len(rows):
                raise Broken(f"{unit}: rows are {rows}")

    def _check_stop(self, me: Attempt) -> None:
        if self._is_newest(me) and self.released.isdisjoint(me.units):
            raise Broken(f"{me.claim} stopped without a newer attempt: {me.stopped}")


def run(choices: Choices, rules: Rules | None = None) -> History:
    """Returns the history; raises Broken, with its story."""
    history = History(choices, rules)
    try:
        history.run()
    except Broken as error:
        raise Broken("\n".join([str(error), *history.story])) from error
    return history


def _shown(action: Action) -> str:
    match action:
        case Create(number, intent):
            names = ", ".join(file.name for file in intent.files)
            return f"creates {number}: {intent.session}, {intent.start} to {intent.next} {names}"
        case Publish(files):
            return f"publishes {', '.join(file.name for file in files)}"
        case _:
            return str(action)
