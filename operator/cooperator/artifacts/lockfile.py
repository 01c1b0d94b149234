"""Lock files: the exact jars of a bundle, a line each: ``group:artifact:version sha256``."""

import hashlib
from collections.abc import Mapping
from importlib.resources import files

from cooperator.artifacts.bundles import BUNDLES, Artifact
from cooperator.artifacts.errors import ArtifactError

_HEADER = "# Written by `python -m cooperator.artifacts.lock`; versions are chosen in bundles.py.\n"


def read_lock(bundle: str) -> str:
    """The text of a bundle's lock file. Raises :exc:`ArtifactError` for an unknown bundle."""
    if bundle not in BUNDLES:
        raise ArtifactError(f"unknown bundle {bundle!r}: choose one of {', '.join(BUNDLES)}")
    return (files("cooperator.artifacts") / "locks" / f"{bundle}.lock").read_text()


def parse_lock(text: str) -> dict[Artifact, str]:
    """Artifact to sha256 (lower-case hex). Raises ValueError that quotes the line."""
    entries: dict[Artifact, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        try:
            coordinates, digest = line.split()
            artifact = Artifact.parse(coordinates)
        except ValueError:
            raise ValueError(f"line {number} is not 'group:artifact:version sha256': {line!r}") from None
        if len(digest) != 64 or set(digest) - set("0123456789abcdef"):
            raise ValueError(f"line {number} has no sha256 in lower-case hex: {line!r}")
        entries[artifact] = digest
    return entries


def render_lock(entries: Mapping[Artifact, str]) -> str:
    """The text that :func:`parse_lock` reads, sorted. Refuses two artifacts with one file name."""
    names = [artifact.file_name for artifact in entries]
    doubled = sorted({name for name in names if names.count(name) > 1})
    if doubled:
        raise ValueError(f"artifacts of different groups share a file name: {', '.join(doubled)}")
    return _HEADER + "".join(f"{artifact} {entries[artifact]}\n" for artifact in sorted(entries))


def lock_hash(text: str) -> str:
    """Names the content of a lock; part of the cache folder's name."""
    return hashlib.sha256(text.encode()).hexdigest()[:12]
