"""A stock Kafka Connect worker as a process of its own, for tests that need what only the JVM does."""

import json
import os
import subprocess
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from cooperator.artifacts import find_java, resolve
from cooperator.local.settings import free_port

_DIRECT: Final = urllib.request.build_opener(urllib.request.ProxyHandler({}))
MAX_DELAY_MS: Final = 8_000


@dataclass
class ConnectWorker:
    """One worker of the Connect cluster ``group_id``; killed with the test."""

    bootstrap_servers: str
    group_id: str
    directory: Path
    port: int = field(default_factory=free_port)
    child: "subprocess.Popen[bytes] | None" = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def config_topic(self) -> str:
        return f"{self.group_id}-connect-config"

    def start(self) -> None:
        settings = self.directory / f"worker-{self.port}.properties"
        settings.write_text("".join(f"{name}={value}\n" for name, value in self._settings().items()))
        class_path = os.pathsep.join(map(str, resolve("kafka")))
        main = "org.apache.kafka.connect.cli.ConnectDistributed"
        with (self.directory / f"worker-{self.port}.log").open("wb") as log:
            self.child = subprocess.Popen(
                [
                    str(find_java()),
                    "-Xmx192m",
                    "-XX:TieredStopAtLevel=1",
                    "-cp",
                    class_path,
                    main,
                    str(settings),
                ],
                stdout=log,
                stderr=log,
            )

    def kill(self) -> None:
        if self.child is not None:
            self.child.kill()
            self.child.wait(30)

    def ask(self, path: str, value: Any = None) -> Any:
        """GET, or POST of ``value``; AssertionError when the worker does not answer (yet)."""
        data = None if value is None else json.dumps(value).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"http://{self.address}/{path}", data, headers)
        try:
            with _DIRECT.open(request, timeout=10) as answer:
                return json.load(answer)
        except OSError as error:
            raise AssertionError(f"{path}: {error}") from None

    def create(self, name: str, source: Path) -> None:
        """A connector of one task, which reads lines of a file into a topic."""
        config = {
            "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
            "tasks.max": "1",
            "file": str(source),
            "topic": f"{self.group_id}-lines",
        }
        self.ask("connectors", {"name": name, "config": config})

    def running(self) -> dict[str, str]:
        """Every item that runs to the address of its worker; a task is named like ``lines-0``."""
        found: dict[str, str] = {}
        for name, about in self.ask("connectors?expand=status").items():
            status = about["status"]
            items = [(name, status["connector"]), *((f"{name}-{t['id']}", t) for t in status["tasks"])]
            found |= {item: told["worker_id"] for item, told in items if told["state"] == "RUNNING"}
        return found

    def _settings(self) -> dict[str, object]:
        storage = {
            f"{kind}.storage.{name}": value
            for kind, topic in (
                ("config", self.config_topic),
                ("offset", f"{self.group_id}-connect-offsets"),
                ("status", f"{self.group_id}-connect-status"),
            )
            for name, value in (("topic", topic), ("replication.factor", 1))
        }
        return {
            "bootstrap.servers": self.bootstrap_servers,
            "group.id": self.group_id,
            "key.converter": "org.apache.kafka.connect.storage.StringConverter",
            "value.converter": "org.apache.kafka.connect.storage.StringConverter",
            **storage,
            "offset.storage.partitions": 1,
            "status.storage.partitions": 1,
            "listeners": f"http://{self.address}",
            "rest.advertised.host.name": "127.0.0.1",
            "rest.advertised.port": self.port,
            "heartbeat.interval.ms": 1_000,
            "session.timeout.ms": 6_000,
            "scheduled.rebalance.max.delay.ms": MAX_DELAY_MS,
        }
