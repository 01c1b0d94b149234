"""One member is partitioned from the broker, the leader and all others: its lease stops its tasks in time."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from cooperator.local.broker import EmbeddedBroker
from cooperator.local.settings import free_port
from tests.harness.member_group import MemberGroup
from tests.harness.network import Network, missing, network
from tests.harness.support import eventually

pytestmark = [pytest.mark.real, pytest.mark.skipif(bool(missing()), reason=missing())]

WORKERS = ("w-0", "w-1", "w-2")
ALL = tuple(f"a-{number}" for number in range(6))
LEASE_MS = 12_000


@pytest.fixture
def cable() -> Iterator[Network]:
    with network() as made:
        yield made


@pytest.fixture
def group(cable: Network, tmp_path: Path, unique: str) -> Iterator[MemberGroup]:
    """A group whose connections to the broker pass the cable."""
    port = free_port()
    controller = free_port()
    listeners = f"PLAINTEXT://0.0.0.0:{port},CONTROLLER://127.0.0.1:{controller}"
    overrides = {
        "listeners": listeners,
        "advertised.listeners": f"PLAINTEXT://{cable.here}:{port}",
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
    }
    broker = EmbeddedBroker(tmp_path / "broker", port=port, overrides=overrides)
    broker.start()
    group = MemberGroup(f"{cable.here}:{port}", tmp_path, unique)
    yield group
    group.close()
    broker.kill()


def test_a_partitioned_member_has_stopped_before_its_tasks_start_elsewhere_and_rejoins(
    group: MemberGroup, cable: Network
) -> None:
    leader = group.leader(
        {"a": {"connector.class": "noop", "tasks.max": "6", "units": "6"}},
        WORKERS,
        # There are no holds: only the lease keeps the tasks from running twice.
        policy={"scheduled_rebalance_max_delay_ms": 0, "lease_ms": LEASE_MS},
        rebalance_timeout_ms=8_000,
        host=cable.here,
    )
    group.member("w-0", listen=f"{cable.here}:0", rebalance_timeout_ms="8000")
    group.member("w-1", listen=f"{cable.here}:0", rebalance_timeout_ms="8000")
    group.member("w-2", inside=cable.inside, listen=f"{cable.there}:0", rebalance_timeout_ms="8000")
    group.runs(*ALL)
    eventually(lambda: leader.status()["settled"], 60, "the group is at rest")
    group.journal.at_rest()
    before, lost = group.journal.running(), group.journal.running_at("w-2")
    assert len(lost) == 2

    cable.cut()
    eventually(lambda: set(group.journal.running().values()) == {"w-0", "w-1"}, 90, "its tasks run elsewhere")
    after = group.runs(*ALL)
    assert {task for task in ALL if after[task] != before[task]} == lost
    assert group.journal.starts(*(set(ALL) - lost)) == len(ALL) - len(lost), "the other tasks are untouched"
    for task in lost:
        [cut_off, moved] = [run for run in group.journal.counted() if run.task == task]
        assert (cut_off.member, moved.member != "w-2") == ("w-2", True)
        assert cut_off.end_ms is not None, "the member stopped on its own, since nothing could reach it"
        assert cut_off.end_ms < moved.start_ms

    cable.restore()
    eventually(lambda: len(group.journal.running_at("w-2")) == 2, 90, "it has its part again")
    group.runs(*ALL)
    assert len([run for run in group.journal.runs() if run.member == "w-2"]) == 4
