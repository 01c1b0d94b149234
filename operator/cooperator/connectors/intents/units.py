"""The units of an attempt: carries out what ``UnitMachine`` says for each, and answers the loop of the
task."""

import json
import logging
import threading
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from cooperator.connectors.base import Cancelled
from cooperator.connectors.exactly_once import Replaced
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
from cooperator.connectors.intents.stores import FileStore, UnitStore
from cooperator.connectors.intents.values import StagedFile
from cooperator.connectors.microbatch.batches import FailureKind, OpenFailed, Owned, PositionRecord, Stand
from cooperator.connectors.microbatch.claims import Claim
from cooperator.connectors.microbatch.ranges import Partition

log = logging.getLogger(__name__)

_AT_ONCE: Final = 8
"""Units whose requests are under way at the same time."""
_LASTING = (PermissionError, NotADirectoryError, IsADirectoryError)


class OwnedUnit:
    """One unit of an attempt. It is for one thread at a time."""

    def __init__(
        self, unit: str, claim: Claim, store: UnitStore, stopped: threading.Event, *, publishes: bool = True
    ) -> None:
        self.unit = unit
        self._machine = UnitMachine(unit, claim, publishes=publishes)
        self._store = store
        self._stopped = stopped
        self.replaced: set[Claim] = set()
        """The attempts whose intents were found: this one has replaced them."""

    def begin(self) -> Hold:
        """Begins a session. Raises ``Replaced``, ``Cancelled``, and what the store raises."""
        return self.carry(Begin() if self._machine.action is None else Recover())

    def append(self, stand: Stand, files: Sequence[StagedFile], line: str = "") -> Hold:
        """Commits a cut, and makes its files visible. Raises as ``begin`` does.

        With ``line`` the position jumps. The result may stand elsewhere: then nothing was committed.
        """
        return self.carry(Append(stand.next, stand.topic_id, tuple(files), line=line))

    def carry(self, event: Event) -> Hold:
        """Goes on until the unit is held. Raises as ``begin`` does."""
        action = self._machine.on(event)
        while not isinstance(action, Hold | Stop):
            if self._stopped.is_set() and isinstance(action, Read | Create):
                # A cut whose intent is there is made visible first: nobody else may come for long.
                raise Cancelled
            log.debug("%s: %s", self.unit, action)
            action = self._machine.on(self._carry_out(action))
        if isinstance(action, Stop):
            raise Replaced(action.reason)
        return action

    def _carry_out(self, action: Action) -> Event:
        store, unit = self._store, self.unit
        match action:
            case Read():
                number, intent = store.newest(unit)
                if intent is not None:
                    self.replaced.add(intent.session.claim)
                return Found(number, intent)
            case Look():
                return Newest(store.newest_number(unit))
            case Create(number, intent):
                return Created(store.create(unit, number, intent))
            case Publish(files):
                for file in files:
                    store.publish(file)
            case Withdraw(number):
                store.remove(unit, [number])
            case Tidy(below, base):
                # Between sessions one intent is added at a time.
                old = [each for each in store.numbers(unit) if each < below] if base else [below - 1]
                store.remove(unit, [each for each in old if each > 0])
        return Done()


class FileUnits:
    """The units of a task in one or more directories: the ``UnitOwnership`` of its loop.

    ``store_of`` returns the store of a unit's directory.
    """

    def __init__(
        self,
        claim: Claim | Callable[[], Claim],
        units: Mapping[Partition, str],
        store_of: Callable[[Partition], FileStore],
        stopped: threading.Event,
    ) -> None:
        """A ``claim`` that is a function is made when the units are claimed; it may raise ``OSError``."""
        self._claim = claim
        self._names = units
        self._stopped = stopped
        self._stores = {partition: store_of(partition) for partition in units}
        self._units: dict[Partition, OwnedUnit] = {}
        self._held: dict[Partition, Hold] = {}
        self._sessions = 0

    @property
    def attempt(self) -> Claim:
        """The claim of this attempt, once it was made."""
        assert isinstance(self._claim, Claim), "claim() comes first"
        return self._claim

    @property
    def session(self) -> str:
        return f"{self.attempt}/{self._sessions}"

    def claim(self) -> Owned:
        return self._begin()

    def recover(self) -> Owned:
        return self._begin()

    def record(self, partition: Partition, stand: Stand) -> PositionRecord:
        return PositionRecord(str(partition), json.dumps([stand.next, stand.topic_id]))

    def line(self, partition: Partition) -> str:
        """Returns the name of the line of offsets that the unit is on."""
        return self._held[partition].last.line

    def base_of(self, partition: Partition) -> int:
        return self._held[partition].base

    def store_of(self, partition: Partition) -> FileStore:
        return self._stores[partition]

    def commit(
        self,
        cuts: Mapping[Partition, tuple[PositionRecord, Sequence[StagedFile]]],
        jumps: Collection[Partition] = (),
    ) -> dict[Partition, str]:
        """Commits cuts of units, and makes their files visible. Units of ``jumps`` read nothing.

        Returns why it failed for a unit, of which nothing more is known then; the others are committed.
        """
        failures: dict[Partition, str] = {}

        def commit(partition: Partition) -> None:
            record, files = cuts[partition]
            stand = Stand(*json.loads(record.value))
            try:
                line = uuid.uuid4().hex if partition in jumps else ""
                held = self._units[partition].append(stand, files, line)
            except (Exception, Cancelled) as error:
                failures[partition] = f"{type(error).__name__}: {error}"
                return
            self._held[partition] = held
            if (held.last.next, held.last.topic_id) != stand:
                failures[partition] = "an intent of another session has its number"

        _each(commit, cuts)
        return failures

    def _begin(self) -> Owned:
        self._sessions += 1

        def begin(partition: Partition) -> None:
            self._held[partition] = self._units[partition].begin()

        try:
            if not isinstance(self._claim, Claim):
                self._claim = self._claim()
            for partition, unit in self._names.items():
                if partition not in self._units:
                    store = self._stores[partition]
                    self._units[partition] = OwnedUnit(unit, self._claim, store, self._stopped)
            _each(begin, self._units)
            self._discard()
        except OSError as error:
            kind = FailureKind.FAILED if isinstance(error, _LASTING) else FailureKind.RETRIABLE
            raise OpenFailed(kind, f"the directory cannot be used: {error}") from error
        stands = {
            partition: Stand(held.last.next, held.last.topic_id)
            for partition, held in self._held.items()
            if held.last.next is not None
        }
        return Owned(stands, self.session)

    def _discard(self) -> None:
        """Staged files of older sessions are visible by now, or never will be."""
        for store in {id(each): each for each in self._stores.values()}.values():
            mine = [each for each, of_unit in self._stores.items() if of_unit is store]
            replaced = {claim for each in mine for claim in self._units[each].replaced} - {self.attempt}
            store.discard({self._units[each].unit: self._held[each].base for each in mine}, replaced)


def _each(call: Callable[[Partition], None], partitions: Collection[Partition]) -> None:
    """Calls for each partition, several at once. Raises the first exception, once all calls have ended."""
    with ThreadPoolExecutor(min(_AT_ONCE, max(1, len(partitions)))) as pool:
        calls = [pool.submit(call, partition) for partition in partitions]
    for each in calls:
        each.result(0)
