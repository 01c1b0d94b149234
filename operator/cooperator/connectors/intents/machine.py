"""The machine by which an attempt owns one unit of files, and writes its cuts. Pure.

**The log.** Each unit has a log of intents, numbered without gaps. An intent is created exclusively: of all
that want a number, one gets it. So only an attempt that knows the newest intent can add the next one.

**A session** begins with an intent of its own, without files. Before that it finishes the newest cut: it
makes all files of that intent visible. From then on no older session can add an intent: the number it wants
is taken, and when it reads the log anew, it finds a newer session and stops.

**A cut** is staged first: its files are complete and hidden. Then its intent is created, which is the step
that commits its rows, and then each file is made visible. That step consumes the file's token: whoever comes
later changes nothing, even if users have deleted or compacted the visible file meanwhile.

**Old intents are removed**, so a number may be free that was taken once. An attempt that was frozen for long
could take it. So after each creation the attempt looks for the newest number, which is never removed: if that
is not its own, the intent is void. It is withdrawn, and nothing of it becomes visible. For the same reason a
reader looks again after it has read the newest intent.

**Operations on offsets** are sessions of their own. They end with an intent of the least session. Where they
cannot make files visible (in S3, without Spark), their intents have the files of the newest cut once more,
and the next attempt makes them visible.

**Staged files of earlier sessions are discarded** after a session's own intent is accepted: cuts that these
sessions committed are visible by then, and they commit nothing more. Sessions are earlier by the number of
their first intent, their *base*, not by their attempts: after an operation on offsets an older attempt may
own the unit, and a newer one that wakes must leave its files alone.
"""

from dataclasses import dataclass
from typing import Final

from cooperator.connectors.intents.values import RELEASED, Intent, Session, StagedFile
from cooperator.connectors.microbatch.claims import Claim
from cooperator.connectors.microbatch.ownership import UnexpectedEvent

KEPT: Final = 3
"""The newest intents of a unit that are kept. One would do; the others explain what happened."""


# Actions


@dataclass(frozen=True, slots=True)
class Read:
    """Read the newest intent, as of now or later. Answer: ``Found``.

    Its number must still be the newest after it was read: else it may be void, by an attempt that took the
    number once it was free.
    """


@dataclass(frozen=True, slots=True)
class Publish:
    """Make these files visible; one whose token is consumed stays as it is. Answer: ``Done``."""

    files: tuple[StagedFile, ...]


@dataclass(frozen=True, slots=True)
class Create:
    """Create this intent unless the number is taken. Answer: ``Created``."""

    number: int
    intent: Intent


@dataclass(frozen=True, slots=True)
class Look:
    """Find the newest number, as of now or later. Answer: ``Newest``."""


@dataclass(frozen=True, slots=True)
class Withdraw:
    """Remove this intent, which is void. Answer: ``Done``."""

    number: int


@dataclass(frozen=True, slots=True)
class Tidy:
    """Remove intents below this number. Answer: ``Done``.

    ``base`` is set where a session begins: discard what sessions with a smaller base have staged, too.
    """

    below: int
    base: int | None = None


@dataclass(frozen=True, slots=True)
class Hold:
    """The unit is owned, and stands at this intent. Answer: ``Append``, or ``Recover``.

    ``base`` is the number of the session's first intent. Files are staged under it.
    """

    base: int
    last: Intent


@dataclass(frozen=True, slots=True)
class Stop:
    """This attempt does not own the unit, and must write nothing more; there is no answer."""

    reason: str


Action = Read | Publish | Create | Look | Withdraw | Tidy | Hold | Stop


# Events


@dataclass(frozen=True, slots=True)
class Begin:
    """The attempt begins."""


@dataclass(frozen=True, slots=True)
class Found:
    """The newest intent; None: the log is empty, and ``number`` is 0."""

    number: int
    intent: Intent | None


@dataclass(frozen=True, slots=True)
class Done:
    """``Publish``, ``Withdraw`` or ``Tidy`` has been carried out."""


@dataclass(frozen=True, slots=True)
class Created:
    """Whether the intent was created by this request."""

    is_mine: bool


@dataclass(frozen=True, slots=True)
class Newest:
    """The newest number."""

    number: int


@dataclass(frozen=True, slots=True)
class Append:
    """A cut is staged, up to ``next``; or the position moves there, without files.

    With ``releases`` the unit is left to any attempt, after an operation on offsets. ``line`` is set where
    the position jumps.
    """

    next: int | None
    topic_id: str = ""
    files: tuple[StagedFile, ...] = ()
    releases: bool = False
    line: str = ""


