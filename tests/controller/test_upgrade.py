"""An operator that would make other members takes the place of one: nothing happens until the user asks."""

import sys
from collections.abc import Mapping
from typing import Any

import pytest

from controller_scene import Scene
from cooperator.controller.names import REVISION_LABEL
from cooperator.logs import LogsConfig, open_logs

pytestmark = pytest.mark.real

FOUR = tuple(f"a-{n}" for n in range(4))
NEXT = """
from cooperator.controller import pods

pods.RENDER_VERSION = 2
earlier = pods.template

def template(worker, defaults):
    made = earlier(worker, defaults)
    if defaults.render_version >= 2:
        made["metadata"]["annotations"]["example.com/made-by"] = "the next"
    return made

pods.template = template

from cooperator.cli import main

main()
"""
"""The operator of the release after this one: it makes members that differ."""


def upgraded(scene: Scene) -> None:
    scene.operators[-1].terminate()
    scene.operator(program=(sys.executable, "-c", NEXT), image="registry.example/cooperator:2.0")


def term(scene: Scene) -> int:
    """How often somebody has taken the lead of the group, by its own log."""
    logs = open_logs(LogsConfig(scene.bootstrap_servers, f"cooperator-{scene.namespace}-lake"))
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


def test_an_upgrade_of_the_operator_touches_nothing_until_a_version_is_asked_for(scene: Scene) -> None:
    scene.operator(image="registry.example/cooperator:1.0")
    scene.worker(replicas=2)
    scene.connector("a", tasksMax=4)
    scene.runs(*FOUR)
    scene.settled()
    before, pods, led = scene.runs(*FOUR), scene.pods(), term(scene)
    starts = len(scene.journal.runs())
    assert scene.condition("workers", "lake", "UpgradeAvailable")["status"] == "False"

    upgraded(scene)
    told = scene.eventually(
        lambda: (c := scene.condition("workers", "lake", "UpgradeAvailable"))["status"] == "True" and c, 90
    )
    assert "cooperator:1.0" in told["message"]
    assert "spec.version" in told["message"]
    # A new connector shows that it leads, and has looked at everything.
    scene.connector("b", tasksMax=1)
    running = scene.runs(*FOUR, "b-0")
    scene.settled()
    assert {task: running[task] for task in FOUR} == before
    assert len([run for run in scene.journal.runs() if run.task in FOUR]) == starts, "no task was started"
    assert uids(scene.pods()) == uids(pods), "no pod was touched"
    assert term(scene) == led + 1, "no member has led in between"

    scene.delete_pod("lake-1")
    again = scene.eventually(
        lambda: (
            (p := scene.pods().get("lake-1"))
            and p["metadata"]["uid"] != pods["lake-1"]["metadata"]["uid"]
            and p
        ),
        90,
    )
    assert made_with(again) == FIRST, "a pod that is made again is as it was"
    scene.settled()
    running, starts = scene.runs(*FOUR, "b-0"), len(scene.journal.runs())

    scene.worker(replicas=2, version="2.0")
    scene.eventually(lambda: {made_with(pod) for pod in scene.pods().values()} == {SECOND}, 120)
    scene.settled()
    assert scene.runs(*FOUR, "b-0") == running, "a roll moves nothing"
    assert len({pod["metadata"]["labels"][REVISION_LABEL] for pod in scene.pods().values()}) == 1
    assert scene.condition("workers", "lake", "UpgradeAvailable")["status"] == "False"
