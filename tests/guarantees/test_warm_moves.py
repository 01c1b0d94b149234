"""A query with state moves to a member that has learned its state, and its counts are right."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cooperator.local.broker import EmbeddedBroker
from cooperator.model import StateReplicas
from tests.guarantees.pipelines_group import PATIENCE_S, WORKERS
from tests.guarantees.stateful_group import StatefulGroup
from tests.guarantees.test_state_asked import COUNTS, LINES, Asked
from tests.harness.support import eventually

HOLD_S = 240
AT_ONCE_S = 60
"""Less than the hold, and more than a busy machine needs for a round and a start."""


@pytest.fixture
def asked(broker: EmbeddedBroker, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Asked]:
    replicas = StateReplicas(standbys=request.param, acceptable_lag_bytes=0)
    config = {**COUNTS, **replicas.settings()}
    group = StatefulGroup(broker, tmp_path, config, hold_ms=HOLD_S * 1000)
    yield Asked(group)
    group.group.close()


def learners(group: StatefulGroup) -> list[dict[str, Any]]:
    return list(group.task().get("learners", ()))


def counts_are(asked: Asked, files: int) -> None:
    eventually(
        lambda: asked.has_begun() and asked.count("k0") == 3 * files,
        PATIENCE_S,
        f"{files} files are counted, once each",
    )


def has_caught_up(group: StatefulGroup, identity: str, role: str) -> bool:
    return any(
        each["member"] == identity and each["role"] == role and each["caught_up"] for each in learners(group)
    )


def counting(asked: Asked) -> tuple[str, str]:
    """The first lines are counted; returns the member that runs the query, and the other one."""
    asked.group.feed(LINES)
    owner = asked.group.owner()
    (other,) = set(WORKERS) - {owner}
    counts_are(asked, 1)
    return owner, other


@pytest.mark.long(
    "tests/leader/test_learners.py::test_a_standby_runs_the_tasks_of_a_dead_member_in_the_next_round"
)
@pytest.mark.real
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("asked", [1], indirect=True)
def test_a_standby_goes_on_without_a_hold_when_its_member_dies(asked: Asked) -> None:
    group = asked.group
    owner, other = counting(asked)
    eventually(lambda: has_caught_up(group, other, "standby"), PATIENCE_S, f"{other} has caught up")
    began = time.monotonic()
    assert group.kill() == owner
    group.has_moved_from(owner)
    assert time.monotonic() - began < AT_ONCE_S
    group.feed(LINES)
    counts_are(asked, 2)


@pytest.mark.long(
    "tests/leader/test_learners.py::test_a_round_is_asked_for_when_the_learner_is_ready_and_not_before"
)
@pytest.mark.real
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("asked", [0], indirect=True)
def test_a_departing_member_runs_its_query_until_another_one_has_its_state(asked: Asked) -> None:
    group = asked.group
    owner, other = counting(asked)
    assert not learners(group)
    group.group.facts(group.leader, WORKERS, leaving=frozenset({owner}))
    seen: list[bool] = []

    def has_moved() -> bool:
        task = group.task()
        if task["member"] == owner:
            seen.append(has_caught_up(group, other, "warmup"))
        return task["state"] == "RUNNING" and task["member"] == other

    eventually(has_moved, PATIENCE_S, f"the task runs at {other}")
    log = (group.group.directory / f"{other}.log").read_text(errors="replace")
    assert "learning the state of counts-0" in log
    group.feed(LINES)
    counts_are(asked, 2)
