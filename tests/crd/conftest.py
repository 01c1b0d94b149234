"""A Kubernetes API server that has the definitions of Worker and Connector."""

import pytest

from tests.crd.served import Namespace, serve
from tests.kubernetes.control_plane import ControlPlane


@pytest.fixture(scope="session")
def server(cluster: ControlPlane) -> ControlPlane:
    serve(cluster)
    return cluster


@pytest.fixture
def api(server: ControlPlane, namespace: str) -> Namespace:
    """A new, empty namespace of the server."""
    return Namespace(server, namespace)


@pytest.fixture(scope="session")
def dry(server: ControlPlane) -> Namespace:
    """A namespace in which nothing is created, for dry runs (``ask``)."""
    return Namespace(server, "default")
