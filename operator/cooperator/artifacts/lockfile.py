"""Lock files: the exact jars of a bundle, one per line: ``group:artifact:version sha256``."""

import hashlib
from collections.abc import Mapping
from importlib.resources import files

from cooperator.artifacts.bundles import BUNDLES, Artifact
from cooperator.artifacts.errors import ArtifactError
from cooperator.model.text import choice

_HEADER = "# Written by `python -m cooperator.artifacts.lock`; versions are chosen in bundles.py.\n"


def read_lock(bundle: str) -> str:
    """Return the text of a bundle's lock file. Raises :exc:`ArtifactError` for an unknown bundle."""
    if bundle not in BUNDLES:
        raise ArtifactError(f"unknown bundle {bundle!r}; {choice(bundle, BUNDLES)}")
    return (files("cooperator.artifacts") / "locks" / f"{bundle}.lock").read_text()


def parse_lock(text: str) -> dict[Artifact, str]:
    """Return the sha256 (lower-case hex) of each artifact. Raises ValueError that quotes the line."""
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
            raise ValueError(f"line {number} does not have a sha256 in lower-case hex: {line!r}")
        entries[artifact] = digest
    return entries


def render_lock(entries: Mapping[Artifact, str]) -> str:
    """Return the text that :func:`parse_lock` reads, sorted.

    Raises ValueError if two artifacts have the same file name.
    """
    names = [artifact.file_name for artifact in entries]
    doubled = sorted({name for name in names if names.count(name) > 1})
    if doubled:
        raise ValueError(f"artifacts of different groups have the same file name: {', '.join(doubled)}")
    return _HEADER + "".join(f"{artifact} {entries[artifact]}\n" for artifact in sorted(entries))


def lock_hash(text: str) -> str:
    """Return a digest of a lock's content; it is part of the cache folder's name."""
    return hashlib.sha256(text.encode()).hexdigest()[:12]
