"""Keeps the state of one unit beside its newest commit, in stores of this member.

It reads the checkpoint, which another member writes, and never writes there. A checkpoint changes while it is
read; a learner then begins again with the newest commit.
"""

import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from cooperator.connectors.learned_state import (
    StoreFiles,
    StoreKey,
    StoreVersion,
    check_operator,
    files_of,
    versions_of,
)
from cooperator.connectors.offsets.unit_log import finished
from cooperator.connectors.places import Place

KEPT_FREE: Final = 0.1
"""The part of a disk that learners leave free."""


SKIPPED: Final = 10
"""The number of looks without a new commit after which a newer snapshot is looked for."""


class NoRoom(Exception):
    """The disk has no room for the state; the text names the sizes and the remedy."""


class StoreCopy(Protocol):
    """A store of this member that follows one in a checkpoint."""

    def follow(self, version: StoreVersion) -> None:
        """Goes to that version. Raises if its files are not there (any more)."""

    def is_taken(self) -> bool:
        """Whether an attempt in this process has it now, which also closes it."""

    def close(self) -> None:
        """Removes its files, unless it was taken."""


class Disk(NamedTuple):
    """In bytes."""

    total: int
    free: int


OpenStore = Callable[[StoreKey, Path], StoreCopy]
"""Opens a store whose files are below a directory."""


def disk_of(path: Path) -> Disk:
    path.mkdir(parents=True, exist_ok=True)
    usage = shutil.disk_usage(path)
    return Disk(usage.total, usage.free)


@dataclass(frozen=True, slots=True)
class Behind:
    """``bytes`` are to be read until the newest commit, of a state of ``state_bytes``; nothing of ``unread``
    stores has been read yet."""

    bytes: int = 0
    state_bytes: int = 0
    unread: int = 0

    def __add__(self, other: "Behind") -> "Behind":
        return Behind(
            self.bytes + other.bytes, self.state_bytes + other.state_bytes, self.unread + other.unread
        )


class _Kept(NamedTuple):
    store: StoreCopy
    local: Path
    at: StoreVersion | None = None
    snapshot: int = 0


class UnitLearner:
    """The stores of one unit; it is called from one thread.

    ``tell`` hears how far it is before each store that takes its time. ``disk`` is that of ``local``. Without
    a new commit, ``skipped`` looks do nothing else.
    """

    def __init__(
        self,
        checkpoint: Place,
        local: Path,
        open_store: OpenStore,
        tell: Callable[[Behind], None],
        disk: Callable[[Path], Disk] = disk_of,
        skipped: int = SKIPPED,
    ) -> None:
        self._checkpoint = checkpoint
        self._local = local
        self._open = open_store
        self._tell = tell
        self._disk = disk
        self._stores: dict[StoreKey, _Kept] = {}
        self._opened = 0
        self._most_skipped = skipped
        self._skipped = 0
        self._last: tuple[int, Behind] | None = None
        """The batch of the last look, and its result; None after a failure."""

    def look(self) -> Behind:
        """Follows the newest commit, and returns how far behind it the stores are then.

        Raises ``NotLearnable`` and ``NoRoom``, and whatever reading the checkpoint raises; the next look
        begins where this one has failed.
        """
        batch = finished(self._checkpoint)
        if self._last is not None and self._last[0] == batch and self._skipped < self._most_skipped:
            # Each listing of a store costs a request.
            self._skipped += 1
            return self._last[1]
        self._last, self._skipped = None, 0
        found = self._look(batch)
        self._last = batch, found
        return found

    def _look(self, batch: int) -> Behind:
        newest = versions_of(self._checkpoint, batch) if batch >= 0 else {}
        if any(self._is_other(key, newest.get(key)) for key in self._stores):
            # The unit was reset, or its checkpoint restored from a copy.
            self.close()
        files = {key: files_of(self._checkpoint, key) for key in newest}
        late = [key for key, to in newest.items() if self._is_late(key, to, files[key])]
        for key in late:
            behind = self._behind(files, newest)
            self._tell(behind)
            self._check_room(behind)
            self._follow(key, newest[key], files[key].snapshot)
        return self._behind(files, newest)

    @property
    def taken(self) -> bool:
        """Whether an attempt has all stores."""
        return all(kept.store.is_taken() for kept in self._stores.values())

    def close(self) -> None:
        """Removes all that is learned and not taken."""
        self._last = None
        while self._stores:
            _, kept = self._stores.popitem()
            kept.store.close()
            if not kept.store.is_taken():
                shutil.rmtree(kept.local, ignore_errors=True)
        with suppress(OSError):  # files of a store that is taken remain
            self._local.rmdir()

    def _at(self, key: StoreKey) -> StoreVersion | None:
        return self._stores[key].at if key in self._stores else None

    def _is_other(self, key: StoreKey, newest: StoreVersion | None) -> bool:
        """Whether the newest version is none that comes after what is learned."""
        at = self._at(key)
        return newest is None or (at is not None and at != newest and at.version >= newest.version)

    def _is_late(self, key: StoreKey, to: StoreVersion, files: StoreFiles) -> bool:
        """Whether there is a newer commit, or a newer snapshot: files of the one before may be removed."""
        return self._at(key) != to or self._stores[key].snapshot != files.snapshot

    def _follow(self, key: StoreKey, to: StoreVersion, snapshot: int) -> None:
        if key not in self._stores:
            check_operator(self._checkpoint, key.operator)
            self._opened += 1
            local = self._local / f"{self._opened}"
            self._stores[key] = _Kept(self._open(key, local), local)
        kept = self._stores[key]
        kept.store.follow(to)
        self._stores[key] = kept._replace(at=to, snapshot=snapshot)

    def _behind(self, files: dict[StoreKey, StoreFiles], newest: dict[StoreKey, StoreVersion]) -> Behind:
        total = Behind()
        for key, to in newest.items():
            at = self._at(key)
            left = files[key].behind(None if at is None else at.version, to.version)
            total += Behind(left, files[key].behind(None, to.version), int(at is None))
        return total

    def _check_room(self, behind: Behind) -> None:
        disk = self._disk(self._local)
        if disk.free - behind.bytes < KEPT_FREE * disk.total:
            raise NoRoom(
                f"a state of {behind.state_bytes} bytes is not learned, since {self._local} has {disk.free} "
                f"bytes free, and {KEPT_FREE:.0%} of the disk stays free: use a larger volume for the "
                "member's state directory"
            )
