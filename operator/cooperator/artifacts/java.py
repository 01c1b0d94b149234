"""Finds a Java that Kafka and Spark both support."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from cooperator.artifacts.errors import JavaNotFound

SUPPORTED: Final = (17, 21)
"""Spark 4.0 supports these; Kafka 4 needs at least 17."""

FILE_NAMES: Final = {"LC_ALL": "C.UTF-8"}
"""Environment of a JVM, which decodes the names of files by it: without it, some files cannot be opened."""

_REMEDY: Final = (
    "Install one (Debian, Ubuntu: apt-get install openjdk-17-jre-headless; "
    "Fedora: dnf install java-21-openjdk-headless; macOS: brew install openjdk@21) "
    "or set COOPERATOR_JAVA to its java command or its home directory."
)
_INSTALL_ROOTS: Final = (
    ("/usr/lib/jvm", "*"),
    ("/Library/Java/JavaVirtualMachines", "*/Contents/Home"),
    ("/opt/homebrew/opt", "openjdk@*"),
    ("/usr/local/opt", "openjdk@*"),
)


def find_java() -> Path:
    """Return the ``java`` command of a supported Java, with symbolic links resolved.

    COOPERATOR_JAVA is binding: any other value is an error. Otherwise this is the first
    supported one of JAVA_HOME, the PATH, and the usual install locations.

    Raises :exc:`JavaNotFound`, which names the versions found and the packages to install.
    """
    named = os.environ.get("COOPERATOR_JAVA")
    if named:
        return _demand(Path(named))
    refused: dict[Path, int | None] = {}
    for candidate in _candidates():
        java = _command(candidate)
        if java is None or java in refused:
            continue
        version = _major_version(java)
        if version in SUPPORTED:
            return java
        refused[java] = version
    found = ", ".join(f"{java} ({_describe(version)})" for java, version in refused.items()) or "none"
    raise JavaNotFound(f"Java {_supported()} is required; found: {found}. {_REMEDY}")


def java_home(java: Path) -> Path:
    """Return the home directory of a ``java`` command, for programs that need JAVA_HOME."""
    return java.resolve().parent.parent


def _demand(named: Path) -> Path:
    java = _command(named)
    if java is None:
        raise JavaNotFound(
            f"COOPERATOR_JAVA is {str(named)!r}: neither a java command nor a directory with bin/java.  "
            + _REMEDY
        )
    version = _major_version(java)
    if version not in SUPPORTED:
        raise JavaNotFound(
            f"COOPERATOR_JAVA is {str(named)!r}: {_describe(version)}, but Java {_supported()} is required. "
            + _REMEDY
        )
    return java


def _candidates() -> Iterator[Path]:
    home = os.environ.get("JAVA_HOME")
    if home:
        yield Path(home)
    on_path = shutil.which("java")
    if on_path:
        yield Path(on_path)
    for root, pattern in _INSTALL_ROOTS:
        yield from sorted(Path(root).glob(pattern))


def _command(candidate: Path) -> Path | None:
    """Return the java command for a command or a home directory; None when there is none."""
    java = candidate / "bin" / "java" if candidate.is_dir() else candidate
    return java.resolve() if java.is_file() and os.access(java, os.X_OK) else None


def _major_version(java: Path) -> int | None:
    """Return 17 for Java 17; None if unknown. Reads the ``release`` file first: no process is needed."""
    try:
        text = (java_home(java) / "release").read_text(errors="replace")
    except OSError:
        text = ""
    match = re.search(r'^JAVA_VERSION="([^"]*)"', text, re.MULTILINE)
    if match is None:
        try:
            run = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=False)
        except (OSError, subprocess.TimeoutExpired):
            return None
        match = re.search(r'version "([^"]*)"', run.stderr)
    return _major(match.group(1)) if match else None


def _major(version: str) -> int | None:
    """Return 17 for ``17.0.15``, and 8 for the old style ``1.8.0_402``."""
    match = re.match(r"(?:1\.)?(\d+)", version)
    return int(match.group(1)) if match else None


def _describe(version: int | None) -> str:
    return "not a working Java" if version is None else f"Java {version}"


def _supported() -> str:
    return " or ".join(str(version) for version in SUPPORTED)
