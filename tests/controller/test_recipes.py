"""The recipe for the adoption of a Connect cluster, as a user applies it: rows go on, and no task stops."""

from collections import Counter
from pathlib import Path

import pytest

from e2e.flows import committed
from tests.controller.test_connect import PATIENCE_S, both, somebody_elses
from tests.harness.installation import Installation
from tests.harness.recipes import FOLDER, Recipe
from tests.harness.support import eventually

pytestmark = [
    pytest.mark.real,
    pytest.mark.timeout(600),
    pytest.mark.long(
        "tests/controller/test_connect.py::test_a_group_that_others_run_is_adopted_with_its_connectors"
    ),
]


def test_a_running_connect_cluster_is_adopted_and_given_back(
    installation: Installation, tmp_path: Path
) -> None:
    with somebody_elses(installation, "adopted", tmp_path) as foreign:
        before = eventually(lambda: both(foreign.running()), PATIENCE_S)
        written = Counter(["one"])

        def write(word: str) -> None:
            lines = [f"{word} {number}" for number in range(100)]
            with (tmp_path / "lines").open("a") as file:
                file.writelines(f"{line}\n" for line in lines)
            written.update(lines)
            eventually(
                lambda: committed(installation.bootstrap_servers, f"{foreign.group_id}-lines") == written,
                60,
                "each line, once",
            )

        installation.operator()
        group = foreign.group_id
        [worker] = Recipe(FOLDER / "adoption" / "adoption.yaml").edited(
            {
                "kafka-bootstrap.kafka:9092": installation.bootstrap_servers,
                "connect-cluster": group,
                "connect-configs": foreign.config_topic,
                "connect-offsets": f"{group}-offsets",
                "connect-status": f"{group}-status",
            }
        )
        worker["metadata"]["namespace"] = installation.namespace
        installation.cluster.apply(worker)

        def adopted() -> bool:
            status = installation.get("workers", "adopted").get("status", {})
            assert [(m["identity"], m["phase"]) for m in status.get("members", ())] == [
                (foreign.name, "Adopted")
            ]
            assert status.get("adopted") == [{"name": "lines", "state": "STARTED", "tasks": 1}]
            return installation.condition("workers", "adopted", "Ready")["status"] == "True"

        installation.eventually(adopted, PATIENCE_S)
        write("led")
        assert foreign.running() == before
        installation.delete("workers", "adopted")
        installation.eventually(lambda: installation.is_gone("workers", "adopted"), 120)
        write("given back")
        assert foreign.running() == before
