"""Makes all files of a version from the last commit."""

import hashlib
import os
import shutil
import sys
import tarfile
import tempfile
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import yaml

from release import documents, images
from release.errors import ReleaseError
from release.programs import check_programs, run

ROOT: Final = Path(__file__).parents[1]
CHARTS: Final = ("cooperator-crds", "cooperator")
_HOOK: Final = "import sys; from setuptools import build_meta; getattr(build_meta, sys.argv[1])(sys.argv[2])"
"""A hook of the build backend that pyproject.toml names; PEP 517 wants a process for each."""


def build(version: str, registry: str, into: Path, base: str, architectures: list[str]) -> str:
    """Writes all files into the folder, which it replaces if it has an earlier release.

    Returns the checksums. Raises ReleaseError; the folder then is as before.
    """
    check_programs(("git", "buildah", "helm", "syft"))
    if into.exists() and any(into.iterdir()) and not (into / "SHA256SUMS").exists():
        raise ReleaseError(f"{into} has other files than those of a release: remove it")
    able = images.check_architectures(architectures)
    commit, time = run("git", "log", "-1", "--format=%H %ct", folder=ROOT).split()
    epoch_s = int(os.environ.get("SOURCE_DATE_EPOCH") or time)
    changed = run("git", "status", "--porcelain", folder=ROOT).splitlines()
    less = f", without {len(changed)} files that are not committed" if changed else ""
    print(f"==> {version} of commit {commit}{less}", flush=True)

    into.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".release-", dir=into.parent) as made:
        source, done = Path(made, "source"), Path(made, "done")
        done.mkdir()
        _export(commit, source)
        _check(source, version)
        text, named = documents.notes((source / "CHANGELOG.md").read_text(), version)
        if not named:
            print(f"==> the notes are those of Unreleased: CHANGELOG.md has no [{version}]", flush=True)
        (done / "notes.md").write_text(text)

        packages = Path(made, "packages")
        # The backend leaves files in its folder, which do not belong into images.
        backend = shutil.copytree(source, Path(made, "backend"), symlinks=True)
        for hook in ("build_sdist", "build_wheel"):
            run(sys.executable, "-c", _HOOK, hook, packages, folder=backend, SOURCE_DATE_EPOCH=str(epoch_s))
        digests = {
            name: images.build(source, name, version, base, able, done, epoch_s) for name in images.TARGETS
        }
        _package_charts(source, version, registry, digests, packages)
        for file in packages.iterdir():
            zipped = file.suffix in (".gz", ".tgz")
            content = file.read_bytes()
            (done / file.name).write_bytes(documents.packed_again(content, epoch_s) if zipped else content)
        sums = documents.checksums({path.name: _sha256(path) for path in done.iterdir()})
        (done / "SHA256SUMS").write_text(sums)
        shutil.rmtree(into, ignore_errors=True)
        done.rename(into)
    return sums


def _export(commit: str, source: Path) -> None:
    archive = source.with_suffix(".tar")
    run("git", "-c", "tar.umask=0022", "archive", f"--output={archive}", commit, folder=ROOT)
    with tarfile.open(archive) as tar:
        tar.extractall(source, filter="tar")


def _check(source: Path, version: str) -> None:
    project = tomllib.loads((source / "pyproject.toml").read_text())["project"]["version"]
    charts = {name: yaml.safe_load((source / "charts" / name / "Chart.yaml").read_text()) for name in CHARTS}
    documents.check_versions(version, project, charts)


def _package_charts(
    source: Path, version: str, registry: str, digests: Mapping[str, str], packages: Path
) -> None:
    for name in CHARTS:
        described, values = (source / "charts" / name / file for file in ("Chart.yaml", "values.yaml"))
        text = documents.annotated(
            described.read_text(), version, registry, digests if values.exists() else {}
        )
        described.write_text(text)
        if values.exists():
            values.write_text(documents.pinned(values.read_text(), registry, digests))
        run("helm", "package", described.parent, "--destination", packages)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
