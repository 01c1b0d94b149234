"""What the runtime's tests share: a listener that remembers, and settings in a scratch directory."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings as hypothesis

from cooperator.runtime import InlineRuntime, RuntimeSettings
from runtime.heard import Heard

# How long an example takes says nothing on a machine that is shared.
hypothesis.register_profile("shared machine", deadline=None)
hypothesis.load_profile("shared machine")


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
def settings(tmp_path: Path) -> RuntimeSettings:
    return RuntimeSettings(
        member="lake-0",
        incarnation="life-1",
        checkpoints=tmp_path / "checkpoints",
        state_dir=tmp_path / "state",
        journal=tmp_path / "journal.jsonl",
        env_allowed=frozenset({"ALLOWED"}),
    )


@pytest.fixture
def inline(settings: RuntimeSettings, heard: Heard) -> Iterator[InlineRuntime]:
    runtime = InlineRuntime(settings, heard)
    yield runtime
    assert runtime.close(10), "something still runs"
