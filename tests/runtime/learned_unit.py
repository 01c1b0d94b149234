"""A unit's checkpoint as Spark writes it, without Spark, and stores that follow it."""

import hashlib
import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from cooperator.connectors.learned_state import DEFAULT, StoreKey, StoreVersion
from cooperator.runtime.unit_learner import Behind, Disk, UnitLearner

CHANGELOG, SNAPSHOT = 10, 100
"""The sizes of files in bytes."""

ROOMY = Disk(total=1000_000, free=1000_000)
"""Learners of the tests see it instead of the machine's disk, which may be nearly full."""


class Unit:
    """The owner's side: it commits batches, uploads snapshots and removes old files."""

    def __init__(self, checkpoint: Path, partitions: int = 2, names: Sequence[str] = (DEFAULT,)) -> None:
        self.checkpoint = checkpoint
        self.keys = [StoreKey(0, number, name) for number in range(partitions) for name in names]
        self.partitions = partitions
        self.names = names
        self.batch = -1
        self.attempt = 0

    def place(self, key: StoreKey) -> Path:
        place = self.checkpoint / "state" / "0" / f"{key.partition}"
        return place if key.name == DEFAULT else place / key.name

    def id_of(self, batch: int) -> str:
        return f"id-{batch}-{self.attempt}"

    def commit(self) -> int:
        self.batch += 1
        version = StoreVersion(self.batch + 1, self.id_of(self.batch))
        for key in self.keys:
            self._write(self.place(key) / f"{version.version}_{version.id}.changelog", CHANGELOG)
        ids = [[version.id for _ in self.names] for _ in range(self.partitions)]
        self.entry(self.batch, {"0": ids})
        return self.batch

    def entry(self, batch: int, ids: object, version: int = 2) -> None:
        commits = self.checkpoint / "commits"
        commits.mkdir(parents=True, exist_ok=True)
        (commits / f"{batch}").write_text(f"v{version}\n" + json.dumps({"stateUniqueIds": ids}))

    def upload(self) -> None:
        """Uploads a snapshot of the newest commit."""
        for key in self.keys:
            place = self.place(key)
            self._write(place / f"{self.batch + 1}_{self.id_of(self.batch)}.zip", 1)
            self._write(place / "SSTs" / f"{self.batch}-a.sst", SNAPSHOT)

    def maintain(self, kept: int) -> None:
        """Removes all but the newest commits and what they need."""
        for old in range(self.batch - kept + 1):
            (self.checkpoint / "commits" / f"{old}").unlink(missing_ok=True)
        for key in self.keys:
            snapshots = sorted(int(file.name.split("_")[0]) for file in self.place(key).glob("*.zip"))
            needed = max((at for at in snapshots if at <= self.batch + 2 - kept), default=0)
            for file in self.place(key).iterdir():
                if file.is_file() and int(file.name.split("_")[0]) < needed:
                    file.unlink()

    def reset(self) -> None:
        shutil.rmtree(self.checkpoint)
        self.batch = -1
        self.attempt += 1

    def digest(self) -> str:
        """Over all names, contents and times of changes."""
        files = sorted(self.checkpoint.rglob("*")) if self.checkpoint.exists() else []
        told = [(str(file), file.stat().st_mtime_ns, file.is_file() and file.read_bytes()) for file in files]
        return hashlib.sha256(repr(told).encode()).hexdigest()

    def _write(self, file: Path, size: int) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"x" * size)


class CopyStore:
    """Follows a store by its files: the newest snapshot, and the changelogs after it."""

    def __init__(self, unit: Unit, key: StoreKey, local: Path) -> None:
        self._unit, self._key, self.local = unit, key, local
        self.at: StoreVersion | None = None
        self.is_open, self.is_broken, self.was_taken = True, False, False
        self.follows = 0

    def follow(self, version: StoreVersion) -> None:
        assert self.is_open
        self.follows += 1
        if self.is_broken:
            raise OSError("the storage does not answer")
        place = self._unit.place(self._key)
        if not (place / f"{version.version}_{version.id}.changelog").exists():
            raise FileNotFoundError(f"no changelog of {version}")
        self.local.mkdir(parents=True, exist_ok=True)
        (self.local / "CURRENT").write_text(version.id)
        self.at = version

    def is_taken(self) -> bool:
        return self.was_taken

    def close(self) -> None:
        self.is_open = False


class Stores(dict[StoreKey, CopyStore]):
    """Opens stores, and knows the newest one of each key."""

    def __init__(self, unit: Unit) -> None:
        super().__init__()
        self._unit = unit
        self.opened: list[CopyStore] = []
        self.is_broken = False

    def open(self, key: StoreKey, local: Path) -> CopyStore:
        self[key] = CopyStore(self._unit, key, local)
        self[key].is_broken = self.is_broken
        self.opened.append(self[key])
        return self[key]

    def learner(
        self, local: Path, tell: Callable[[Behind], None] = lambda behind: None, **more: object
    ) -> UnitLearner:
        known = {"skipped": 0, "disk": lambda path: ROOMY, **more}
        return UnitLearner(self._unit.checkpoint, local, self.open, tell, **known)
