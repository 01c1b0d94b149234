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
from tests.simulation.seeds import first_fresh, name_fresh

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

# How long an example takes says more about the machine than about the code. slow every run tries new
# examples; a run that decides about a change tries the same ones again.
settings.register_profile("cooperator", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("cooperator")

# Before processes are started that share the tests: all of them look at the same fresh seeds.
first_fresh()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reports = [report for outcome in ("passed", "failed") for report in terminalreporter.getreports(outcome)]
    if any("tests/simulation/test_seeds.py" in report.nodeid for report in reports):
        terminalreporter.write_line(name_fresh())


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
