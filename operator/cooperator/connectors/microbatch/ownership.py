"""The machine by which an attempt comes to own its units. Pure.

**Start**: the attempt writes a claim on each of its units, looks for claims, fences the attempts of all older
claims by initialising their transactional ids, initialises its own, and reads claims and positions. These
positions are final. It removes the older claims and runs.

**Recovery**, after any failed batch: it looks for claims, initialises its own ids, which ends whatever of the
batch is still under way, and reads again.

**No two attempts write, for this reason.** Let Z and S have a unit in common, and let S be the newer one.
Both write their claim, then look, then initialise, then read, then write rows.

* If S saw Z's claim when it looked, S initialised Z's ids. Producers that Z initialised before that can
  write nothing more. If Z initialises later, it reads after that, and finds S's claim, or one that is newer
  still.
* Otherwise Z wrote its claim after S looked, so after S had written its own. Z looks after that, and finds
  it.

Three rules follow. An attempt never initialises an id without reading again before it writes: so whatever
writes rows must use the producers of the attempt's present *session* (one round of initialisations), and must
fail rather than initialise one by itself or take another session's. A claim may be removed only after its ids
were initialised by an attempt whose own claim stays. And an attempt whose own claim is gone owns nothing: its
successors would not fence it.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import Final

from cooperator.connectors.microbatch.claims import (
    Claim,
    ClaimKey,
    Position,
    TransactionalIds,
    UnitKey,
    check_unit,
)
from cooperator.connectors.microbatch.positions import Claims, Positions


class Step(Enum):
    """The steps of a start and of a recovery."""

    CLAIM = "writes its claims"
    LOOK = "looks for claims"
    FENCE = "fences older attempts"
    INITIALISE = "initialises its own transactional ids"
    READ = "reads claims and positions"
    TOMBSTONE = "removes the claims of fenced attempts"


START: Final = (Step.CLAIM, Step.LOOK, Step.FENCE, Step.INITIALISE, Step.READ, Step.TOMBSTONE)
RECOVERY: Final = (Step.LOOK, Step.INITIALISE, Step.READ)


@dataclass(frozen=True, slots=True)
class Attempt:
    """An attempt at the units of a task. ``slots`` are all the transactional ids that it will ever use."""

    claim: Claim
    units: tuple[UnitKey, ...]
    slots: TransactionalIds

    def __post_init__(self) -> None:
        if not self.units or len(set(self.units)) < len(self.units):
            raise ValueError(f"units = {self.units!r}: none, or one twice; use each unit of the task once")
        for unit in self.units:
            check_unit(unit)


# Actions


@dataclass(frozen=True, slots=True)
class Write:
    """Write these records (key, value; None: a tombstone), outside of any transaction. Answer: ``Done``."""

    records: tuple[tuple[bytes, bytes | None], ...]


@dataclass(frozen=True, slots=True)
class Look:
    """Read the claims up to an end that is asked for from now on. Answer: ``Seen``."""


@dataclass(frozen=True, slots=True)
class Fence:
    """Initialise these ids, which ends their transactions, and use them for nothing. Answer: ``Done``."""

    ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Initialise:
    """Initialise a producer for each of these ids, for batches of this session only. Answer: ``Done``.

    No two sessions of any attempts have the same name: tasks of different attempts may share a process.
    """

    ids: tuple[str, ...]
    session: str


@dataclass(frozen=True, slots=True)
class Read:
    """Read claims and committed positions up to an end that is asked for from now on. Answer: ``Seen``."""


@dataclass(frozen=True, slots=True)
class Run:
    """Run batches from these positions (a unit that has none is left out) until one fails.

    A batch may use only producers of this session; if one of them is missing, the batch has failed. Answer:
    ``BatchFailed``.
    """

    positions: Positions
    session: str


@dataclass(frozen=True, slots=True)
class Stop:
    """This attempt owns its units no longer. It must write nothing more; there is no answer."""

    reason: str


Action = Write | Look | Fence | Initialise | Read | Run | Stop


# Events


@dataclass(frozen=True, slots=True)
class Begin:
    """The attempt begins."""


@dataclass(frozen=True, slots=True)
class Done:
    """``Write``, ``Fence`` or ``Initialise`` has been carried out."""


@dataclass(frozen=True, slots=True)
class Seen:
    """The findings of ``Look`` or ``Read`` about the attempt's units; ``Look`` reads no positions."""

    claims: Claims
    positions: Positions = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True)
