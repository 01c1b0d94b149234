"""The loop of a Worker on both platforms: the same conversations with processes and with pods."""

import time
from pathlib import Path
from typing import Any

import pytest

from cooperator.controller import publish
from cooperator.controller.api.client import ApiError
from cooperator.controller.platform import OUTAGE_RESYNC_S
from cooperator.crd import Connector
from cooperator.host import leader
from cooperator.host.status import connector_status
from cooperator.leader.lease_confirmation import Candidates
from tests.host.platform_harness import (
    KubernetesHarness,
    LocalHarness,
    PlatformHarness,
    connector,
    done,
    worker,
)


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leader, "_STATUS_S", 0.0)
    monkeypatch.setattr(publish, "_EVERY_S", 0.0)


@pytest.fixture(params=[LocalHarness, KubernetesHarness])
def harness(request: pytest.FixtureRequest, tmp_path: Path) -> PlatformHarness:
    made: PlatformHarness = request.param(tmp_path)
    return made


def started(harness: PlatformHarness, replicas: int) -> PlatformHarness:
    harness.ask(worker(replicas=replicas))
    harness.loop.step()
    harness.loop.step()
    harness.log.clear()
    return harness


def test_a_new_pool_is_led_then_started_and_then_left_alone(harness: PlatformHarness) -> None:
    harness.ask(worker(replicas=2))
    harness.loop.step()
    assert harness.log == ["lead", "tell", "tell", "create lake-0", "create lake-1"]
    assert harness.leader.facts_given[-1].expected == {"lake-0", "lake-1"}
    done(harness)
    for _ in range(3):
        harness.loop.step()
    assert harness.log == []


def test_connectors_are_told_when_they_change_and_only_then(harness: PlatformHarness) -> None:
    harness.ask(worker(replicas=1), connector("a"))
    for _ in range(3):
        harness.loop.step()
    assert [set(desired.connectors) for desired in harness.leader.desired] == [{"a"}]
    harness.ask(worker(replicas=1), connector("a", config={"x": "y"}))
    harness.loop.step()
    harness.loop.step()
    assert [desired.connectors["a"].config.get("x") for desired in harness.leader.desired] == [None, "y"]


def test_the_end_of_a_member_is_proven_to_the_leader_before_it_is_made_again(
    harness: PlatformHarness,
) -> None:
    started(harness, 2)
    ended = harness.members()["lake-1"]
    harness.end("lake-1")
    while "lake-1" not in harness.members():
        harness.loop.step()
        harness.now_ms += 1_000
    assert harness.log.index("tell") < harness.log.index("create lake-1")
    assert ("lake-1", ended) in {pair for facts in harness.leader.facts_given for pair in facts.ended}
    assert "lake-1" in (harness.leader.facts_given[-1].expected or ())


def test_scaled_down_it_is_announced_moved_and_only_then_told_to_end(harness: PlatformHarness) -> None:
    started(harness, 2)
    harness.ask(worker(replicas=1))
    harness.own(lake_0=3, lake_1=3)
    harness.loop.step()
    harness.now_ms += 60_000
    harness.loop.step()
    assert done(harness) == ["mark lake-1 ScaleDown"]
    assert harness.leader.facts_given[-1].leaving == {"lake-1"}
    harness.loop.step()
    assert done(harness) == []
    harness.own(lake_0=6)
    harness.loop.step()
    assert done(harness) == ["terminate lake-1"]
    harness.end("lake-1")
    for _ in range(3):
        harness.loop.step()
    assert set(harness.members()) == {"lake-0"}
    assert harness.log.count("create lake-1") == 0


def test_a_leader_that_is_not_up_to_date_is_not_believed(harness: PlatformHarness) -> None:
    started(harness, 2)
    harness.ask(worker(replicas=1))
    harness.own(lake_0=3)
    harness.stale = True
    for _ in range(3):
        harness.loop.step()
        harness.now_ms += 60_000
    assert done(harness) == []
    harness.stale = False
    harness.loop.step()
    assert done(harness) == ["mark lake-1 ScaleDown"]


def test_a_new_loop_finds_the_members_of_its_predecessor(harness: PlatformHarness) -> None:
    again = started(harness, 2).again()
    for _ in range(3):
        again.loop.step()
    assert again.log == ["lead", "tell", "tell"]
    assert again.leader.facts_given[-1].expected == {"lake-0", "lake-1"}


def test_a_new_loop_proves_ends_that_no_loop_has_seen(harness: PlatformHarness) -> None:
    started(harness, 2)
    ended = harness.members()["lake-1"]
    harness.end("lake-1")
    again = harness.again()
    for _ in range(3):
        again.loop.step()
    assert ("lake-1", ended) in again.leader.facts_given[-1].ended


