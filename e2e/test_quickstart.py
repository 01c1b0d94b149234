"""The manifests of the quick start move rows, also over the death of a pod, without any storage."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka import Producer

from cooperator.connectors.topics import ensure_topic
from e2e.flows import committed
from e2e.node_installation import NodeNamespace

pytestmark = [pytest.mark.real, pytest.mark.timeout(900)]

FOLDER = Path(__file__).parent.parent / "examples" / "quickstart"
# Of the test cluster, whose nodes are small and have no registry.
SMALL: dict[str, Any] = {"imagePullPolicy": "Never", "replicas": 2, "spark": {"heapMb": 512}}


def test_rows_arrive_once_in_both_topics_though_a_pod_dies(place: NodeNamespace) -> None:
    client: Any = {"bootstrap.servers": place.bootstrap_servers}
    written: Counter[str] = Counter()

    def produce(numbers: range) -> None:
        producer = Producer(client)
        for number in numbers:
            row = json.dumps({"id": number, "city": ("Oslo", "Lima")[number % 2], "cents": number})
            producer.produce("orders", row, str(number))
            written[row] += 1
        assert producer.flush(30) == 0

    ensure_topic(client, "orders", 4, -1)
    produce(range(500))
    place.operator()
    for path in sorted(FOLDER.glob("*.yaml")):
        for manifest in yaml.safe_load_all(path.read_text()):
            if manifest["kind"] == "Worker":
                del manifest["spec"]["resources"]
                manifest["spec"] |= SMALL
            manifest["metadata"]["namespace"] = place.namespace
            place.cluster.apply(manifest)
    place.eventually(lambda: committed(place.bootstrap_servers, "orders-copy") == written, 240)

    place.execute("lake-0", "kill", "-9", "--", "-1")
    produce(range(500, 1_000))
    oslo = Counter({row: count for row, count in written.items() if '"Oslo"' in row})
    place.eventually(lambda: committed(place.bootstrap_servers, "orders-copy") == written, 240)
    place.eventually(lambda: committed(place.bootstrap_servers, "orders-oslo") == oslo, 240)
