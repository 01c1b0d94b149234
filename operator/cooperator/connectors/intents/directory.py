"""The directory of a connector's files: where it is, its owner, its layout, and what converters remember."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cooperator.connectors.intents.owner import DirectoryOwner, owner_of, release_owner, settle_owner
from cooperator.connectors.intents.s3_logs import S3Logs
from cooperator.connectors.intents.stores import IntentLogs, LocalStore
from cooperator.connectors.memory import FileMemory
from cooperator.connectors.options import OptionError, Problem
from cooperator.connectors.output import HIDDEN
from cooperator.connectors.output_paths import LOCAL, normal
from cooperator.connectors.places import NoPlace, Place, StorePlace, create, prove, store_place
from cooperator.connectors.units import Layout

_LAYOUT: Final = "layout"
_TYPES: Final = "types.arrow"
_DEFAULT_FS: Final = "spark.hadoop.fs.defaultFS"


@dataclass(frozen=True, slots=True)
class Directory:
    """All methods may fail with ``OSError``. ``reads`` tells whether the connector reads a topic."""

    place: Place
    owner: DirectoryOwner
    reads: Callable[[str], bool] = lambda topic: True

    def settle(self, *, plain: bool = True) -> None:
        """Makes its connector the owner, unless there is another one.

        Raises ``OptionError``; with ``plain`` also for a directory of Spark's file sink.
        """
        if isinstance(self.place, StorePlace):
            try:
                prove(self.place, "path", self.place / HIDDEN)
            except NoPlace as error:
                problem = Problem("path", str(self.place), str(error), "use another store")
                # A store that is away may come back.
                raise OptionError([problem], passing=True) from None
        settle_owner(self.place, self.owner, plain=plain, reads=self.reads)

    @property
    def is_mine(self) -> bool:
        """Whether no other connector owns it."""
        return owner_of(self.place) in (None, self.owner)

    def logs(self) -> LocalStore | S3Logs:
        """Returns the logs of its units, without Spark."""
        if isinstance(self.place, Path):
            return LocalStore(self.place)
        return S3Logs(self.place)

    def layout(self) -> Layout | None:
        """Returns the connector's layout; None when it has none yet."""
        try:
            return Layout.decode((self.place / HIDDEN / _LAYOUT).read_bytes())
        except FileNotFoundError:
            return None

    def settle_layout(self, layout: Layout) -> None:
        """Keeps the layout unless there is one. Raises ``OptionError`` when a fixed option has changed."""
        create(self.place / HIDDEN / _LAYOUT, layout.encode())
        (self.layout() or layout).check_fixed(layout.fixed)

    def memory(self, unit: str) -> FileMemory:
        """Returns the memory of a unit's converters."""
        return FileMemory(IntentLogs(self.place / HIDDEN).unit(unit) / _TYPES)

    def forget(self) -> None:
        """Forgets the owner, the layout and what converters remember; positions stay as they are."""
        logs = IntentLogs(self.place / HIDDEN)
        for unit in logs.units():
            (logs.unit(unit) / _TYPES).unlink(missing_ok=True)
        (self.place / HIDDEN / _LAYOUT).unlink(missing_ok=True)
        release_owner(self.place)


def directory_of(
    path: str, owner: DirectoryOwner, conf: Mapping[str, str], reads: Callable[[str], bool]
) -> Directory:
    """Returns the directory at the option ``path``, without touching it. ``conf`` is Spark's, resolved.

    Raises ``OptionError`` for other places than a file system of all members, and a store that speaks S3.
    """
    found = normal(path, conf.get(_DEFAULT_FS, LOCAL))
    if found.startswith(LOCAL):
        return Directory(Path(found.removeprefix(LOCAL) or "/"), owner, reads)
    scheme, _, where = found.partition(":")
    if scheme != "s3":
        problem = "is neither in a file system of all members nor in an S3-compatible store"
        remedy = "use /a/directory or s3a://bucket/path, or the class spark, whose file sinks write elsewhere"
        raise OptionError([Problem("path", path, problem, remedy)])
    try:
        return Directory(store_place(f"s3a:{where}", conf, os.environ, "path"), owner, reads)
    except NoPlace as error:
        raise OptionError([Problem("path", path, str(error), "install it, or use a directory")]) from None
