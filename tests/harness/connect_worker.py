"""A stock Kafka Connect worker as a process of its own, for tests that need the JVM's real behaviour."""

import json
import os
import signal
import subprocess
import urllib.error
import urllib.request
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from cooperator.artifacts import find_java, resolve, use_archive, write_archive
from cooperator.local.settings import free_port
from tests.harness.stock_connectors import plugin_path
from tests.harness.support import eventually, freeze

_DIRECT: Final = urllib.request.build_opener(urllib.request.ProxyHandler({}))
MAX_DELAY_MS: Final = 8_000
BUNDLES: Final = {"4": "kafka", "3.9": "connect-3.9"}
"""Lines of Connect, with the jar bundle of each."""

_FLAGS: Final = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Djava.awt.headless=true")
_MAIN: Final = "org.apache.kafka.connect.cli.ConnectDistributed"
_LOG4J_1: Final = """log4j.rootLogger=INFO, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=%d{ABSOLUTE} %p %c{1}: %m%n
"""
_LOG4J_2: Final = """appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d{ABSOLUTE} %p %c{1}: %m%n
rootLogger.level = info
rootLogger.appenderRef.out.ref = out
logger.config.name = org.apache.kafka.common.config.AbstractConfig
logger.config.level = warn
"""


class Refused(AssertionError):
    """A worker answered with an error; ``code`` is the HTTP status."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{code}: {text}")
        self.code = code


@dataclass
class ConnectWorker:
    """One worker of the Connect cluster ``group_id``; killed with the test.

    ``identity`` is its ``client.id``; empty means Connect's own (``connect-HOST:PORT``). ``line`` is
    Connect's, 4 or 3.9. ``protocol`` is ``connect.protocol``. ``settings`` override everything.
    ``incarnation`` is that of the present process, as its connectors' journal names it.
    ``heap_mb`` is the heap's limit.
    """

    bootstrap_servers: str
    group_id: str
    directory: Path
    port: int = field(default_factory=free_port)
    child: "subprocess.Popen[bytes] | None" = None
    identity: str = ""
    line: str = "4"
    protocol: str = "sessioned"
    settings: Mapping[str, object] = field(default_factory=dict)
    heap_mb: int = 192
    incarnation: str = ""

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def name(self) -> str:
        """Its client id, by which a leader of ours knows it."""
        return self.identity or f"connect-{self.address}"

    @property
    def config_topic(self) -> str:
        return f"{self.group_id}-configs"

    @property
    def log(self) -> Path:
        return self.directory / f"{self.identity or f'worker-{self.port}'}.log"

    @property
    def hangs(self) -> Path:
        """Lines that say where the blocking connectors hang (``stock/java/Block.java``)."""
        return self.directory / "hangs"

    def start(self, java_options: tuple[str, ...] | None = None) -> None:
        """Start a new incarnation; does not wait. ``java_options`` replace those of the class archive."""
        self.incarnation = uuid.uuid4().hex[:12]
        settings = self.directory / f"worker-{self.port}.properties"
        settings.write_text("".join(f"{name}={value}\n" for name, value in self._settings().items()))
        class_path = resolve(BUNDLES[self.line])
        if java_options is None:
            java_options = use_archive(_archive(self.line), class_path)
        with self.log.open("ab") as log:
            self.child = subprocess.Popen(
                [
                    *(str(find_java()), f"-Xmx{self.heap_mb}m", *_FLAGS, *java_options, *self._logging()),
                    f"-Dcooperator.identity={self.name}",
                    f"-Dcooperator.incarnation={self.incarnation}",
                    f"-Dcooperator.hangs={self.hangs}",
                    *("-cp", os.pathsep.join(map(str, class_path)), _MAIN, str(settings)),
                ],
                stdout=log,
                stderr=log,
            )

    # --- ends and pauses ---

    def kill(self) -> None:
        """Send SIGKILL; returns when the process is gone."""
        if self.child is not None:
            self.child.kill()
            self.child.wait(30)

    def terminate(self) -> None:
        """Send SIGTERM, after which it stops its tasks and leaves the group; does not wait for it."""
        assert self.child is not None
        self.child.terminate()

    def freeze(self) -> None:
        assert self.child is not None
        freeze(self.child.pid)

    def thaw(self) -> None:
        assert self.child is not None
        os.kill(self.child.pid, signal.SIGCONT)

    # --- its REST API ---

    def ask(self, path: str, value: Any = None, method: str | None = None) -> Any:
        """GET, or POST of ``value``, or ``method``; None for an answer without a body.

        Raises Refused for an error answer, and AssertionError if it does not answer (yet).
        """
        data = None if value is None else json.dumps(value).encode()
        headers = {"Content-Type": "application/json"}
        url = f"http://{self.address}/{path}"
        request = urllib.request.Request(url, data, headers, method=method)
        try:
            with _DIRECT.open(request, timeout=100) as answer:
                text = answer.read()
                return json.loads(text) if text else None
        except urllib.error.HTTPError as error:
            raise Refused(error.code, f"{path}: {error.read().decode(errors='replace')}") from None
        except OSError as error:
            raise AssertionError(f"{path}: {error}") from None

    def serves(self, timeout_s: float = 120) -> None:
        """Wait until it is a member and answers."""
        eventually(lambda: self.ask("connectors") is not None, timeout_s, f"{self.name} serves")

    def create(self, name: str, source: Path) -> None:
        """Create a connector with one task, which reads lines of a file into a topic."""
        config = {
            "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
            "tasks.max": "1",
            "file": str(source),
            "topic": f"{self.group_id}-lines",
        }
        self.ask("connectors", {"name": name, "config": config})

    def running(self) -> dict[str, str]:
        """Maps every running item to the address of its worker; a task is named like ``lines-0``."""
        return {item: where for item, (state, where) in self.states().items() if state == "RUNNING"}

    def states(self) -> dict[str, tuple[str, str]]:
        """Every item's state, and the address of the worker that reported it."""
        found: dict[str, tuple[str, str]] = {}
        for name, about in self.ask("connectors?expand=status").items():
            status = about["status"]
            items = [(name, status["connector"]), *((f"{name}-{t['id']}", t) for t in status["tasks"])]
            found |= {item: (report["state"], report["worker_id"]) for item, report in items}
        return found

    # --- how it is set up ---

    def _logging(self) -> tuple[str, ...]:
        old = self.line == "3.9"
        file = self.directory / f"connect-{self.line}.properties"
        file.write_text(_LOG4J_1 if old else _LOG4J_2)
        return (f"-Dlog4j.configuration=file:{file}" if old else f"-Dlog4j2.configurationFile={file}",)

    def _settings(self) -> dict[str, object]:
        storage = {
            f"{kind}.storage.{name}": value
            for kind, topic in (
                ("config", self.config_topic),
                ("offset", f"{self.group_id}-offsets"),
                ("status", f"{self.group_id}-status"),
            )
            for name, value in (("topic", topic), ("replication.factor", 1))
        }
        return {
            "bootstrap.servers": self.bootstrap_servers,
            "group.id": self.group_id,
            **({"client.id": self.identity} if self.identity else {}),
            "connect.protocol": self.protocol,
            "plugin.path": plugin_path(),
            # Plug-ins are listed in their jars, so the class path is not searched at each start.
            "plugin.discovery": "service_load",
            "key.converter": "org.apache.kafka.connect.storage.StringConverter",
            "value.converter": "org.apache.kafka.connect.storage.StringConverter",
            **storage,
            "offset.storage.partitions": 1,
            "status.storage.partitions": 1,
            "offset.flush.interval.ms": 1_000,
            "listeners": f"http://{self.address}",
            "rest.advertised.host.name": "127.0.0.1",
            "rest.advertised.port": self.port,
            "heartbeat.interval.ms": 1_000,
            "session.timeout.ms": 6_000,
            "scheduled.rebalance.max.delay.ms": MAX_DELAY_MS,
            **self.settings,
        }


def write_worker_classes(bootstrap_servers: str, directory: Path, line: str = "4") -> None:
    """Write the class archive for workers of this line by running one, unless the archive exists."""

    def run(java_options: tuple[str, ...]) -> None:
        name = f"classes-{uuid.uuid4().hex[:8]}"
        worker = ConnectWorker(bootstrap_servers, name, directory, line=line)
        worker.start(java_options)
        try:
            worker.serves()
            worker.terminate()
            assert worker.child is not None
            worker.child.wait(180)
        finally:
            worker.kill()

    write_archive(_archive(line), resolve(BUNDLES[line]), run)


def _archive(line: str) -> str:
    return f"connect-{line}"
