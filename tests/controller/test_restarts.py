"""Restarts that a manifest or an annotation asks for, on the API server; counted at the members."""

from collections import Counter

import pytest

from cooperator.controller.names import RESTART
from tests.harness.installation import RESOURCES, Installation

pytestmark = pytest.mark.real

ALL = ("a-0", "a-1", "a-2", "b-0")


def starts(installation: Installation) -> Counter[str]:
    return Counter(run.task for run in installation.journal.runs())


def annotate(installation: Installation, connector: str, value: str) -> None:
    path = f"{RESOURCES}/{installation.namespace}/connectors/{connector}"
    installation.cluster.api.patch(path, {"metadata": {"annotations": {RESTART: value}}})


def restarted(installation: Installation, before: Counter[str], *tasks: str) -> None:
    """Exactly these were started once more, and by now all is calm."""
    installation.eventually(lambda: all(starts(installation)[task] > before[task] for task in tasks))
    installation.settled()
    assert starts(installation) - before == Counter(tasks)


def test_only_the_requested_items_restart(installation: Installation) -> None:
    installation.operator()
    installation.worker(replicas=2)
    installation.connector("a", tasksMax=3, config={"units": 3})
    installation.connector("b", tasksMax=1, config={"units": 1})
    installation.runs(*ALL)
    installation.settled()
    where = installation.runs(*ALL)

    before = starts(installation)
    annotate(installation, "a", "1")
    restarted(installation, before, "a-1")

    before = starts(installation)
    annotate(installation, "a", "tasks#2")
    restarted(installation, before, "a-0", "a-1", "a-2")

    before = starts(installation)
    annotate(installation, "a", "failed#3")
    installation.eventually(
        lambda: (
            "failed#3"
            in installation.get("connectors", "a")["metadata"]["annotations"]["cooperator.dev/restarted"]
        )
    )
    restarted(installation, before)

    before = starts(installation)
    installation.connector("a", tasksMax=3, config={"units": 3}, restartNonce="again")
    restarted(installation, before, "a-0", "a-1", "a-2")

    # Another operator finds it done.
    before = starts(installation)
    installation.operators[0].terminate()
    installation.operator()
    installation.eventually(lambda: "leading in term" in installation.operators[1].log.read_text())
    restarted(installation, before)
    assert installation.runs(*ALL) == where

    before = starts(installation)
    pods = {pod["metadata"]["uid"] for pod in installation.pods().values()}
    installation.worker(replicas=2, restartNonce="again")
    installation.eventually(
        lambda: (
            len(now := {pod["metadata"]["uid"] for pod in installation.pods().values()}) == 2
            and not now & pods
        ),
        180,
    )
    restarted(installation, before, *ALL)
    assert installation.runs(*ALL) == where, "a Worker's restart moves nothing"
