"""A front as a server on this machine."""

from collections.abc import Iterator

import pytest

from cooperator.rest.app import Server
from rest.twin import Twin


@pytest.fixture
def twin() -> Twin:
    return Twin()


@pytest.fixture
def server(twin: Twin) -> Iterator[Server]:
    server = Server(twin.front, "127.0.0.1", 0, only_here=True)
    server.start()
    yield server
    server.stop()