class BatchFailed:
    """Some of a batch may be committed, and some of it may still be under way."""


Event = Begin | Done | Seen | BatchFailed


class UnexpectedEvent(AssertionError):
    """The event is no answer to the last action."""


class Ownership:
    """Decides for one attempt: feed it ``Begin``, then the answer to each action that it returns.

    ``start`` and ``recovery`` are the order of the steps; tests plant bugs there.
    """

    def __init__(
        self, attempt: Attempt, start: Sequence[Step] = START, recovery: Sequence[Step] = RECOVERY
    ) -> None:
        self._attempt = attempt
        self._start = tuple(start)
        self._recovery = tuple(recovery)
        self._ahead: tuple[Step, ...] = ()
        self._action: Action | None = None
        self._older: Claims = {}
        self._positions: Positions = {}
        self._sessions = 0

    @property
    def attempt(self) -> Attempt:
        return self._attempt

    @property
    def action(self) -> Action | None:
        """The action whose answer is awaited; None before the start."""
        return self._action

    def on(self, event: Event) -> Action:
        """Returns the next action. Raises UnexpectedEvent."""
        match self._action, event:
            case None, Begin():
                self._ahead = self._start
            case ((Write() | Fence() | Initialise()), Done()):
                pass
            case ((Look() | Read()), Seen()):
                lost = self._lost(event)
                if lost:
                    self._action = Stop(lost)
                    return self._action
                self._take(event)
            case Run(), BatchFailed():
                self._ahead = self._recovery
            case _:
                raise UnexpectedEvent(f"{event} is no answer to {self._action}")
        self._action = self._next()
        return self._action

    def _next(self) -> Action:
        while self._ahead:
            step, *rest = self._ahead
            self._ahead = tuple(rest)
            action = self._action_of(step)
            if action is not None:
                return action
        return Run(self._positions, self._session())

    def _session(self) -> str:
        return f"{self._attempt.claim}/{self._sessions}"

    def _action_of(self, step: Step) -> Action | None:
        """Returns the action of a step; None: there is nothing to do."""
        me = self._attempt
        match step:
            case Step.CLAIM:
                value = me.slots.encode()
                return Write(tuple((ClaimKey(unit, me.claim).encode(), value) for unit in me.units))
            case Step.LOOK:
                return Look()
            case Step.FENCE:
                ids = self._foreign_ids()
                return Fence(ids) if ids else None
            case Step.INITIALISE:
                self._sessions += 1
                return Initialise(me.slots.ids, self._session())
            case Step.READ:
                return Read()
            case Step.TOMBSTONE:
                keys = tuple(ClaimKey(unit, claim).encode() for unit, claim, _ in _each(self._older))
                return Write(tuple((key, None) for key in keys)) if keys else None

    def _foreign_ids(self) -> tuple[str, ...]:
        """Ids of older claims, each once, without those that this attempt initialises for itself."""
        own = set(self._attempt.slots.ids)
        found = {each: None for _, _, slots in _each(self._older) for each in slots.ids if each not in own}
        return tuple(found)

    def _take(self, seen: Seen) -> None:
        if isinstance(self._action, Read):
            self._positions = seen.positions
        # A claim that appears only later is neither fenced nor removed: its attempt will find this one's.
        if Step.FENCE in self._ahead:
            self._older = {
                unit: {claim: slots for claim, slots in claims.items() if claim < self._attempt.claim}
                for unit, claims in seen.claims.items()
            }

    def _lost(self, seen: Seen) -> str:
        """Returns why this attempt does not own its units; empty: it does, as far as these claims show."""
        mine = self._attempt.claim
        for unit in self._attempt.units:
            claims: Collection[Claim] = seen.claims.get(unit, {})
            position: Position | None = seen.positions.get(unit)
            newest = max([*claims, *([position.claim] if position else [])], default=mine)
            if newest > mine:
                return (
                    f"unit {unit} is claimed by attempt {newest}, which is newer than this one ({mine}). If "
                    "the group's topics were recreated, so that epochs began anew: stop the connector, and "
                    "reset or alter its offsets"
                )
            if mine not in claims:
                return f"the claim of this attempt ({mine}) on unit {unit} is gone: its offsets were reset"
        return ""


def _each(claims: Claims) -> Iterator[tuple[UnitKey, Claim, TransactionalIds]]:
    for unit, of_unit in claims.items():
        for claim, slots in sorted(of_unit.items(), key=lambda item: item[0]):
            yield unit, claim, slots
