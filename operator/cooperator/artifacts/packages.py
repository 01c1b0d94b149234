"""Java libraries that a user names: resolved once with all dependencies, and cached with their checksums.

The first resolution decides the versions; its lock is stored next to the jars, which are verified against it
whenever they are used again. So a Worker's libraries change only with its packages.
"""

import hashlib
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from cooperator.artifacts import ivy
from cooperator.artifacts.bundles import BUNDLES, SPARK_VERSION, Artifact
from cooperator.artifacts.cache import cache_root, exclusive, sha256
from cooperator.artifacts.errors import ArtifactError, NotThere
from cooperator.artifacts.lockfile import parse_lock, render_lock

FIELD: Final = "spec.spark.packages"
_LOCK: Final = "packages.lock"
_SEPARATOR: Final = "~"


def resolve_packages(
    coordinates: Sequence[str], fallback: Path, progress: Callable[[str], None] | None = None
) -> tuple[Path, ...]:
    """Return the jars of the packages (``group:artifact:version``) and of dependencies that Spark lacks.

    They are looked up in the cache (see ``resolve``), then in ``fallback``, which is used where the cache is
    not writable, as in an image. A call that finds them needs no network.
    Raises :exc:`ArtifactError` that names the field, the coordinates and the remedy.
    """
    if not coordinates:
        return ()
    artifacts = [_artifact(text) for text in coordinates]
    text = "\n".join([f"spark {SPARK_VERSION}", *sorted(map(str, artifacts))])
    name = hashlib.sha256(text.encode()).hexdigest()[:16]
    roots = [cache_root() / "packages", fallback]
    for root in roots:
        if jars := _kept(root / name):
            return jars
    root = next((root for root in roots if _writable(root)), fallback)
    folder = root / name
    with exclusive(folder.with_suffix(".lock")):
        return _kept(folder) or _build(artifacts, folder, progress or (lambda _: None))


def _artifact(text: str) -> Artifact:
    try:
        return Artifact.parse(text)
    except ValueError:
        remedy = "write group:artifact:version, such as org.apache.spark:spark-avro_2.13:4.1.1"
        raise ArtifactError(f"{FIELD}: {text!r} is not a package: {remedy}") from None


def _on_class_path() -> set[str]:
    """Return the names of artifacts of which a second version would break things."""
    ours = (*BUNDLES["spark-kafka"].roots, *BUNDLES["postgresql"].roots)
    return ivy.spark_brings() | {artifact.name for artifact in ours}


def _writable(root: Path) -> bool:
    try:
        root.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(root, os.W_OK)


def _kept(folder: Path) -> tuple[Path, ...]:
    """Return the jars in ``folder``; none if it is incomplete. Raises ArtifactError if a jar has changed."""
    try:
        entries = parse_lock((folder / _LOCK).read_text())
    except (FileNotFoundError, NotADirectoryError):
        return ()
    for artifact, expected in entries.items():
        jar = folder / artifact.file_name
        if not jar.is_file() or sha256(jar) != expected:
            raise ArtifactError(
                f"{FIELD}: {jar} differs from the {artifact} that was fetched first; remove {folder} to "
                "fetch all packages again"
            )
    return tuple(folder / artifact.file_name for artifact in entries)


def _build(artifacts: Sequence[Artifact], folder: Path, progress: Callable[[str], None]) -> tuple[Path, ...]:
    work = folder.with_suffix(".part")
    tokens = _SEPARATOR.join(("[organisation]", "[artifact]", "[revision]"))
    try:
        ivy.retrieve(
            artifacts,
            transitive=True,
            pattern=f"{work / 'jars' / tokens}.[ext]",
            cache=work / "ivy",
            progress=lambda file: progress(f"packages: downloading {file}"),
            excluded=sorted(_on_class_path() - {artifact.name for artifact in artifacts}),
            checksums=True,
        )
    except NotThere as error:
        missing = ", ".join(map(str, error.artifacts))
        raise ArtifactError(
            f"{FIELD}: {missing} is not in the registry: check group, artifact (with Scala's version, such "
            "as _2.13, where it has one) and version"
        ) from None
    except ArtifactError as error:
        raise ArtifactError(f"{FIELD}: {', '.join(map(str, artifacts))}: {error}") from error
    found = {Artifact(*jar.stem.split(_SEPARATOR)): jar for jar in (work / "jars").glob("*.jar")}
    missing_roots = [str(artifact) for artifact in artifacts if artifact not in found]
    if missing_roots:
        raise ArtifactError(
            f"{FIELD}: {', '.join(missing_roots)} has no jar, or resolved to another version: name artifacts "
            "that are jars, each in one version"
        )
    try:
        lock = render_lock({artifact: sha256(jar) for artifact, jar in found.items()})
    except ValueError as error:
        raise ArtifactError(f"{FIELD}: {error}; leave one of them out") from None
    for artifact, jar in found.items():
        jar.rename(jar.with_name(artifact.file_name))
    (work / "jars" / _LOCK).write_text(lock)
    if folder.exists():
        shutil.rmtree(folder)
    (work / "jars").rename(folder)
    shutil.rmtree(work)
    return _kept(folder)
