"""Argo CD's health check of the examples, and kstatus, read the conditions as they are meant."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cooperator.crd.conditions import (
    ConditionStatus,
    connector_conditions,
    merge_conditions,
    summary_conditions,
    worker_found,
)
from cooperator.crd.connector import State
from cooperator.crd.render import definitions
from cooperator.crd.status import ConnectorStatus, WorkerStatus
from tests.crd.test_status import connector, known, resource, task
from tests.harness.health import argo_cd, check, kstatus

DEADLINE_MS = 1_800_000_000_000
REPORTS = (
    {"state": "RUNNING"},
    {"state": "PAUSED"},
    {"state": "UNASSIGNED"},
    {"state": "HELD", "held_for": "lake-1", "held_until_ms": DEADLINE_MS},
    {"state": "RESTARTING", "next_attempt_ms": 5, "trace": "no such topic: a"},
    {"state": "STARTING", "waits_for": "PostgreSQL at db:5432"},
    {"state": "FAILED", "trace": "ValueError: no column b"},
    {"state": "STOPPING", "reason": "Hung", "trace": "sources-0 was revoked from lake-1"},
)


def body_of(status: WorkerStatus | ConnectorStatus, generation: int = 4) -> dict[str, Any]:
    return {
        "metadata": {"generation": generation},
        "status": status.model_dump(mode="json", by_alias=True, exclude_none=True),
    }


conditions = st.tuples(st.sampled_from(ConditionStatus), st.sampled_from(["NotReady", "CrashLoop", "Odd"]))


@given(
    st.dictionaries(
        st.sampled_from(["KafkaReachable", "Leading", "Planned", "MembersReady"]), st.none() | conditions
    ),
    st.booleans(),
    st.sampled_from([{}, {"problems": ("spec.replicas is -1",)}, {"deletion": "pods end: lake-0"}]),
)
def test_a_worker_is_healthy_progressing_or_degraded_as_its_conditions_say(
    changed: dict[str, Any], settled: bool, more: dict[str, Any]
) -> None:
    summary = summary_conditions(known(**changed), generation=4, settled=settled, **more)
    status = WorkerStatus(observed_generation=4, conditions=merge_conditions((), summary, 0))
    check("Worker", body_of(status))


@given(
    st.sampled_from(State),
    st.none() | st.lists(st.sampled_from(REPORTS), max_size=4),
    st.sampled_from(
        [{}, {"problems": ("no",)}, {"withheld": "shared"}, {"refused": "large"}, {"deletion": "tasks end"}]
    ),
    st.booleans(),
)
def test_a_connector_is_healthy_progressing_or_degraded_as_its_conditions_say(
    state: State, reports: list[dict[str, Any]] | None, more: dict[str, Any], has_worker: bool
) -> None:
    made = connector(state=state.value)
    workers = [resource("Worker")] if has_worker else []
    tasks = None if reports is None else [task(n - 1, **each) for n, each in enumerate(reports)]
    made_conditions = connector_conditions(made, worker_found(made, workers), tasks, **more)  # type: ignore[arg-type]
    generation = made.metadata.generation or 0
    status = ConnectorStatus(
        observed_generation=generation, conditions=merge_conditions((), made_conditions, 0)
    )
    health, message = check("Connector", body_of(status, generation))
    if more or not has_worker or reports is None:
        assert health == ("Degraded" if {*more} & {"problems", "withheld", "refused"} else "Progressing")
    elif state is not State.STOPPED and any(each["state"] == "FAILED" for each in reports):
        assert (health, message.partition(":")[0]) == ("Degraded", "TasksFailed")


def test_a_held_task_is_progressing_with_its_deadline() -> None:
    made = connector()
    tasks = [task(-1, "RUNNING"), task(0, "HELD", held_for="lake-1", held_until_ms=DEADLINE_MS)]
    lake = resource("Worker")
    made_conditions = connector_conditions(made, worker_found(made, [lake]), tasks)  # type: ignore[list-item]
    generation = made.metadata.generation or 0
    status = ConnectorStatus(
        observed_generation=generation, conditions=merge_conditions((), made_conditions, 0)
    )
    health, message = check("Connector", body_of(status, generation))
    assert health == "Progressing"
    assert "sources-0 waits for lake-1 until 2027-01-15T08:00:00Z" in message


@pytest.mark.parametrize("kind", ["Worker", "Connector"])
@pytest.mark.parametrize("status", [None, {}, {"observedGeneration": 3, "conditions": []}])
def test_a_generation_that_the_operator_has_not_seen_is_progressing(
    kind: str, status: dict[str, Any] | None
) -> None:
    body = {"metadata": {"generation": 4}, **({} if status is None else {"status": status})}
    assert argo_cd(kind, body) == ("Progressing", "the operator has not seen this generation yet")


def test_a_resource_that_no_operator_has_seen_is_in_progress_for_kstatus_too() -> None:
    for definition in definitions().values():
        [version] = definition["spec"]["versions"]
        status = version["schema"]["openAPIV3Schema"]["properties"]["status"]["default"]
        assert kstatus({"metadata": {"generation": 1}, "status": status}) == "InProgress"
