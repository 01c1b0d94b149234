"""The leader of this project with its REST API, as a process of its own (``led_front``)."""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cooperator.local.settings import free_port
from tests.harness.support import eventually
from tests.rest.client import Client


class Front:
    """``worker``: the manifest's spec. ``start`` first; ``client`` is of the REST API."""

    def __init__(self, servers: str, directory: Path, worker: Mapping[str, Any]) -> None:
        self._directory = directory
        self._port = free_port()
        self._facts: dict[str, Any] = {}
        self._expected: set[str] = set()
        self._file = directory / "front.json"
        said = {
            "worker": {
                "apiVersion": "cooperator.dev/v1alpha1",
                "kind": "Worker",
                "metadata": {"name": "lake"},
                "spec": worker,
            },
            "bootstrap_servers": servers,
            "port": self._port,
            "leader_port": free_port(),
            "connectors": str(directory / "connectors.yaml"),
            "facts": str(directory / "facts.json"),
        }
        self._file.write_text(json.dumps(said))
        self._child: subprocess.Popen[bytes] | None = None

    @property
    def client(self) -> Client:
        return Client(f"http://127.0.0.1:{self._port}")

    def start(self) -> None:
        command = [sys.executable, "-m", "benchmarks.clusters.led_front", str(self._file)]
        with (self._directory / "leader.log").open("ab") as log:
            self._child = subprocess.Popen(command, stdout=log, stderr=log)

    def kill(self) -> None:
        if self._child is not None:
            self._child.kill()
            self._child.wait(30)

    def expect(self, *identities: str) -> None:
        """The host has these members run, from now on or again."""
        self._expected |= {*identities}
        self.know(expected=sorted(self._expected), returning=[])

    def let_go(self, *identities: str) -> None:
        """The host has told the members to leave for good."""
        self._expected -= {*identities}
        self.know(expected=sorted(self._expected), leaving=[*identities])

    def know(self, **facts: Any) -> None:
        """Change the facts; returns when the leader, if it is there, has them."""
        self._facts |= facts
        text = json.dumps(self._facts)
        part = self._directory / "facts.part"
        part.write_text(text)
        part.replace(self._directory / "facts.json")
        known = self._directory / "facts.known"
        if self._child is not None and self._child.poll() is None:
            eventually(lambda: known.exists() and known.read_text() == text, 300, "the leader has the facts")
