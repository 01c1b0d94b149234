"""Fixtures of the runtime's tests: a recording listener, and settings in a temporary directory."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from cooperator.runtime import RuntimeSettings
from cooperator.runtime.inline import InlineRuntime
from tests.runtime.heard import Heard
from tests.runtime.postgres import Postgres
from tests.runtime.registry import Registry

OWN_SPARK = {Path(__file__).with_name(f"test_{name}.py") for name in ("memory", "packages", "s3", "session")}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that start a Spark of their own come last: a process has one at a time, so that the one that all
    others share would have to start again."""
    items.sort(key=lambda item: item.path in OWN_SPARK)


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
def settings(tmp_path: Path) -> RuntimeSettings:
    return RuntimeSettings(
        member="lake-0",
        incarnation="incarnation-1",
        checkpoints=tmp_path / "checkpoints",
        state_dir=tmp_path / "state",
        journal=tmp_path / "journal.jsonl",
        env_allowed=frozenset({"ALLOWED"}),
    )


@pytest.fixture
def inline(settings: RuntimeSettings, heard: Heard) -> Iterator[InlineRuntime]:
    runtime = InlineRuntime(settings, heard)
    yield runtime
    assert runtime.close(10), "a task still runs"


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A running PostgreSQL. A test that stops it starts it again; ``unique`` names tables."""
    postgres = Postgres()
    postgres.start()
    yield postgres
    postgres.close()


@pytest.fixture(scope="session")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    """A running schema registry; ``unique`` names subjects."""
    registry = Registry(tmp_path_factory.mktemp("registry") / "log")
    yield registry
    registry.close()
