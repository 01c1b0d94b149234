"""The first end-to-end test: definitions, operator, and Spark members as pods on real kubelets."""

from collections import Counter

import pytest

from e2e.flows import committed
from e2e.node_installation import NodeNamespace
from tests.harness.support import eventually

pytestmark = [pytest.mark.real, pytest.mark.timeout(900)]


def test_data_flows_through_spark_in_restricted_pods_even_when_one_is_killed(place: NodeNamespace) -> None:
    written: Counter[str] = Counter()

    def write(files: range) -> None:
        folder = place.shared / "in"
        folder.mkdir(exist_ok=True)
        for number in files:
            lines = [f"file {number} line {line}" for line in range(50)]
            # Rename it into place, so that a visible file is complete.
            (place.shared / "new").write_text("\n".join(lines) + "\n")
            (place.shared / "new").rename(folder / f"{number}.txt")
            written.update(lines)

    write(range(20))
    topic = f"lines-{place.namespace}"
    config = {"path": "/checkpoints/in", "topic": topic, "record.value": "line"}
    place.operator()
    nobody_knows = {"spec": {"securityContext": {"runAsUser": 1_000_650_000}}}
    place.pool(replicas=2, inline=False, spark={"heapMb": 512}, template=nobody_knows)
    place.connector("source", **{"class": "files-to-kafka"}, tasksMax=2, config=config)
    place.settled()
    pods = place.pods()
    assert {name for name in pods if name.startswith("lake")} == {"lake-0", "lake-1"}
    assert place.node_of("lake-0") != place.node_of("lake-1"), "they are spread over the nodes"

    place.execute("lake-0", "kill", "-9", "--", "-1")
    write(range(20, 40))
    place.eventually(
        lambda: place.pods()["lake-0"]["status"]["containerStatuses"][0]["restartCount"] == 1, 60
    )
    place.settled()
    eventually(lambda: committed(place.bootstrap_servers, topic) == written, 180, "every line, once")
