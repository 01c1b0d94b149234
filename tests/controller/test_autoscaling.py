"""Replicas that somebody else sets: the scale subresource, a sawtooth on it, a real autoscaler."""

from collections import Counter
from pathlib import Path

import pytest
import yaml

from controller_scene import RESOURCES, ROOT, Scene

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]

SIX = tuple(f"a-{n}" for n in range(6))
EXAMPLE: Path = ROOT / "examples" / "kubernetes" / "autoscaler.yaml"


def started(scene: Scene, replicas: int) -> dict[str, str]:
    scene.operator()
    scene.worker(replicas=replicas)
    scene.connector("a", tasksMax=6, config={"units": 6})
    scene.runs(*SIX)
    scene.settled()
    return scene.runs(*SIX)


def scale(scene: Scene, replicas: int) -> None:
    """As an autoscaler does."""
    path = f"{RESOURCES}/{scene.namespace}/workers/lake/scale"
    scene.cluster.api.patch(path, {"spec": {"replicas": replicas}})


def is_seen(scene: Scene) -> bool:
    worker = scene.get("workers", "lake")
    return bool(worker["status"]["observedGeneration"] == worker["metadata"]["generation"])


def starts(scene: Scene) -> Counter[str]:
    return Counter(run.task for run in scene.journal.runs())


def uids(scene: Scene) -> dict[str, str]:
    return {name: pod["metadata"]["uid"] for name, pod in scene.pods().items()}


def test_the_teeth_of_a_saw_move_nothing_and_what_lasts_moves_what_it_must(scene: Scene) -> None:
    before, count, pods = started(scene, 3), starts(scene), uids(scene)
    for _ in range(6):
        # Each is seen, and taken back before it has stood for as long as a wish for fewer has to.
        for replicas in (2, 3):
            scale(scene, replicas)
            scene.eventually(lambda: is_seen(scene))
    assert scene.runs(*SIX) == before
    assert starts(scene) == count, "no task was touched"
    assert uids(scene) == pods, "no pod was touched"

    scale(scene, 2)
    scene.eventually(lambda: set(scene.pods()) == {"lake-0", "lake-1"}, 90)
    fewer = scene.runs(*SIX)
    assert (starts(scene) - count).total() == 2, "the two tasks of the one who left"
    stayed = [task for task in SIX if before[task] != "lake-2"]
    assert {task: fewer[task] for task in stayed} == {task: before[task] for task in stayed}

    scale(scene, 3)
    scene.eventually(lambda: list(scene.runs(*SIX).values()).count("lake-2") == 2, 90)
    scene.settled()
    assert (starts(scene) - count).total() == 4, "and two for the one who came"


def test_the_autoscaler_of_the_example_finds_the_worker_and_its_numbers_are_obeyed(scene: Scene) -> None:
    """Without a source of metrics it only keeps to its bounds, which is enough to see who obeys whom."""
    before = started(scene, 1)
    [example] = yaml.safe_load_all(EXAMPLE.read_text())
    example["metadata"]["namespace"] = scene.namespace
    scene.cluster.apply(example)
    assert example["spec"]["minReplicas"] == 2
    scene.eventually(lambda: scene.get("workers", "lake")["spec"]["replicas"] == 2, 90)
    scene.eventually(lambda: set(scene.pods()) == {"lake-0", "lake-1"}, 60)
    scene.eventually(lambda: sorted(Counter(scene.runs(*SIX).values()).values()) == [3, 3], 90)
    path = f"/apis/autoscaling/v2/namespaces/{scene.namespace}/horizontalpodautoscalers/lake"
    status = scene.cluster.api.get(path)["status"]
    assert status["currentReplicas"] in (1, 2)
    stayed = [task for task, at in scene.runs(*SIX).items() if at == before[task]]
    assert {starts(scene)[task] for task in stayed} == {1}
