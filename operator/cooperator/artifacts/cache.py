"""The cache of bundles on this machine: fetched once, verified, and put in place atomically."""

import fcntl
import hashlib
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from cooperator.artifacts import ivy
from cooperator.artifacts.bundles import Artifact
from cooperator.artifacts.errors import ArtifactError
from cooperator.artifacts.lockfile import lock_hash, parse_lock, read_lock

_NOT_IN_CLASS_PATHS: Final = re.compile(r"[:\x00-\x1f\x7f\ud800-\udfff\[\]()]")
_THESE: Final = "a colon, brackets, which Ivy reads as its own, control characters, or no UTF-8"


def resolve(bundle: str, progress: Callable[[str], None] | None = None) -> tuple[Path, ...]:
    """Return the jars of a bundle ("kafka", "spark-kafka"), in the order of its lock.

    The first call downloads into ``~/.cache/cooperator/jars`` (root of the cache: COOPERATOR_CACHE) and
    reports each file to ``progress``; later calls return at once. Concurrent processes wait for one download.
    A jar whose sha256 differs from the lock never gets into the cache.

    Raises :exc:`ArtifactError`.
    """
    text = read_lock(bundle)
    entries = parse_lock(text)
    folder = cache_root() / "jars" / f"{bundle}-{lock_hash(text)}"
    jars = tuple(folder / artifact.file_name for artifact in entries)
    if not all(jar.is_file() for jar in jars):
        with exclusive(folder.with_suffix(".lock")):
            if not all(jar.is_file() for jar in jars):
                _build(bundle, entries, folder, progress or (lambda _: None))
    return jars


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _build(
    bundle: str, entries: Mapping[Artifact, str], folder: Path, progress: Callable[[str], None]
) -> None:
    # The name of the work folder is fixed, so that the next run continues an interrupted one.
    work = folder.with_suffix(".part")
    arrived = 0

    def report(file_name: str) -> None:
        nonlocal arrived
        arrived += 1
        progress(f"{bundle}: downloading {arrived} of {len(entries)}, {file_name}")

    ivy.retrieve(
        tuple(entries),
        transitive=False,
        pattern=str(work / "jars" / "[artifact]-[revision].[ext]"),
        cache=work / "ivy",
        progress=report,
    )
    _check(bundle, entries, work)
    if folder.exists():
        # Files were removed from it: only complete folders are kept.
        shutil.rmtree(folder)
    (work / "jars").rename(folder)
    shutil.rmtree(work)


def _check(bundle: str, entries: Mapping[Artifact, str], work: Path) -> None:
    for artifact, expected in entries.items():
        jar = work / "jars" / artifact.file_name
        if not jar.is_file():
            raise ArtifactError(f"{bundle}: {artifact} was not downloaded as {artifact.file_name}")
        actual = sha256(jar)
        if actual != expected:
            # Keep nothing of a download that cannot be trusted.
            shutil.rmtree(work)
            raise ArtifactError(
                f"{bundle}: {artifact} has sha256 {actual}, but the lock has {expected}: the download is "
                "damaged, or the registry serves a different file. Try again; if it persists, check the "
                "mirror."
            )


def cache_root() -> Path:
    """Return the folder of everything that is fetched or made once. Raises :exc:`ArtifactError` for a path
    that cannot be in a Java class path."""
    named = os.environ.get("COOPERATOR_CACHE")
    if named:
        root = Path(named).expanduser().absolute()
    else:
        root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "cooperator"
    if _NOT_IN_CLASS_PATHS.search(str(root)):
        raise ArtifactError(
            f"the cache {str(root)!r} has a character that a class path of Java cannot have ({_THESE}): set "
            "COOPERATOR_CACHE to another folder"
        )
    return root


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Admit one process at a time; the system releases the lock when the process dies."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("w")
    except OSError as error:
        raise ArtifactError(
            f"the cache {path.parent} cannot be written: {error}. Set COOPERATOR_CACHE to another folder."
        ) from error
    with file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
