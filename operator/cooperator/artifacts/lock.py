"""Rewrite the lock files: ``python -m cooperator.artifacts.lock [bundle…]``.

Run this when a version in ``bundles.py`` has changed. It resolves each bundle's dependencies from scratch
(about a minute) and writes the result, with checksums, to ``locks/`` of the source tree.
"""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from cooperator.artifacts import ivy
from cooperator.artifacts.bundles import BUNDLES, Artifact, Bundle
from cooperator.artifacts.cache import sha256
from cooperator.artifacts.errors import ArtifactError
from cooperator.artifacts.lockfile import render_lock
from cooperator.model.text import choice

_LOCKS: Final = Path(__file__).parent / "locks"
_SEPARATOR: Final = "~"
"""Separates the coordinates in a file name; occurs in none of them."""


def make_lock(bundle: Bundle, progress: ivy.Progress) -> str:
    """Resolve a bundle from its roots; return the text of its lock. Raises :exc:`ArtifactError`."""
    with tempfile.TemporaryDirectory(prefix="cooperator-lock-") as scratch:
        jars = Path(scratch, "jars")
        tokens = _SEPARATOR.join(("[organisation]", "[artifact]", "[revision]"))
        ivy.retrieve(
            bundle.roots,
            transitive=bundle.transitive,
            pattern=f"{jars}/{tokens}.[ext]",
            cache=Path(scratch, "ivy"),
            progress=progress,
            excluded=sorted(ivy.spark_brings()) if bundle.beside_spark else (),
        )
        entries = {Artifact(*jar.stem.split(_SEPARATOR)): sha256(jar) for jar in jars.glob("*.jar")}
    missing = set(bundle.roots) - set(entries)
    if missing:
        raise ArtifactError(f"not downloaded: {', '.join(map(str, sorted(missing)))}")
    return render_lock(entries)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m cooperator.artifacts.lock", description=__doc__)
    # No `choices`: argparse would check the empty list against them.
    parser.add_argument(
        "bundles", nargs="*", metavar="bundle", help=f"some of: {', '.join(BUNDLES)}; default: all"
    )
    names = parser.parse_args(arguments).bundles or list(BUNDLES)
    for name in names:
        if name not in BUNDLES:
            parser.error(f"unknown bundle {name!r}; {choice(name, BUNDLES)}")
        text = make_lock(BUNDLES[name], lambda file: print(f"{name}: {file}", file=sys.stderr))  # noqa: B023, T201
        _LOCKS.mkdir(exist_ok=True)
        (_LOCKS / f"{name}.lock").write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
