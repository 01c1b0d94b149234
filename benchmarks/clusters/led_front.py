"""A leader and its REST front as a process of its own: ``python -m benchmarks.clusters.led_front FILE``.

FILE is JSON: ``worker`` (the manifest), ``bootstrap_servers``, ``port`` (of the REST API), ``leader_port``,
``connectors`` (a file that keeps the Connectors) and ``facts`` (a file with what the host knows, read when it
changes: ``expected``, ``ended``, ``returning``, ``leaving``).
"""

import json
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from cooperator.crd import Connector, Worker, compile_desired, dump, parse
from cooperator.host.leader import leader_settings
from cooperator.leader.process import prepare_process
from cooperator.leader.service import LeaderService
from cooperator.local.front import Everybody
from cooperator.log_lines import LogFormat, log_to_stderr
from cooperator.planner.view import Facts
from cooperator.rest.app import RestServer
from cooperator.rest.of_worker import front_of
from cooperator.supervision import supervise_process

_LOOK_S: Final = 0.05


class KeptConnectors:
    """``rest.parts.Connectors`` in memory, kept in a file; each change is told to the leader at once."""

    def __init__(self, worker: Worker, leader: LeaderService, file: Path) -> None:
        self._worker, self._leader, self._file = worker, leader, file
        self._lock = threading.Lock()
        self._revision = 0
        found = parse(file.read_text(), str(file)) if file.exists() else ()
        self._connectors = {c.metadata.name: c for c in found if isinstance(c, Connector)}
        self._changed()

    def all(self) -> Sequence[Connector]:
        return [*self._connectors.values()]

    def find(self, name: str) -> Connector | None:
        return next((c for c in self.all() if c.connector_name == name), None)

    def resource(self, name: str) -> Connector | None:
        return self._connectors.get(name)

    def create(self, connector: Connector) -> None:
        self._put(connector)

    def change(self, before: Connector, after: Connector) -> None:
        self._put(after)

    def delete(self, connector: Connector) -> None:
        with self._lock:
            self._connectors = {n: c for n, c in self._connectors.items() if n != connector.metadata.name}
            self._changed()

    def _put(self, connector: Connector) -> None:
        with self._lock:
            self._connectors = {**self._connectors, connector.metadata.name: connector}
            self._changed()

    def _changed(self) -> None:
        self._revision += 1
        self._leader.set_desired(compile_desired(self._worker, self.all(), self._revision))

    def keep(self) -> None:
        """Write the file, for a later incarnation of this process."""
        part = self._file.with_suffix(".part")
        part.write_text(dump(self.all()))
        part.replace(self._file)


def facts_of(said: dict[str, Any]) -> Facts:
    return Facts(
        expected=frozenset(said.get("expected", ())) or None,
        ended=frozenset((identity, incarnation) for identity, incarnation in said.get("ended", ())),
        leaving=frozenset(said.get("leaving", ())),
        returning=frozenset(said.get("returning", ())),
    )


def main(file: Path) -> None:
    said = json.loads(file.read_text())
    log_to_stderr(LogFormat.TEXT)
    supervise_process()
    prepare_process()
    [worker] = parse(json.dumps(said["worker"]), str(file))
    assert isinstance(worker, Worker)
    settings = leader_settings(worker, said["bootstrap_servers"], "benchmark", port=said["leader_port"])
    service = LeaderService(settings)
    connectors = KeptConnectors(worker, service, Path(said["connectors"]))
    front = front_of(worker, lambda: service, connectors, Everybody())
    server = RestServer(front, "127.0.0.1", said["port"], only_here=True)
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    service.start()
    server.start()
    facts, seen = Path(said["facts"]), ""
    kept: Sequence[Connector] = ()
    while not ended.wait(_LOOK_S):
        text = facts.read_text() if facts.exists() else ""
        if text != seen:
            service.set_facts(facts_of(json.loads(text)))
            seen = text
            facts.with_suffix(".known").write_text(text)
        if kept != connectors.all():
            kept = connectors.all()
            connectors.keep()
    server.stop()
    service.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
