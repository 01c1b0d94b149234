"""An installation for each test: its own namespace, node and operator."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from cooperator.local.broker import EmbeddedBroker
from tests.harness.installation import Installation
from tests.kubernetes.control_plane import ControlPlane
from tests.kubernetes.fixtures import make_namespace, wait_until_served

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
    with closing(Installation(prepared, namespace, broker.bootstrap_servers, tmp_path)) as installation:
        yield installation


@pytest.fixture(scope="module")
def shared(
    prepared: ControlPlane, broker: EmbeddedBroker, tmp_path_factory: pytest.TempPathFactory, file_name: str
) -> Iterator[Installation]:
    """One for all tests of a file, in a namespace with its name."""
    namespace = make_namespace(prepared, file_name)
    directory = tmp_path_factory.mktemp(file_name)
    with closing(Installation(prepared, namespace, broker.bootstrap_servers, directory)) as installation:
        yield installation
