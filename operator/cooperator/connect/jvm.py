"""The JVM of a stock worker: its options wherever it runs, and its command on this machine."""

import os
from collections.abc import Sequence
from pathlib import Path, PurePath
from typing import Final
from urllib.parse import quote

from cooperator.artifacts import find_java, resolve, use_archive
from cooperator.connect.log4j import LOG4J_1, LOG4J_2
from cooperator.crd import Worker
from cooperator.oauthbearer import token_file

_MAIN: Final = "org.apache.kafka.connect.cli.ConnectDistributed"
_LINES: Final = {"4": "kafka", "3.9": "connect-3.9"}
"""Lines of Connect, and the bundle of jars for each."""


def line_of(version: str | None) -> str:
    """Return the line of Connect to run here for ``spec.version``; the newest for None. Raises ValueError."""
    if version is None:
        return "4"
    for line in _LINES:
        if version == line or version.startswith(f"{line}."):
            return line
    raise ValueError(
        f"spec.version is {version!r}, but this machine runs Connect {', '.join(sorted(_LINES))}: use one of "
        "these, or remove it"
    )


def heap_options(worker: Worker) -> Sequence[str]:
    return [f"-Xmx{worker.spec.stock.heap_mb}m"]


def user_options(worker: Worker) -> Sequence[str]:
    """Return the user's own options, and the metrics agent."""
    stock = worker.spec.stock
    agent = stock.metrics.java_agent
    return [*stock.jvm_options, *([f"-javaagent:{agent}"] if agent else [])]


def login_options(token_url: str) -> Sequence[str]:
    """Return the options without which Java's clients refuse the source of tokens (from 3.9.1: KIP-1139).

    They come before the user's own, which may name more URLs.
    """
    prefix = "-Dorg.apache.kafka.sasl.oauthbearer.allowed"
    file = token_file(token_url)
    return [f"{prefix}.urls={token_url}", *([f"{prefix}.files={file}"] if file is not None else [])]


def logging_options(folder: PurePath) -> Sequence[str]:
    """Return the logging options, log4j 2 last: Kafka's scripts take a log4j 1 configuration in last place
    for one that Connect 4 must read."""
    # Both are read as URLs.
    return [
        f"-Dlog4j.configuration=file:{quote(str(folder / LOG4J_1))}",
        f"-Dlog4j2.configurationFile=file:{quote(str(folder / LOG4J_2))}",
    ]


def jmx_options(port: int | None) -> Sequence[str]:
    if port is None:
        return []
    prefix = "-Dcom.sun.management.jmxremote"
    return [prefix, f"{prefix}.port={port}", f"{prefix}.authenticate=false", f"{prefix}.ssl=false"]


def command(worker: Worker, folder: Path, settings: Path, jmx_port: int | None) -> list[str]:
    """Return the command of a worker on this machine; fetch jars if needed.

    ``folder``: has the logging files. Raises ValueError for a version that is unknown here, ArtifactError,
    JavaNotFound.
    """
    line = line_of(worker.spec.version)
    class_path = resolve(_LINES[line])
    return [
        str(find_java()),
        *heap_options(worker),
        *use_archive(f"connect-{line}", class_path),
        *user_options(worker),
        *jmx_options(jmx_port),
        *logging_options(folder),
        *("-cp", os.pathsep.join(map(str, class_path)), _MAIN, str(settings)),
    ]
