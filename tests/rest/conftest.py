"""The REST API as a server on this machine."""

from collections.abc import Iterator

import pytest

from cooperator.rest.app import RestServer
from tests.rest.fake_front import FakeFront


def pytest_configure(config: pytest.Config) -> None:
    """Load the plug-in that draws requests; pyproject.toml keeps it out of processes without these tests."""
    config.pluginmanager.import_plugin("schemathesis.pytest.plugin")


@pytest.fixture
def fake() -> FakeFront:
    return FakeFront()


@pytest.fixture
def server(fake: FakeFront) -> Iterator[RestServer]:
    server = RestServer(fake.front, "127.0.0.1", 0, only_here=True)
    server.start()
    yield server
    server.stop()