def test_a_deleted_worker_ends_its_members_first(harness: PlatformHarness) -> None:
    started(harness, 2)
    harness.delete()
    harness.loop.step()
    assert (done(harness), harness.loop.done) == (["terminate lake-0", "terminate lake-1"], False)
    assert harness.leader.desired[-1].connectors == {}
    for identity in ("lake-0", "lake-1"):
        harness.end(identity)
        assert not harness.loop.done
        harness.loop.step()
    assert harness.loop.done


def test_an_orphaned_worker_is_handed_back_and_its_members_run_on(harness: PlatformHarness) -> None:
    orphan = {"runtime": "connect", "deletionPolicy": "Orphan"}
    harness.ask(worker(replicas=2, **orphan), connector("a"))
    harness.loop.step()
    harness.loop.step()
    harness.log.clear()
    harness.leader.refuses = TimeoutError("the layout is not even yet")
    harness.delete()
    harness.loop.step()
    assert (harness.log, harness.loop.done) == ([], False)
    harness.leader.refuses = None
    harness.loop.step()
    assert (harness.log, harness.loop.done, harness.loop.leader) == (["hand back"], True, None)
    assert set(harness.members()) == {"lake-0", "lake-1"}
    assert set(harness.leader.desired[-1].connectors) == {"a"}, "its tasks are not stopped"


def test_pods_of_an_orphaned_worker_are_not_collected_with_it(tmp_path: Path) -> None:
    harness = KubernetesHarness(tmp_path)
    harness.ask(worker(replicas=1, runtime="connect", deletionPolicy="Orphan"))
    harness.loop.step()
    pod = ("pods", "lake-0")
    assert (harness.is_kept(), len(harness.api.objects[pod]["metadata"]["ownerReferences"])) == (True, 1)
    harness.delete()
    harness.loop.step()
    assert (harness.is_kept(), harness.api.objects[pod]["metadata"]["ownerReferences"]) == (False, None)
    assert harness.api.objects[pod]["metadata"]["annotations"]["cooperator.dev/released"] == "lake"


def test_other_settings_need_a_new_leader_and_another_policy_does_not(harness: PlatformHarness) -> None:
    started(harness, 1)
    harness.ask(worker(replicas=1, policy="Kip415"))
    harness.loop.step()
    assert "lead" not in harness.log, "a policy changes while it leads"
    harness.ask(worker(replicas=1, rebalanceTimeoutMs=20_000))
    harness.loop.step()
    assert harness.log[:3] == ["stop", "lead", "tell"]


@pytest.mark.parametrize("error", [RecursionError("too deep"), ApiError(413, "TooLarge", "too large")])
def test_a_connector_whose_status_cannot_be_made_keeps_no_other_from_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    harness = KubernetesHarness(tmp_path)
    made = connector_status

    def status(connector: Connector, *arguments: Any, **named: Any) -> Any:
        if connector.metadata.name == "bad":
            raise error
        return made(connector, *arguments, **named)

    three = connector("a"), connector("bad"), connector("c")
    harness.ask(worker(replicas=1), *three)
    harness.loop.step()
    monkeypatch.setattr(publish, "connector_status", status)
    harness.ask(worker(replicas=1), *three)
    with pytest.raises(type(error)):
        harness.loop.step()
    seen = {
        each: harness.api.objects["connectors", each]["status"]["observedGeneration"] for each in ("a", "c")
    }
    assert seen == {"a": 2, "c": 2}


def candidates(harness: PlatformHarness) -> Candidates:
    assert harness.leader.candidates is not None
    return harness.leader.candidates


def test_who_may_join_is_everybody_who_runs_or_will_be_created(harness: PlatformHarness) -> None:
    started(harness, 2)
    assert candidates(harness).identities == {"lake-0", "lake-1"}

    harness.end("lake-1")
    harness.loop.step()
    assert candidates(harness).identities == {"lake-0", "lake-1"}, "lake-1 will be created again"

    harness.ask(worker(replicas=3))
    harness.loop.step()
    assert candidates(harness).identities == {"lake-0", "lake-1", "lake-2"}


def test_pods_are_listed_again_and_again_while_the_leader_has_no_broker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A watch may be late, and the leader must know who may join to confirm a lease."""
    harness = KubernetesHarness(tmp_path)
    now_s = 1_000.0
    monkeypatch.setattr(time, "monotonic", lambda: now_s)

    def asked_at_ms() -> int:
        harness.loop.step()
        return candidates(harness).asked_at_ms

    started(harness, 2)
    assert asked_at_ms() == 1_000_000
    now_s += OUTAGE_RESYNC_S
    assert asked_at_ms() == 1_000_000, "the watch is enough"
    harness.leader.is_silent = True
    assert asked_at_ms() == int(now_s * 1000)
    now_s += OUTAGE_RESYNC_S
    harness.api.fails_to_list = True
    assert asked_at_ms() == int((now_s - OUTAGE_RESYNC_S) * 1000), "a list that failed says nothing"
