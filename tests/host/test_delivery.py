"""The condition ExactlyOnce of Connectors: what their class promises, and what their Worker takes from it."""

import pytest

from cooperator.connectors import find, known_classes
from cooperator.crd import Connector, from_object
from cooperator.host.delivery import PodLocal, exactly_once


def connector(class_: str, **config: str) -> Connector:
    found = from_object(
        {
            "apiVersion": "cooperator.dev/v1alpha1",
            "kind": "Connector",
            "metadata": {"name": "a", "namespace": "default"},
            "spec": {"workerRef": {"name": "lake"}, "class": class_, "config": config},
        }
    )
    assert isinstance(found, Connector)
    return found


SOURCE = connector("files-to-kafka", topic="a", path="/b")
WITH_STATE = {"transform.sql": "SELECT DISTINCT value FROM input"}
QUERY = connector("files-to-kafka", topic="a", path="/b", **WITH_STATE)
COPY = connector("kafka-to-kafka", topics="a", topic="b")


def test_progress_that_is_lost_with_a_pod_breaks_the_promise_of_classes_with_checkpoints() -> None:
    assert exactly_once(QUERY, is_stock=False).status.value == "True"
    broken = exactly_once(QUERY, is_stock=False, local=PodLocal(checkpoints=True))
    assert (broken.status.value, broken.reason) == ("False", "LocalCheckpoints")
    assert "spec.checkpointVolume or spec.checkpointLocation" in broken.message


def test_positions_that_live_with_the_sink_need_no_checkpoints() -> None:
    of_rows = {"transform.sql": "SELECT upper(value) AS value FROM input WHERE path LIKE '%.log'"}
    table = {"connection.url": "jdbc:postgresql://db/shop", "tables": "orders", "mode": "incrementing"}
    for each in (
        COPY,
        SOURCE,
        connector("files-to-kafka", topic="a", path="/b", **of_rows),
        connector("postgres-to-kafka", **table),
    ):
        assert exactly_once(each, is_stock=False, local=PodLocal(checkpoints=True)).status.value == "True"


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT DISTINCT value FROM input",
        "SELECT value FROM input LIMIT 3",
        "SELECT a.value FROM input a JOIN input b ON a.path = b.path",
        "SELECT value FROM input UNION SELECT path FROM input",
        "SELECT value FROM input WHERE path IN (SELECT value FROM input)",
        "SELECT count(*) AS value FROM input GROUP BY path",
    ],
)
def test_a_select_whose_state_is_in_a_checkpoint_needs_it(sql: str) -> None:
    query = connector("files-to-kafka", topic="a", path="/b", **{"transform.sql": sql})
    assert exactly_once(query, False, PodLocal(checkpoints=True)).reason == "LocalCheckpoints"


def test_files_that_are_lost_with_a_pod_break_the_promise() -> None:
    local = PodLocal(directory=lambda directory: directory.startswith("/data"))
    lost = exactly_once(connector("kafka-to-files", topics="a", path="/data/out"), False, local)
    assert (lost.status.value, lost.reason) == ("False", "LocalDirectory")
    assert "writes to /data/out" in lost.message
    kept = exactly_once(connector("kafka-to-files", topics="a", path="/shared/out"), False, local)
    assert kept.status.value == "True"


@pytest.mark.parametrize("class_", known_classes())
def test_each_class_states_whether_it_needs_checkpoints(class_: str) -> None:
    assert find(class_).keeps_checkpoints == (class_ in ("spark", "files-to-kafka"))
