"""A status never shows an unknown figure as zero."""

import json
import subprocess
from typing import IO, Any

import pytest

from tests.harness.installation import Installation, started

pytestmark = pytest.mark.real

WATCHED = (("workers", "lake"), ("connectors", "a"))


class Watcher:
    """All statuses of the objects, in order: a watch tells each version, however short it lasts."""

    def __init__(self, installation: Installation) -> None:
        self._installation = installation
        self._watches: dict[str, tuple[subprocess.Popen[str], IO[str]]] = {}

    def __enter__(self) -> "Watcher":
        cluster = self._installation.cluster
        where = (f"--kubeconfig={cluster.kubeconfig}", "-n", self._installation.namespace)
        for plural, name in WATCHED:
            out = (self._installation.directory / plural).open("w+")
            words = [str(cluster.programs["kubectl"]), *where, "get", plural, name, "--watch", "-o", "json"]
            self._watches[plural] = subprocess.Popen(words, stdout=out, text=True), out
        for plural in self._watches:
            self._installation.eventually(lambda plural=plural: self._versions(plural), 60, "the first one")
        return self

    def __exit__(self, *_: object) -> None:
        try:
            for plural, name in WATCHED:
                last = self._installation.get(plural, name)["metadata"]["resourceVersion"]
                self._installation.eventually(
                    lambda plural=plural, last=last: (
                        int(self._versions(plural)[-1]["metadata"]["resourceVersion"]) >= int(last)
                    ),
                    60,
                    "the last one",
                )
        finally:
            for watch, out in self._watches.values():
                watch.kill()
                watch.wait()
                out.close()

    def statuses(self, plural: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        for version in self._versions(plural):
            if (status := version.get("status", {})) not in found[-1:]:
                found.append(status)
        return found

    def _versions(self, plural: str) -> list[dict[str, Any]]:
        """What kubectl has written so far: one object after the other, of which the last may be in part."""
        text, at, found = (self._installation.directory / plural).read_text(), 0, []
        while (at := text.find("{", at)) >= 0:
            try:
                version, at = json.JSONDecoder().raw_decode(text, at)
            except ValueError:
                break
            found.append(version)
        return found


def shown(installation: Installation) -> str:
    worker, connector = (installation.get(plural, name).get("status", {}) for plural, name in WATCHED)
    summaries = worker.get("memberSummary"), worker.get("taskSummary"), connector.get("taskSummary")
    return " ".join(map(str, summaries))


PROTOCOLS = [
    pytest.param(
        "sessioned",
        "sessioned",
        marks=pytest.mark.long(
            "tests/controller/test_known_figures.py::"
            "test_a_new_operator_shows_what_was_known_until_it_knows_better"
        ),
    ),
    ("auto", "reconciled"),
]


def condition(status: dict[str, Any], kind: str) -> tuple[str, str]:
    [found] = [each for each in status["conditions"] if each["type"] == kind]
    return found["status"], found["reason"]


@pytest.mark.parametrize(("protocol", "in_use"), PROTOCOLS)
def test_a_new_operator_shows_what_was_known_until_it_knows_better(
    installation: Installation, protocol: str, in_use: str
) -> None:
    started(installation, protocol=protocol)
    installation.settled()
    installation.eventually(
        lambda: installation.get("workers", "lake")["status"]["protocol"]["name"] == in_use, 60
    )
    # Statuses follow the leader within a second.
    installation.eventually(lambda: shown(installation) == "3/3 6/6 6/6", 30)
    with Watcher(installation) as watcher:
        installation.operators[0].kill()
        second = installation.operator()
        installation.eventually(lambda: "leading in term" in second.log.read_text(), 90)
        installation.worker(replicas=3, protocol=protocol, scheduledRebalanceMaxDelayMs=61_000)
        installation.eventually(
            lambda: (
                installation.get("workers", "lake")["status"]["observedGeneration"]
                == installation.get("workers", "lake")["metadata"]["generation"]
            ),
            90,
        )
        installation.settled()
    workers, connectors = watcher.statuses("workers"), watcher.statuses("connectors")
    assert {(each["memberSummary"], each["taskSummary"]) for each in workers} == {("3/3", "6/6")}
    assert {(each["readyReplicas"], each["tasks"]["desired"]) for each in workers} == {(3, 6)}
    assert {(each["state"], each["taskSummary"]) for each in connectors} == {("RUNNING", "6/6")}
    assert "False" not in {condition(each, "MembersReady")[0] for each in workers}
    assert {condition(each, "Ready") for each in connectors} == {
        ("True", "Running"),
        ("Unknown", "NotLeading"),
    }
