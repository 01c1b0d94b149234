"""Restarts that a manifest or an annotation asks for, on the API server; counted at the members."""

from collections import Counter

import pytest

from controller_scene import RESOURCES, Scene
from cooperator.controller.names import RESTART

pytestmark = pytest.mark.real

ALL = ("a-0", "a-1", "a-2", "b-0")


def starts(scene: Scene) -> Counter[str]:
    return Counter(run.task for run in scene.journal.runs())


def annotate(scene: Scene, connector: str, value: str) -> None:
    path = f"{RESOURCES}/{scene.namespace}/connectors/{connector}"
    scene.cluster.api.patch(path, {"metadata": {"annotations": {RESTART: value}}})


def restarted(scene: Scene, before: Counter[str], *tasks: str) -> None:
    """Exactly these were started once more, and by now all is calm."""
    scene.eventually(lambda: all(starts(scene)[task] > before[task] for task in tasks))
    scene.settled()
    assert starts(scene) - before == Counter(tasks)


def test_what_is_asked_for_restarts_and_nothing_else(scene: Scene) -> None:
    scene.operator()
    scene.worker(replicas=2)
    scene.connector("a", tasksMax=3, config={"units": 3})
    scene.connector("b", tasksMax=1, config={"units": 1})
    scene.runs(*ALL)
    scene.settled()
    where = scene.runs(*ALL)

    before = starts(scene)
    annotate(scene, "a", "1")
    restarted(scene, before, "a-1")

    before = starts(scene)
    annotate(scene, "a", "tasks#2")
    restarted(scene, before, "a-0", "a-1", "a-2")

    before = starts(scene)
    annotate(scene, "a", "failed#3")
    scene.eventually(
        lambda: (
            "failed#3" in scene.get("connectors", "a")["metadata"]["annotations"]["cooperator.dev/restarted"]
        )
    )
    restarted(scene, before)

    before = starts(scene)
    scene.connector("a", tasksMax=3, config={"units": 3}, restartNonce="again")
    restarted(scene, before, "a-0", "a-1", "a-2")

    # Another operator finds it done.
    before = starts(scene)
    scene.operators[0].terminate()
    scene.operator()
    scene.eventually(lambda: "leading in term" in scene.operators[1].log.read_text())
    restarted(scene, before)
    assert scene.runs(*ALL) == where

    before = starts(scene)
    pods = {pod["metadata"]["uid"] for pod in scene.pods().values()}
    scene.worker(replicas=2, restartNonce="again")
    scene.eventually(
        lambda: len(now := {pod["metadata"]["uid"] for pod in scene.pods().values()}) == 2 and not now & pods,
        180,
    )
    restarted(scene, before, *ALL)
    assert scene.runs(*ALL) == where, "a Worker's restart moves nothing"
