"""A status never shows an unknown figure as zero."""

import threading
from typing import Any

import pytest

from tests.harness.installation import Installation, started

pytestmark = pytest.mark.real

WATCHED = (("workers", "lake"), ("connectors", "a"))


class Watcher:
    """All statuses of the objects, in order."""

    def __init__(self, installation: Installation) -> None:
        self._installation = installation
        self.seen: dict[str, list[dict[str, Any]]] = {plural: [] for plural, _ in WATCHED}
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> "Watcher":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._end.is_set():
            for plural, name in WATCHED:
                status = self._installation.get(plural, name).get("status", {})
                if status not in self.seen[plural][-1:]:
                    self.seen[plural].append(status)


def shown(installation: Installation) -> str:
    worker, connector = (installation.get(plural, name).get("status", {}) for plural, name in WATCHED)
    summaries = worker.get("memberSummary"), worker.get("taskSummary"), connector.get("taskSummary")
    return " ".join(map(str, summaries))


PROTOCOLS = [("sessioned", "sessioned"), ("auto", "reconciled")]


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
    workers, connectors = watcher.seen["workers"], watcher.seen["connectors"]
    assert {(each["memberSummary"], each["taskSummary"]) for each in workers} == {("3/3", "6/6")}
    assert {(each["readyReplicas"], each["tasks"]["desired"]) for each in workers} == {(3, 6)}
    assert {(each["state"], each["taskSummary"]) for each in connectors} == {("RUNNING", "6/6")}
    assert "False" not in {condition(each, "MembersReady")[0] for each in workers}
    assert {condition(each, "Ready") for each in connectors} == {
        ("True", "Running"),
        ("Unknown", "NotLeading"),
    }
