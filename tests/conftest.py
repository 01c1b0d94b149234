"""What all rooms' tests share: one broker and one Kubernetes for a run, and names nobody else uses."""

import os
import re
import signal
import uuid
from collections.abc import Iterator

import pytest
from hypothesis import settings

from cooperator.local.broker import EmbeddedBroker
from tests.kubernetes.fixtures import (
    cluster,
    helm,
    namespace,
    pytest_collection_finish,
    pytest_runtest_makereport,
    two_nodes,
)

__all__ = [
    "cluster",
    "helm",
    "namespace",
    "pytest_collection_finish",
    "pytest_runtest_makereport",
    "two_nodes",
]

# What a shell has started in the background ignores Ctrl-C, and so would all that tests start and interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# How long an example takes says more about the machine than about the code. At a desk every run tries new
# examples; a run that decides about a change tries the same ones again.
settings.register_profile("cooperator", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("cooperator")


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    """A running broker. A test that stops it starts it again; groups and topics are named by ``unique``."""
    broker = EmbeddedBroker(tmp_path_factory.mktemp("broker"))
    broker.start()
    yield broker
    broker.kill()


@pytest.fixture
def unique(request: pytest.FixtureRequest) -> str:
    """A name for this test's group or topics, legal in Kafka and in Kubernetes."""
    name = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower()).strip("-")[:30].strip("-")
    return f"{name or 'test'}-{uuid.uuid4().hex[:8]}"
