"""The stores of a directory: unit logs, staged files, and the step that makes a file visible.

All that is not a visible file is below ``_cooperator``, and staged files have endings of their own: readers
that follow Hive's convention pass over the former, and those that match names (``**/*.parquet``) over the
latter.
"""

import os
import shutil
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from cooperator.connectors.intents.values import Intent, StagedFile, file_of, number_of
from cooperator.connectors.microbatch.claims import Claim
from cooperator.connectors.output import HIDDEN
from cooperator.connectors.places import Place, create, directories, names

_UNITS: Final = "units"
_LOG: Final = "log"
_STAGED: Final = "staged"
STAGING: Final = "staging"
STAGED_ENDING: Final = ".staged"
"""The end of staged files' names (in Java: ``StagedFiles``)."""


class WrittenFile(NamedTuple):
    """A file that a batch has written. ``path`` is relative to the batch's directory."""

    path: str
    size_bytes: int


class UnitStore(Protocol):
    """The logs of a directory, and the step that makes a file visible.

    All calls may fail with ``OSError``, and may be repeated then.
    """

    def newest(self, unit: str) -> tuple[int, Intent | None]:
        """Returns the newest intent, which was still the newest after it was read; 0 and None: none."""

    def newest_number(self, unit: str) -> int: ...

    def create(self, unit: str, number: int, intent: Intent) -> bool:
        """Creates an intent durably; False: the number is taken."""

    def remove(self, unit: str, numbers: Collection[int]) -> None:
        """Removes intents. One that is gone is no error."""

    def numbers(self, unit: str) -> Sequence[int]: ...

    def publish(self, file: StagedFile) -> None:
        """Makes a file visible, and consumes its token. Does nothing if the token is consumed."""


class FileStore(UnitStore, Protocol):
    """A directory in which files are staged, too."""

    def batch_directory(self, claim: Claim, name: str) -> str:
        """Returns the URI of a hidden directory for what a batch writes."""

    def outputs(self, claim: Claim, name: str) -> Sequence[WrittenFile]:
        """Returns the files of a batch's directory, sorted by path."""

    def stage(self, unit: str, base: int, batch: tuple[Claim, str], path: str, name: str) -> StagedFile:
        """Takes a file of a batch's directory over, durably, to become visible as ``name``."""

    def drop_batch(self, claim: Claim, name: str) -> None:
        """Removes a batch's directory. No intent refers to what is in it."""

    def discard(self, bases: Mapping[str, int], replaced: Collection[Claim]) -> None:
        """Removes staged files of these units with smaller bases, and the batches of replaced attempts."""


class IntentLogs:
    """The logs below a place: the part of a store that file systems and S3 share."""

    def __init__(self, hidden: Place) -> None:
        self.hidden = hidden

    def unit(self, unit: str) -> Place:
        return self.hidden / _UNITS / unit

    def numbers(self, unit: str) -> Sequence[int]:
        found = (number_of(name) for name in names(self.unit(unit) / _LOG))
        return sorted(number for number in found if number is not None)

    def newest_number(self, unit: str) -> int:
        return max(self.numbers(unit), default=0)

    def newest(self, unit: str) -> tuple[int, Intent | None]:
        number = self.newest_number(unit)
        while True:
            intent = self.read(unit, number) if number else None
            again = self.newest_number(unit)
            if again == number:
                return number, intent
            number = again

    def read(self, unit: str, number: int) -> Intent | None:
        place = self.unit(unit) / _LOG / file_of(number)
        try:
            return Intent.decode(place.read_bytes(), str(place))
        except FileNotFoundError:
            return None

    def create(self, unit: str, number: int, intent: Intent) -> bool:
        return create(self.unit(unit) / _LOG / file_of(number), intent.encode())

    def remove(self, unit: str, numbers: Collection[int]) -> None:
        for number in numbers:
            (self.unit(unit) / _LOG / file_of(number)).unlink(missing_ok=True)

    def units(self) -> Sequence[str]:
        """Returns the units that have a log, sorted."""
        return directories(self.hidden / _UNITS)


class LocalStore(IntentLogs):
    """A directory of a file system that all members see. A token is the place of a staged file.

    Renaming a file away makes it visible, and consumes the token, in one atomic step.
    """

    def __init__(self, root: Path) -> None:
        super().__init__(root / HIDDEN)
        self._root = root
        self._below: Path = root / HIDDEN

    def create(self, unit: str, number: int, intent: Intent) -> bool:
        is_mine = super().create(unit, number, intent)
        _sync(self._below / _UNITS / unit / _LOG)
        return is_mine

    def batch_directory(self, claim: Claim, name: str) -> str:
        return f"file://{self._batch(claim, name)}"

    def outputs(self, claim: Claim, name: str) -> Sequence[WrittenFile]:
        directory = self._batch(claim, name)
        files = sorted(path for path in directory.rglob(f"*{STAGED_ENDING}") if path.is_file())
        return [WrittenFile(str(path.relative_to(directory)), path.stat().st_size) for path in files]

    def stage(self, unit: str, base: int, batch: tuple[Claim, str], path: str, name: str) -> StagedFile:
        source = self._batch(*batch) / path
        token = f"{_UNITS}/{unit}/{_STAGED}/{base}/{os.path.basename(name)}{STAGED_ENDING}"
        target = self._below / token
        target.parent.mkdir(parents=True, exist_ok=True)
        _sync(source)
        source.rename(target)
        _sync(target.parent)
        return StagedFile(name, token)

    def publish(self, file: StagedFile) -> None:
        source, target = self._below / file.token, self._root / file.name
        while True:
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                source.rename(target)
            except FileNotFoundError:
                if not source.exists():
                    return
            else:
                _sync(target.parent)
                return

    def drop_batch(self, claim: Claim, name: str) -> None:
        shutil.rmtree(self._batch(claim, name), ignore_errors=True)

    def discard(self, bases: Mapping[str, int], replaced: Collection[Claim]) -> None:
        for unit, base in bases.items():
            staged = self._below / _UNITS / unit / _STAGED
            for name in directories(staged):
                if name.isdecimal() and int(name) < base:
                    shutil.rmtree(staged / name, ignore_errors=True)
            for name in names(self._below / _UNITS / unit / _LOG):
                if name.startswith("."):
                    # A killed process was writing an intent. One that still writes it recovers.
                    (self._below / _UNITS / unit / _LOG / name).unlink(missing_ok=True)
        for claim in replaced:
            shutil.rmtree(self._below / STAGING / str(claim), ignore_errors=True)

    def _batch(self, claim: Claim, name: str) -> Path:
        return self._below / STAGING / str(claim) / name


def _sync(path: Path) -> None:
    """Makes a file, or the names in a directory, durable."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
