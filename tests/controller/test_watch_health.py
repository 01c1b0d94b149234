"""Health is what handlers hear: a watch that is dead is noticed by what the API lists meanwhile."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from cooperator.controller.api.watch_health import PATIENCE_S, Key, WatchHealth
from cooperator.controller.main import Operator, registry_of
from cooperator.controller.manifests.pods import Defaults
from cooperator.controller.options import OperatorOptions
from cooperator.controller.store import POD, WORKER, Store

LAKE: Key = (WORKER, ("n", "lake"))
POND: Key = (WORKER, ("n", "pond"))
JUST: float = PATIENCE_S
LATE: float = PATIENCE_S + 1


def test_an_object_handled_before_it_is_listed_is_healthy() -> None:
    watch_health = WatchHealth()
    watch_health.heard(LAKE, 5)
    watch_health.listed(LAKE, 5, now_s=0)
    assert watch_health.late(LATE) is None


def test_an_object_that_no_handler_receives_becomes_late() -> None:
    watch_health = WatchHealth()
    watch_health.listed(LAKE, 5, now_s=0)
    assert watch_health.late(JUST) is None
    assert watch_health.late(LATE) == LAKE


def test_an_older_state_does_not_count_and_a_newer_one_does() -> None:
    watch_health = WatchHealth()
    watch_health.listed(LAKE, 5, now_s=0)
    watch_health.heard(LAKE, 4)
    assert watch_health.late(LATE) == LAKE
    watch_health.heard(LAKE, 6)
    assert watch_health.late(LATE) is None


def test_constant_changes_do_not_reset_lateness() -> None:
    watch_health = WatchHealth()
    for second in range(0, int(LATE) + 1, 30):
        watch_health.listed(LAKE, 5 + second, now_s=second)
    assert watch_health.late(LATE) == LAKE


def test_slow_but_complete_handling_is_healthy() -> None:
    watch_health = WatchHealth()
    for second in range(0, 10 * int(LATE), 30):
        watch_health.listed(LAKE, second, now_s=second)
        watch_health.heard(LAKE, second - 60)
        assert watch_health.late(second) is None


def test_the_one_that_waits_longest_is_named() -> None:
    watch_health = WatchHealth()
    watch_health.listed(LAKE, 5, now_s=0)
    watch_health.listed(POND, 5, now_s=10)
    watch_health.heard(LAKE, 5)
    assert watch_health.late(LATE) is None
    assert watch_health.late(LATE + 10) == POND


def test_nobody_waits_for_news_of_what_is_gone() -> None:
    watch_health = WatchHealth()
    watch_health.listed(LAKE, 5, now_s=0)
    watch_health.gone(LAKE)
    assert watch_health.late(LATE) is None
    # Its name is another's now, of whom nobody has heard.
    watch_health.listed(LAKE, 9, now_s=LATE)
    assert watch_health.late(LATE + JUST) is None
    assert watch_health.late(LATE + LATE) == LAKE


# --- the store -------------------------------------------------------------------------------------------


class Clock:
    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def pod(version: int, name: str = "lake-0") -> dict[str, Any]:
    labels = {"cooperator.dev/worker": "lake"}
    return {"metadata": {"namespace": "n", "name": name, "resourceVersion": str(version), "labels": labels}}


def listing(store: Store, version: int, *bodies: dict[str, Any]) -> None:
    store.replace(POD, bodies, version, among=lambda body: True)


def test_own_writes_and_lists_are_no_sign_of_life() -> None:
    clock = Clock()
    store = Store(lambda name: None, clock)
    store.put(POD, pod(5))
    listing(store, 6, pod(5))
    clock.now_s += LATE
    listing(store, 7, pod(5))
    assert store.unheard() == "no handler received the Pod n/lake-0 as it is listed for 90 s"


def test_a_handler_is_a_sign_of_life_also_when_it_brings_no_news() -> None:
    clock = Clock()
    store = Store(lambda name: None, clock)
    store.put(POD, pod(5))
    listing(store, 6, pod(5))
    store.put(POD, pod(5), watched=True)
    clock.now_s += LATE
    assert store.unheard() == ""


def test_deletions_that_were_seen_or_missed_leave_nothing_to_wait_for() -> None:
    clock = Clock()
    store = Store(lambda name: None, clock)
    listing(store, 6, pod(5), pod(6, "lake-1"))
    store.put(POD, pod(7), deleted=True, watched=True)
    listing(store, 8)
    clock.now_s += LATE
    assert store.unheard() == ""


def test_a_list_that_is_older_than_a_deletion_waits_for_nothing() -> None:
    clock = Clock()
    store = Store(lambda name: None, clock)
    store.put(POD, pod(5), watched=True)
    store.put(POD, pod(7), deleted=True, watched=True)
    listing(store, 6, pod(6))
    clock.now_s += LATE
    assert store.unheard() == ""


@given(st.data())
def test_handlers_that_receive_everything_within_a_minute_are_never_late(data: st.DataObject) -> None:
    """Objects come, change and go; each event is delivered late, in order, or (a deletion) never; lists are
    taken at any time and may arrive after later news."""
    clock = Clock()
    store = Store(lambda name: None, clock)
    real: dict[str, int] = {}
    events: list[tuple[float, dict[str, Any], bool]] = []
    lists: list[tuple[int, list[dict[str, Any]]]] = []
    version = 0
    for _ in range(data.draw(st.integers(1, 60))):
        clock.now_s += data.draw(st.sampled_from([1, 10, 40]))
        name = data.draw(st.sampled_from(["lake-0", "lake-1", "lake-2"]))
        match data.draw(st.sampled_from(["change", "delete", "list", "arrive"])):
            case "change":
                version += 1
                real[name] = version
                events.append((clock.now_s, pod(version, name), False))
            case "delete" if name in real:
                version += 1
                del real[name]
                if data.draw(st.booleans()):
                    events.append((clock.now_s, pod(version, name), True))
            case "list":
                lists.append((version, [pod(at, each) for each, at in real.items()]))
            case "arrive" if lists:
                listing(store, *_first(lists))
        while events and (clock.now_s - events[0][0] > 45 or data.draw(st.booleans())):
            _, body, deleted = events.pop(0)
            store.put(POD, body, deleted=deleted, watched=True)
        assert store.unheard() == ""


def _first(lists: list[tuple[int, list[dict[str, Any]]]]) -> tuple[Any, ...]:
    version, bodies = lists.pop(0)
    return version, *bodies


# --- the operator ----------------------------------------------------------------------------------------


def operator(folder: Path, clock: Clock) -> Operator:
    options = OperatorOptions("here", "op_1", Defaults("worker:1"), nodes=False)
    made = Operator(options, SimpleNamespace(), folder)
    made.store = Store(lambda name: None, clock)
    return made


def asked(made: Operator) -> tuple[int, str]:
    answer: Any = asyncio.run(made.answer_health(None))
    return answer.status, answer.text


def test_the_operator_says_what_it_does_not_hear(tmp_path: Path) -> None:
    clock = Clock()
    made = operator(tmp_path, clock)
    assert asked(made) == (200, "ok"), "standby replicas report healthy"
    listing(made.store, 6, pod(5))
    assert asked(made) == (200, "ok")
    clock.now_s += LATE
    assert asked(made) == (503, "no handler received the Pod n/lake-0 as it is listed for 90 s")


def test_only_handler_calls_count(tmp_path: Path) -> None:
    clock = Clock()
    made = operator(tmp_path, clock)
    [note] = [each.fn for each in registry_of(made)._watching.get_all_handlers() if each.id == "pods"]
    listing(made.store, 6, pod(5))
    asyncio.run(note(event={"type": "MODIFIED", "object": pod(5)}))  # type: ignore[call-arg]
    clock.now_s += LATE
    assert asked(made) == (200, "ok")
