"""Fixtures of all tests: one broker, one Spark and one Kubernetes per run, and unique names."""

import os
import re
import signal
import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from cooperator.local.broker import EmbeddedBroker
from cooperator.supervision import threads as supervision
from tests.kubernetes.fixtures import (
    cluster,
    helm,
    namespace,
    pytest_collection_finish,
    pytest_configure,
    pytest_runtest_makereport,
    two_nodes,
)
from tests.simulation.seeds import first_fresh, name_fresh

if TYPE_CHECKING:
    from tests.runtime.spark_bench import SparkBench

__all__ = [
    "cluster",
    "helm",
    "namespace",
    "pytest_collection_finish",
    "pytest_configure",
    "pytest_runtest_makereport",
    "two_nodes",
]

# A process that a shell starts in the background ignores these signals, and so would the processes that tests
# start and end by them.
for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGQUIT, signal.SIG_DFL)):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, handler)

# JVMs of tests live for minutes at most, in which an optimizing compiler does not pay.
os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1")

# This comes before the start of processes that share the tests, so that all use the same fresh seeds.
first_fresh()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reports = [report for outcome in ("passed", "failed") for report in terminalreporter.getreports(outcome)]
    if any("tests/simulation/test_seeds.py" in report.nodeid for report in reports):
        terminalreporter.write_line(name_fresh())


@pytest.fixture(autouse=True)
def _no_death_ends_the_tests() -> Iterator[None]:
    """Disable the exit on a thread's death: commands request it in the tests' own process, and some tests
    kill threads.
    """
    supervision.of_process.on_death = lambda death: None
    yield
    supervision.of_process.on_death = lambda death: None


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    """A running broker. A test that stops it starts it again; ``unique`` names groups and topics."""
    broker = EmbeddedBroker(tmp_path_factory.mktemp("broker"))
    broker.start()
    yield broker
    broker.kill()


@pytest.fixture(scope="session")
def spark(broker: EmbeddedBroker, tmp_path_factory: pytest.TempPathFactory) -> "Iterator[SparkBench]":
    """One Spark runtime: a process has one at a time. ``unique`` names connectors and topics."""
    # Most processes of the tests run without it.
    from tests.runtime.spark_bench import spark_bench

    root = tmp_path_factory.mktemp("spark")
    with spark_bench(broker, root, allowed_files=(str(root.parent),)) as bench:
        yield bench


@pytest.fixture(scope="module")
def file_name(request: pytest.FixtureRequest) -> str:
    """A name for what all tests of a file share, legal in Kafka and in Kubernetes."""
    return str(request.module.__name__).rpartition(".")[2].removeprefix("test_").replace("_", "-")


@pytest.fixture
def unique(request: pytest.FixtureRequest) -> str:
    """A name for this test's group or topics, legal in Kafka and in Kubernetes."""
    name = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower()).strip("-")[:30].strip("-")
    return f"{name or 'test'}-{uuid.uuid4().hex[:8]}"
