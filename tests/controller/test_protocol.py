"""``spec.protocol`` of a Worker that runs: the group leaves rounds, returns to them, and nothing stops."""

from typing import Any

import pytest

from tests.harness.installation import SIX, Installation, started
from tests.harness.support import slow

pytestmark = pytest.mark.real


def protocol(installation: Installation) -> dict[str, Any]:
    found: dict[str, Any] = installation.get("workers", "lake")["status"].get("protocol") or {}
    return found


def speaks(installation: Installation, name: str) -> dict[str, Any]:
    """Wait until the group speaks this protocol and has settled; returns what the status says of it."""
    installation.eventually(lambda: protocol(installation).get("name") == name, 60, name)
    installation.settled()
    return protocol(installation)


@slow("env -u CI pytest tests/controller/test_protocol.py")
def test_the_protocol_is_pinned_and_left_to_the_members_while_tasks_run(installation: Installation) -> None:
    """In CI, ``tests/host/test_protocol.py`` has the status, ``tests/leader/test_reconciled.py`` the rest."""
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
