"""A failing test shows how its leaders came to their states."""

from collections.abc import Generator
from typing import Any

import pytest

from tests.harness.validated_leader import ValidatedLeader

LINES = 60


@pytest.fixture(autouse=True)
def _no_leader_of_another_test() -> None:
    ValidatedLeader.latest.clear()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    report = yield
    if report.failed and call.when == "call":
        for number, machine in enumerate(ValidatedLeader.latest):
            lines = "\n".join(map(str, machine.story()[-LINES:]))
            report.sections.append((f"story of leader {number}", lines))
    return report
