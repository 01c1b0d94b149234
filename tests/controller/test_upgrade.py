"""An operator that would make other members takes the place of one: nothing happens until the user asks."""

from collections.abc import Mapping
from typing import Any

import pytest

from cooperator.controller.names import REVISION_LABEL
from cooperator.logs import LogsConfig, open_logs
from tests.harness.installation import Installation

pytestmark = pytest.mark.real

FOUR = tuple(f"a-{n}" for n in range(4))
NEXT = """
from cooperator.controller.manifests import pods

pods.RENDER_VERSION = 2
earlier = pods.template

def template(worker, defaults):
    made = earlier(worker, defaults)
    if defaults.render_version >= 2:
        made["metadata"]["annotations"]["example.com/made-by"] = "the next"
    return made

pods.template = template
"""
"""The operator of the release after this one: it makes members that differ."""


def upgraded(installation: Installation) -> None:
    installation.operators[-1].terminate()
    installation.operator(changed_by=NEXT, image="registry.example/cooperator:2.0")


def term(installation: Installation) -> int:
    """Number of times that the group's lead was taken, from the leader log."""
    logs = open_logs(LogsConfig(installation.bootstrap_servers, f"cooperator-{installation.namespace}.lake"))
    try:
        memory = logs.leader.read_to_end(10_000).memory
    finally:
        logs.close()
    assert memory is not None
    return memory.term


def uids(pods: Mapping[str, Any]) -> dict[str, str]:
    return {name: pod["metadata"]["uid"] for name, pod in pods.items()}


def made_with(pod: Mapping[str, Any]) -> tuple[str, str]:
    return (
        pod["spec"]["containers"][0]["image"],
        pod["metadata"]["annotations"].get("example.com/made-by", "the first"),
    )


FIRST = ("registry.example/cooperator:1.0", "the first")
SECOND = ("registry.example/cooperator:2.0", "the next")


def test_an_upgrade_of_the_operator_touches_nothing_until_a_version_is_asked_for(
    installation: Installation,
) -> None:
    installation.operator(image="registry.example/cooperator:1.0")
    installation.worker(replicas=2)
    installation.connector("a", tasksMax=4)
    installation.runs(*FOUR)
    installation.settled()
    before, pods, led = installation.runs(*FOUR), installation.pods(), term(installation)
    starts = len(installation.journal.runs())
    assert installation.condition("workers", "lake", "UpgradeAvailable")["status"] == "False"

    upgraded(installation)
    reported = installation.eventually(
        lambda: (
            (c := installation.condition("workers", "lake", "UpgradeAvailable"))["status"] == "True" and c
        ),
        90,
    )
    assert "cooperator:1.0" in reported["message"]
    assert "spec.version" in reported["message"]
    # A new connector shows that it leads, and has looked at everything.
    installation.connector("b", tasksMax=1)
    running = installation.runs(*FOUR, "b-0")
    installation.settled()
    assert {task: running[task] for task in FOUR} == before
    assert len([run for run in installation.journal.runs() if run.task in FOUR]) == starts, (
        "no task was started"
    )
    assert uids(installation.pods()) == uids(pods), "no pod was touched"
    assert term(installation) == led + 1, "no member has led in between"

    installation.delete_pod("lake-1")
    again = installation.eventually(
        lambda: (
            (p := installation.pods().get("lake-1"))
            and p["metadata"]["uid"] != pods["lake-1"]["metadata"]["uid"]
            and p
        ),
        90,
    )
    assert made_with(again) == FIRST, "a pod that is made again is as it was"
    installation.settled()
    running, starts = installation.runs(*FOUR, "b-0"), len(installation.journal.runs())

    installation.worker(replicas=2, version="2.0")
    installation.eventually(lambda: {made_with(pod) for pod in installation.pods().values()} == {SECOND}, 120)
    installation.settled()
    assert installation.runs(*FOUR, "b-0") == running, "a roll moves nothing"
    assert len({pod["metadata"]["labels"][REVISION_LABEL] for pod in installation.pods().values()}) == 1
    assert installation.condition("workers", "lake", "UpgradeAvailable")["status"] == "False"
