"""``spec.protocol`` of a Worker that runs: the group leaves rounds, returns to them, and nothing stops."""

from typing import Any

import pytest

from tests.harness.installation import SIX, Installation, started

pytestmark = pytest.mark.real


def protocol(installation: Installation) -> dict[str, Any]:
    found: dict[str, Any] = installation.get("workers", "lake")["status"].get("protocol") or {}
    return found


def speaks(installation: Installation, name: str) -> dict[str, Any]:
    """Wait until the group speaks this protocol and has settled; returns what the status says of it."""
    installation.eventually(lambda: protocol(installation).get("name") == name, 60, name)
    installation.settled()
    return protocol(installation)


@pytest.mark.long(
    "tests/agent/test_reconciled_members.py::test_members_offer_rounds_only_once_the_policy_asks_for_them"
)
def test_the_protocol_is_pinned_and_left_to_the_members_while_tasks_run(installation: Installation) -> None:
    before = started(installation, replicas=2, protocol="auto")
    pods = {name: pod["metadata"]["uid"] for name, pod in installation.pods().items()}
    starts = installation.journal.starts()
    said = speaks(installation, "reconciled")
    assert said.get("reason", "") == ""
    assert said["groupEpoch"] >= said["assignmentEpoch"] > 0
    members = installation.get("workers", "lake")["status"]["members"]
    assert [(each["state"], each["epoch"] == each["targetEpoch"]) for each in members] == [
        ("STABLE", True)
    ] * 2

    for _ in range(2):
        installation.worker(replicas=2, protocol="sessioned")
        said = speaks(installation, "sessioned")
        assert said == {"name": "sessioned", "reason": "protocol: sessioned"}
        members = installation.get("workers", "lake")["status"]["members"]
        assert {(each["state"], each.get("epoch")) for each in members} == {("", None)}
        installation.worker(replicas=2, protocol="auto")
        speaks(installation, "reconciled")

    assert installation.runs(*SIX) == before
    assert installation.journal.starts() == starts, "nothing was started anew"
    assert {name: pod["metadata"]["uid"] for name, pod in installation.pods().items()} == pods
