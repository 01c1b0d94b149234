"""An API server that knows Workers and Connectors."""

import pytest

from tests.crd.served import Namespace, serve
from tests.kubernetes.control_plane import ControlPlane


@pytest.fixture(scope="session")
def server(cluster: ControlPlane) -> ControlPlane:
    serve(cluster)
    return cluster


@pytest.fixture
def api(server: ControlPlane, namespace: str) -> Namespace:
    """An empty namespace of it."""
    return Namespace(server, namespace)


@pytest.fixture(scope="session")
def dry(server: ControlPlane) -> Namespace:
    """A namespace in which nothing is made: for questions (``ask``)."""
    return Namespace(server, "default")
