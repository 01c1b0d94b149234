"""Two real nodes for the whole run, a broker that pods can reach, and a namespace for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

from cooperator.local.broker import EmbeddedBroker
from cooperator.local.settings import free_port
from e2e.node_installation import NodeNamespace
from e2e.release import CRDS, Helm
from tests.conftest import pytest_configure, unique
from tests.kubernetes.fixtures import (
    pytest_collection_finish,
    pytest_runtest_makereport,
    two_nodes,
    wait_until_served,
)
from tests.kubernetes.nodes import Cluster

__all__ = [
    "pytest_collection_finish",
    "pytest_configure",
    "pytest_runtest_makereport",
    "two_nodes",
    "unique",
]


class _NodesOfOne(LoadFileScheduling):
    """Runs all files of this folder in one process, since they share the nodes; other files have one each."""

    def _split_scope(self, nodeid: str) -> str:
        return "nodes" if nodeid.startswith("e2e/") else super()._split_scope(nodeid)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadFileScheduling:
    """Lets other processes run tests beside those on nodes."""
    return _NodesOfOne(config, log)


@pytest.fixture(scope="session")
def prepared(two_nodes: Cluster) -> Cluster:
    """The cluster with our resource definitions."""
    Helm(two_nodes.plane, "kube-system").install(CRDS, CRDS)
    wait_until_served(two_nodes.plane)
    return two_nodes


@pytest.fixture(scope="session")
def servers(prepared: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Kafka, at an address that this machine and every pod can reach."""
    host, port, controller = prepared.plane.host, free_port(), free_port()
    broker = EmbeddedBroker(
        tmp_path_factory.mktemp("broker"),
        port,
        overrides={
            "listeners": f"PLAINTEXT://0.0.0.0:{port},CONTROLLER://127.0.0.1:{controller}",
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "advertised.listeners": f"PLAINTEXT://{host}:{port}",
        },
    )
    broker.start()
    yield f"{host}:{port}"
    broker.kill()


@pytest.fixture
def place(prepared: Cluster, servers: str, unique: str, tmp_path: Path) -> Iterator[NodeNamespace]:
    place = NodeNamespace(prepared.plane, unique, servers, tmp_path, prepared)
    yield place
    place.close()


@pytest.fixture
def other(
    prepared: Cluster, servers: str, unique: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[NodeNamespace]:
    """A second namespace beside ``place``."""
    other = NodeNamespace(prepared.plane, f"{unique}-2", servers, tmp_path_factory.mktemp("other"), prepared)
    yield other
    other.close()
