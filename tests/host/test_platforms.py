"""The loop of a Worker on both platforms: the same conversations with processes and with pods."""

from pathlib import Path

import pytest

from cooperator.controller import publish
from cooperator.host import leader
from tests.host.worlds import KubernetesWorld, LocalWorld, World, connector, done, worker


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leader, "_STATUS_S", 0.0)
    monkeypatch.setattr(publish, "_EVERY_S", 0.0)


@pytest.fixture(params=[LocalWorld, KubernetesWorld])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> World:
    made: World = request.param(tmp_path)
    return made


def started(world: World, replicas: int) -> World:
    world.ask(worker(replicas=replicas))
    world.loop.step()
    world.loop.step()
    world.log.clear()
    return world


def test_a_new_pool_is_led_then_started_and_then_left_alone(world: World) -> None:
    world.ask(worker(replicas=2))
    world.loop.step()
    assert world.log == ["lead", "tell", "tell", "create lake-0", "create lake-1"]
    assert world.leader.told[-1].expected == {"lake-0", "lake-1"}
    done(world)
    for _ in range(3):
        world.loop.step()
    assert world.log == []


def test_connectors_are_told_when_they_change_and_only_then(world: World) -> None:
    world.ask(worker(replicas=1), connector("a"))
    for _ in range(3):
        world.loop.step()
    assert [set(told.connectors) for told in world.leader.desired] == [{"a"}]
    world.ask(worker(replicas=1), connector("a", config={"x": "y"}))
    world.loop.step()
    world.loop.step()
    assert [told.connectors["a"].config.get("x") for told in world.leader.desired] == [None, "y"]


def test_the_end_of_a_member_is_proven_to_the_leader_before_it_is_made_again(world: World) -> None:
    started(world, 2)
    ended = world.members()["lake-1"]
    world.end("lake-1")
    while "lake-1" not in world.members():
        world.loop.step()
        world.now_ms += 1_000
    assert world.log.index("tell") < world.log.index("create lake-1")
    assert ("lake-1", ended) in {pair for told in world.leader.told for pair in told.ended}
    assert "lake-1" in (world.leader.told[-1].expected or ())


def test_scaled_down_it_is_announced_moved_and_only_then_told_to_end(world: World) -> None:
    started(world, 2)
    world.ask(worker(replicas=1))
    world.own(lake_0=3, lake_1=3)
    world.loop.step()
    world.now_ms += 60_000
    world.loop.step()
    assert done(world) == ["mark lake-1 ScaleDown"]
    assert world.leader.told[-1].leaving == {"lake-1"}
    world.loop.step()
    assert done(world) == []
    world.own(lake_0=6)
    world.loop.step()
    assert done(world) == ["terminate lake-1"]
    world.end("lake-1")
    for _ in range(3):
        world.loop.step()
    assert set(world.members()) == {"lake-0"}
    assert world.log.count("create lake-1") == 0


def test_a_leader_that_is_not_up_to_date_is_not_believed(world: World) -> None:
    started(world, 2)
    world.ask(worker(replicas=1))
    world.own(lake_0=3)
    world.stale = True
    for _ in range(3):
        world.loop.step()
        world.now_ms += 60_000
    assert done(world) == []
    world.stale = False
    world.loop.step()
    assert done(world) == ["mark lake-1 ScaleDown"]


def test_a_new_loop_finds_the_members_of_its_predecessor(world: World) -> None:
    again = started(world, 2).again()
    for _ in range(3):
        again.loop.step()
    assert again.log == ["lead", "tell", "tell"]
    assert again.leader.told[-1].expected == {"lake-0", "lake-1"}


def test_a_new_loop_proves_ends_that_no_loop_has_seen(world: World) -> None:
    started(world, 2)
    ended = world.members()["lake-1"]
    world.end("lake-1")
    again = world.again()
    for _ in range(3):
        again.loop.step()
    assert ("lake-1", ended) in again.leader.told[-1].ended


def test_a_deleted_worker_ends_its_members_first(world: World) -> None:
    started(world, 2)
    world.delete()
    world.loop.step()
    assert (done(world), world.loop.done) == (["terminate lake-0", "terminate lake-1"], False)
    assert world.leader.desired[-1].connectors == {}
    for identity in ("lake-0", "lake-1"):
        world.end(identity)
        assert not world.loop.done
        world.loop.step()
    assert world.loop.done


def test_an_orphaned_worker_is_handed_back_and_its_members_run_on(world: World) -> None:
    orphan = {"runtime": "connect", "deletionPolicy": "Orphan"}
    world.ask(worker(replicas=2, **orphan), connector("a"))
    world.loop.step()
    world.loop.step()
    world.log.clear()
    world.leader.refuses = TimeoutError("the layout is not even yet")
    world.delete()
    world.loop.step()
    assert (world.log, world.loop.done) == ([], False)
    world.leader.refuses = None
    world.loop.step()
    assert (world.log, world.loop.done, world.loop.leader) == (["hand back"], True, None)
    assert set(world.members()) == {"lake-0", "lake-1"}
    assert set(world.leader.desired[-1].connectors) == {"a"}, "its tasks are not stopped"


def test_pods_of_an_orphaned_worker_are_not_collected_with_it(tmp_path: Path) -> None:
    world = KubernetesWorld(tmp_path)
    world.ask(worker(replicas=1, runtime="connect", deletionPolicy="Orphan"))
    world.loop.step()
    pod = ("pods", "lake-0")
    assert (world.is_kept(), len(world.api.objects[pod]["metadata"]["ownerReferences"])) == (True, 1)
    world.delete()
    world.loop.step()
    assert (world.is_kept(), world.api.objects[pod]["metadata"]["ownerReferences"]) == (False, None)


def test_other_settings_need_a_new_leader_and_another_policy_does_not(world: World) -> None:
    started(world, 1)
    world.ask(worker(replicas=1, policy="Kip415"))
    world.loop.step()
    assert "lead" not in world.log, "a policy changes while it leads"
    world.ask(worker(replicas=1, rebalanceTimeoutMs=20_000))
    world.loop.step()
    assert world.log[:3] == ["stop", "lead", "tell"]
