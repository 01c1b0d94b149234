"""Watch events report starts and ends of members, and ignore frequent writes."""

from typing import Any

from cooperator.controller.news import News, news_of
from cooperator.controller.store import POD, WORKER, Store
from cooperator.host.platform import event_of

AT = "2026-01-01T00:00:{:02d}Z"


def pod(
    version: int, state: dict[str, Any] | None = None, restarts: int = 0, **metadata: Any
) -> dict[str, Any]:
    statuses = [] if state is None else [{"name": "worker", "state": state, "restartCount": restarts}]
    return {
        "metadata": {
            "name": "lake-1",
            "namespace": "n",
            "uid": "u",
            "resourceVersion": str(version),
            "labels": {"cooperator.dev/worker": "lake"},
            **metadata,
        },
        "spec": {},
        "status": {"phase": "Running", "containerStatuses": statuses},
    }


def running(second: int) -> dict[str, Any]:
    return {"running": {"startedAt": AT.format(second)}}


ENDED = {"terminated": {"startedAt": AT.format(1), "finishedAt": AT.format(9), "exitCode": 137}}


def words(before: dict[str, Any] | None, now: dict[str, Any], kind: str = POD) -> str:
    found = news_of(kind, before, now)
    return found.words if found is not None else ""


def test_a_container_s_end_and_its_next_incarnation() -> None:
    up, down, again = pod(1, running(1)), pod(2, ENDED), pod(3, running(12), restarts=1)
    assert news_of(POD, up, down) == News(
        "Pod/lake-1/2", POD, "lake-1", "its container has ended with code 137"
    )
    assert words(down, again) == "its container runs (restart 1)"
    assert words(pod(1), up) == "its container runs (restart 0)"


def test_events_without_news_are_ignored() -> None:
    up = pod(1, running(1))
    assert words(up, pod(2, running(1))) == ""
    assert words(None, up) == ""
    assert words(pod(2, ENDED), pod(3, ENDED)) == ""


def test_deletions() -> None:
    up = pod(1, running(1))
    assert words(up, pod(2, running(1), deletionTimestamp=AT.format(30))) == "is being deleted"
    gone = news_of(POD, up, pod(3, running(1)), deleted=True)
    assert gone is not None
    assert gone.words == "is gone"


def worker(version: int, generation: int, **metadata: Any) -> dict[str, Any]:
    return {
        "metadata": {
            "name": "lake",
            "namespace": "n",
            "resourceVersion": str(version),
            "generation": generation,
            **metadata,
        },
        "spec": {},
        "status": {"seen": version},
    }


def test_a_spec_tells_and_a_status_does_not() -> None:
    assert words(worker(1, 1), worker(2, 1), WORKER) == ""
    assert words(worker(1, 1), worker(2, 2), WORKER) == "has another spec, of generation 2"
    asked = worker(2, 1, annotations={"cooperator.dev/restart": "failed#1"})
    assert words(worker(1, 1), asked, WORKER) == "is to be restarted"


def test_a_node_tells_what_has_become_of_it() -> None:
    def node(version: int, status: str) -> dict[str, Any]:
        ready = {"type": "Ready", "status": status}
        metadata = {"name": "m", "resourceVersion": str(version)}
        return {"metadata": metadata, "spec": {}, "status": {"conditions": [ready]}}

    assert words(node(1, "True"), node(2, "Unknown"), "Node") == "ready: False"
    assert words(node(1, "True"), node(2, "True"), "Node") == ""


def test_the_store_tells_each_news_once() -> None:
    store = Store(lambda name: None)
    store.put(POD, pod(1, running(1)))
    assert store.news(("n", "lake")) == ()
    store.put(POD, pod(2, ENDED))
    store.put(POD, pod(3, running(12), restarts=1))
    assert event_of(each.id for each in store.news(("n", "lake"))) == "Pod/lake-1/2,Pod/lake-1/3"
    assert store.news(("n", "lake")) == ()
