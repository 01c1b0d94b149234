"""An installation for each test: its own namespace, node and operator."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from cooperator.local.broker import EmbeddedBroker
from tests.harness.installation import Installation
from tests.kubernetes.control_plane import ControlPlane
from tests.kubernetes.fixtures import wait_until_served

CRDS = Path(__file__).parent.parent.parent / "crds"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Runs the longest tests first."""
    items.sort(key=lambda item: item.path.name != "test_gate.py")


@pytest.fixture(scope="session")
def prepared(cluster: ControlPlane) -> ControlPlane:
    """The cluster with our kinds of resources."""
    cluster.kubectl("apply", "--server-side", "-f", str(CRDS))
    wait_until_served(cluster)
    return cluster


@pytest.fixture
def installation(
    prepared: ControlPlane, namespace: str, broker: EmbeddedBroker, tmp_path: Path
) -> Iterator[Installation]:
    installation = Installation(prepared, namespace, broker.bootstrap_servers, tmp_path)
    yield installation
    installation.close()
