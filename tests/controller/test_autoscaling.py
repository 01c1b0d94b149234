"""Replicas that somebody else sets: the scale subresource, a sawtooth on it, a real autoscaler."""

from collections import Counter
from pathlib import Path

import pytest
import yaml

from tests.harness.installation import RESOURCES, ROOT, Installation

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]

SIX = tuple(f"a-{n}" for n in range(6))
EXAMPLE: Path = ROOT / "examples" / "recipes" / "autoscaling" / "autoscaler.yaml"


def started(installation: Installation, replicas: int) -> dict[str, str]:
    installation.operator()
    installation.worker(replicas=replicas)
    installation.connector("a", tasksMax=6, config={"units": 6})
    installation.runs(*SIX)
    installation.settled()
    return installation.runs(*SIX)


def scale(installation: Installation, replicas: int) -> None:
    """As an autoscaler does."""
    path = f"{RESOURCES}/{installation.namespace}/workers/lake/scale"
    installation.cluster.api.patch(path, {"spec": {"replicas": replicas}})


def is_seen(installation: Installation) -> bool:
    worker = installation.get("workers", "lake")
    return bool(worker["status"]["observedGeneration"] == worker["metadata"]["generation"])


def starts(installation: Installation) -> Counter[str]:
    return Counter(run.task for run in installation.journal.runs())


def uids(installation: Installation) -> dict[str, str]:
    return {name: pod["metadata"]["uid"] for name, pod in installation.pods().items()}


def test_the_teeth_of_a_saw_move_nothing_and_a_lasting_change_moves_what_it_must(
    installation: Installation,
) -> None:
    before, count, pods = started(installation, 3), starts(installation), uids(installation)
    for _ in range(3):
        # Each is seen, and taken back before it has stood for as long as a wish for fewer has to.
        for replicas in (2, 3):
            scale(installation, replicas)
            installation.eventually(lambda: is_seen(installation))
    assert installation.runs(*SIX) == before
    assert starts(installation) == count, "no task was touched"
    assert uids(installation) == pods, "no pod was touched"

    scale(installation, 2)
    installation.eventually(lambda: set(installation.pods()) == {"lake-0", "lake-1"}, 90)
    fewer = installation.runs(*SIX)
    assert (starts(installation) - count).total() == 2, "the two tasks of the one who left"
    stayed = [task for task in SIX if before[task] != "lake-2"]
    assert {task: fewer[task] for task in stayed} == {task: before[task] for task in stayed}

    scale(installation, 3)
    installation.eventually(lambda: list(installation.runs(*SIX).values()).count("lake-2") == 2, 90)
    installation.settled()
    assert (starts(installation) - count).total() == 4, "and two for the one who came"


def test_the_autoscaler_of_the_example_finds_the_worker_and_its_numbers_are_obeyed(
    installation: Installation,
) -> None:
    """Without a source of metrics it only keeps to its bounds, which is enough to see who obeys whom."""
    before = started(installation, 1)
    [example] = yaml.safe_load_all(EXAMPLE.read_text())
    example["metadata"]["namespace"] = installation.namespace
    installation.cluster.apply(example)
    assert example["spec"]["minReplicas"] == 2
    installation.eventually(lambda: installation.get("workers", "lake")["spec"]["replicas"] == 2, 90)
    installation.eventually(lambda: set(installation.pods()) == {"lake-0", "lake-1"}, 60)
    installation.eventually(lambda: sorted(Counter(installation.runs(*SIX).values()).values()) == [3, 3], 90)
    path = f"/apis/autoscaling/v2/namespaces/{installation.namespace}/horizontalpodautoscalers/lake"
    status = installation.cluster.api.get(path)["status"]
    assert status["currentReplicas"] in (1, 2)
    stayed = [task for task, at in installation.runs(*SIX).items() if at == before[task]]
    assert {starts(installation)[task] for task in stayed} == {1}
