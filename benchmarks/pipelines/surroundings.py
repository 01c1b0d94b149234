"""The services of a run beside its contenders: a broker, and where they are used a database and a schema
registry."""

import os
import platform
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import psutil

from benchmarks.pipelines.records import TRANSACTION_LIMIT
from cooperator.artifacts import KAFKA_VERSION, find_java
from cooperator.artifacts.java import java_home
from cooperator.local.broker import EmbeddedBroker
from tests.runtime.postgres import PASSWORD, Postgres
from tests.runtime.registry import Registry

_BROKER_JVM: Final = ("-Xmx1g", "-XX:TieredStopAtLevel=4")
"""A broker for tests is small; here it must not be what bounds the contenders."""
_BROKER: Final = {
    **TRANSACTION_LIMIT,
    # Topics of earlier turns leave the disk, and the page cache, soon.
    "log.segment.delete.delay.ms": "1000",
    "file.delete.delay.ms": "1000",
    "num.io.threads": "8",
    "num.network.threads": "3",
}


@dataclass
class Surroundings:
    """``failures`` gets the logs of failed turns. Registry and database are started by their first user."""

    root: Path
    broker: EmbeddedBroker
    failures: Path
    helpers: list[int] = field(default_factory=list)
    _registry: Registry | None = None
    _postgres: Postgres | None = None

    @property
    def bootstrap_servers(self) -> str:
        return self.broker.bootstrap_servers

    def servers(self) -> list[int]:
        """The processes that belong to the run without being the contender."""
        found = [self.broker.pid, *self.helpers]
        for part in (self._registry, self._postgres):
            process: Any = getattr(part, "_process", None)
            found.append(process.pid if process is not None else None)
        return [pid for pid in found if pid is not None]

    def registry_url(self) -> str:
        if self._registry is None:
            self._registry = Registry(self.root / "registry.log")
        return self._registry.url

    def database(self) -> Mapping[str, str]:
        if self._postgres is None:
            self._postgres = Postgres()
            self._postgres.start()
        return {
            "host": "127.0.0.1",
            "port": str(self._postgres.port),
            "user": "tester",
            "password": PASSWORD,
            "dbname": "postgres",
        }

    def close(self) -> None:
        if self._registry is not None:
            self._registry.close()
        if self._postgres is not None:
            self._postgres.close()
        self.broker.kill()


@contextmanager
def surroundings(directory: Path | None, failures: Path) -> Iterator[Surroundings]:
    """Starts the broker. ``directory`` is where all files are meanwhile (default: the system's for such)."""
    root = Path(tempfile.mkdtemp(prefix="cooperator-throughput-", dir=directory))
    broker = EmbeddedBroker(root / "broker", overrides=_BROKER, java_options=_BROKER_JVM)
    around = Surroundings(root, broker, failures)
    try:
        broker.start()
        yield around
    finally:
        around.close()
        shutil.rmtree(root, ignore_errors=True)


def machine() -> dict[str, Any]:
    """The machine of a run, and how busy it is by now."""
    return {
        "architecture": platform.machine(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30),
        "kernel": platform.release(),
        "load_before": round(os.getloadavg()[0], 2),
    }


def versions() -> dict[str, str]:
    release = (java_home(find_java()) / "release").read_text()
    java = next(line for line in release.splitlines() if line.startswith("JAVA_VERSION="))
    return {
        "cooperator": version("cooperator"),
        "python": platform.python_version(),
        "java": java.partition("=")[2].strip('"'),
        "spark": version("pyspark"),
        "kafka": KAFKA_VERSION,
        "pyarrow": version("pyarrow"),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()