@dataclass(frozen=True, slots=True)
class Recover:
    """Something has failed: any step before may have happened, may not, or may still happen."""


Event = Begin | Found | Done | Created | Newest | Append | Recover


class UnitMachine:
    """Decides for one unit of one attempt: feed it ``Begin``, then the answer to each action."""

    def __init__(self, unit: str, claim: Claim, kept: int = KEPT, *, publishes: bool = True) -> None:
        """Without ``publishes`` files of the newest cut are left to the next attempt, by each intent."""
        self._unit = unit
        self._publishes = publishes
        self._session = Session(claim, 0)
        self._kept = kept
        self._action: Action | None = None
        self._number = 0
        self._last: Intent | None = None
        self._base = 0
        self._begun = False
        """Whether the present session has an intent."""
        self._owned = False
        """Whether any session of this attempt had one: from then on older attempts write none."""

    @property
    def action(self) -> Action | None:
        """The action whose answer is awaited; None before the start."""
        return self._action

    def on(self, event: Event) -> Action:
        """Returns the next action. Raises UnexpectedEvent."""
        self._action = self._next(event)
        return self._action

    def _next(self, event: Event) -> Action:
        match self._action, event:
            case None, Begin():
                return self._anew()
            case Stop() as stop, Recover():
                return stop
            case ((Read() | Publish() | Create() | Look() | Withdraw() | Tidy() | Hold()), Recover()):
                return self._anew()
            case Read(), Found(number, intent):
                return self._found(number, intent)
            case Publish(), Done():
                return self._published()
            case Create(number, intent), Created(is_mine):
                self._number, self._last = number, intent
                return Look() if is_mine else Read()
            case Look(), Newest(number):
                return self._looked(number)
            case Withdraw(), Done():
                return Read()
            case Tidy(), Done():
                return Hold(self._base, self._entry())
            case Hold(), Append() as append:
                session = RELEASED if append.releases else self._session
                files, line = (*self._left(), *append.files), append.line or self._entry().line
                intent = Intent(session, self._entry().next, append.next, append.topic_id, files, line)
                return Create(self._number + 1, intent)
        raise UnexpectedEvent(f"{event} is no answer to {self._action}")

    def _anew(self) -> Action:
        """Begins a session. Requests of the last one that are still under way find their number taken."""
        self._session = Session(self._session.claim, self._session.number + 1)
        self._begun = False
        return Read()

    def _found(self, number: int, intent: Intent | None) -> Action:
        if intent is not None and intent.session > self._session:
            return Stop(
                f"unit {self._unit} is owned by attempt {intent.session.claim}, which is newer than this one "
                f"({self._session.claim}). If the group's topics were recreated, so that epochs began anew: "
                "stop the connector, and reset or alter its offsets"
            )
        if self._owned and (intent is None or intent.session.claim < self._session.claim):
            return Stop(
                f"the log of unit {self._unit} was changed while this attempt ran: its offsets were altered "
                "or reset, or the log was removed"
            )
        if intent is not None and intent.session == self._session:
            # A request was repeated after its answer got lost, and was told that the number is taken.
            self._accept(number)
        self._number, self._last = number, intent
        return self._finish()

    def _accept(self, number: int) -> None:
        if not self._begun:
            self._base = number
        self._begun = self._owned = True

    def _finish(self) -> Action:
        """Makes the newest cut visible before anything else."""
        if self._publishes and self._last is not None and self._last.files:
            return Publish(self._last.files)
        return self._published()

    def _left(self) -> tuple[StagedFile, ...]:
        """Returns files of the newest cut that may not be visible yet."""
        return () if self._publishes or self._last is None else self._last.files

    def _published(self) -> Action:
        if not self._begun:
            last = self._last
            at, topic_id, line = (last.next, last.topic_id, last.line) if last is not None else (None, "", "")
            return Create(self._number + 1, Intent(self._session, at, at, topic_id, self._left(), line))
        is_first = self._last is not None and self._last.start == self._last.next and not self._last.files
        return Tidy(self._number - self._kept + 1, self._base if is_first else None)

    def _looked(self, newest: int) -> Action:
        if newest > self._number:
            return Withdraw(self._number)
        if newest < self._number:
            return Stop(f"the log of unit {self._unit} was removed while this attempt ran")
        self._accept(self._number)
        return self._finish()

    def _entry(self) -> Intent:
        if self._last is None:
            raise UnexpectedEvent("no intent is known")
        return self._last
