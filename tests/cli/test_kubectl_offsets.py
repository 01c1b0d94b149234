"""``kubectl cooperator offsets`` and the operator's side of it, over one Connector in memory."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from cooperator.cli.kubectl import offsets, requests
from cooperator.connectors.offsets import Change
from cooperator.controller.api.kubeconfig import ClusterAddress
from cooperator.controller.names import OFFSETS_REQUEST, OFFSETS_RESULT
from cooperator.controller.offset_work import OffsetWork
from cooperator.crd import Connector, Worker, from_object
from cooperator.rest.answers import RequestRefused
from cooperator.rest.parts import OffsetChange
from tests.controller.test_offset_requests import Later

P = {"kafka_topic": "in", "kafka_partition": 0}
OURS = {"apiVersion": "cooperator.dev/v1alpha1"}


class Cluster:
    """The API server, and an operator that looks whenever the command does. ``kept`` is the position."""

    def __init__(self) -> None:
        self.annotations: dict[str, str] = {}
        self.target, self.answers = "Stopped", True
        self.kept, self.listed_number = 9, 1
        self._threads = Later()
        self._work = OffsetWork(
            self,  # type: ignore[arg-type]
            lambda: self,  # type: ignore[arg-type,return-value]
            lambda body: None,
            threads=self._threads,
            operations=lambda worker, leader: self,  # type: ignore[arg-type,return-value]
        )

    # --- the API server ---

    def body(self) -> dict[str, Any]:
        metadata = {"name": "copy", "namespace": "n", "uid": "u", "annotations": dict(self.annotations)}
        spec = {"workerRef": {"name": "lake"}, "class": "noop", "state": self.target}
        return {**OURS, "kind": "Connector", "metadata": metadata, "spec": spec}

    def list(self, kind: Any, namespace: Any, labels: str = "") -> Any:
        return [self.body()], 1

    def get(self, kind: Any, namespace: Any, name: str) -> Any:
        worker = from_object({**OURS, "kind": "Worker", "metadata": {"name": "lake"}, "spec": {}})
        connector = from_object(self.body())
        assert isinstance(worker, Worker)
        assert isinstance(connector, Connector)
        if self.answers:
            self._work.keep(worker, {"copy": connector}, [self.body()], self.status())
            self._threads.run()
        return self.body()

    def merge(self, kind: Any, namespace: Any, name: str, patch: Any) -> Any:
        for key, value in patch["metadata"]["annotations"].items():
            self.annotations.pop(key, None)
            if value is not None:
                self.annotations[key] = value
        return self.body()

    def create(self, kind: Any, manifest: Any) -> Any:
        return manifest

    # --- the leader, and the member ---

    def status(self) -> dict[str, Any]:
        known = {"copy": {"state": "STOPPED", "regrouping": False}}
        return {"leading": True, "known": True, "connectors": known, "members": [], "tasks": []}

    def listed(self, name: str, config: Any) -> Any:
        entries = [{"partition": P, "offset": {"kafka_offset": self.kept, "pad": "x" * 900}}]
        return entries * self.listed_number

    def changed(self, name: str, config: Any, asked: OffsetChange) -> Any:
        after = 0 if not asked.entries else (asked.entries[0].offset or {})["kafka_offset"]
        if after > 10:
            raise RequestRefused(400, "kafka_offset 11 is out of range; use 0 to 10")
        found = [Change(P, {"kafka_offset": self.kept}, {"kafka_offset": after})]
        if not asked.dry_run:
            self.kept = after
        return found


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


Ask = Callable[..., Result]


@pytest.fixture
def ask(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Ask:
    place = ClusterAddress(cluster, "n", ())  # type: ignore[arg-type]
    monkeypatch.setattr(offsets, "connect", lambda *_: place)
    monkeypatch.setattr(requests, "_POLL_S", 0.001)
    return lambda *words: CliRunner().invoke(offsets.app, words)


def to(tmp_path: Path, offset: int) -> str:
    file = tmp_path / "to.json"
    file.write_text(json.dumps({"offsets": [{"partition": P, "offset": {"kafka_offset": offset}}]}))
    return str(file)


def test_a_dry_run_shows_what_the_change_then_does(ask: Ask, cluster: Cluster, tmp_path: Path) -> None:
    line = f'{json.dumps(P)}: {{"kafka_offset": 9}} -> {{"kafka_offset": 4}}  (up to 5 records read again)'
    tried = ask("alter", "copy", "--to", to(tmp_path, 4), "--dry-run")
    assert (tried.exit_code, tried.stdout) == (0, f"{line}\n")
    assert "1 position would change; up to 5 records read again" in tried.stderr
    assert cluster.kept == 9
    done = ask("alter", "copy", "--to", to(tmp_path, 4))
    assert (done.exit_code, done.stdout) == (0, f"{line}\n")
    assert cluster.kept == 4
    assert "up to 6 records skipped" in ask("alter", "copy", "--to", to(tmp_path, 10)).stdout
    assert ask("reset", "copy", "--to", "earliest").exit_code == 0
    assert (cluster.kept, cluster.annotations) == (0, {}), "nothing is left"


def test_refusals_come_from_whoever_knows(ask: Ask, cluster: Cluster, tmp_path: Path) -> None:
    for words, said in (
        (("alter", "copy", "--to", to(tmp_path, 11)), "kafka_offset 11 is out of range"),
        (("alter", "copy", "--to", "newest"), "newest cannot be read: No such file or directory"),
        (("list", "copi"), "has no Connector 'copi': did you mean 'copy'?"),
    ):
        refused = ask(*words)
        assert refused.exit_code == 1
        assert said in " ".join(refused.output.split())
    cluster.target = "Running"
    refused = ask("reset", "copy")
    assert "connector copy is Running" in " ".join(refused.output.split())
    assert (cluster.kept, cluster.annotations) == (9, {})


def test_a_list_that_is_longer_than_a_result_comes_in_parts(ask: Ask, cluster: Cluster) -> None:
    cluster.listed_number = 300
    assert len(json.loads(ask("list", "copy").stdout)["offsets"]) == 300


def test_a_request_that_nobody_answers_is_withdrawn(ask: Ask, cluster: Cluster) -> None:
    cluster.answers = False
    refused = ask("reset", "copy", "--timeout", "1")
    assert "nothing was changed within 1 s: no operator has answered" in " ".join(refused.output.split())
    assert cluster.annotations == {}


def test_a_manifest_s_request_stays_and_is_not_carried_out_again(ask: Ask, cluster: Cluster) -> None:
    declared = '{"id": "replay", "do": "reset", "to": "earliest"}'
    cluster.annotations[OFFSETS_REQUEST] = declared
    pending = ask("list", "copy")
    assert "has a request about its offsets or state that has not ended" in " ".join(pending.output.split())
    for _ in range(2):
        cluster.get(None, None, "copy")
    assert cluster.kept == 0
    before = dict(cluster.annotations)
    cluster.kept = 7
    assert json.loads(ask("list", "copy").stdout)["offsets"][0]["offset"]["kafka_offset"] == 7
    assert cluster.annotations == before
    cluster.annotations[OFFSETS_REQUEST] = declared
    cluster.get(None, None, "copy")
    assert cluster.kept == 7
    assert json.loads(cluster.annotations[OFFSETS_RESULT])["phase"] == "Done"
