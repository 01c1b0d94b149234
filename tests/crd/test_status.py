"""Statuses: size limits, and the four summary conditions that are derived from all others."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cooperator.crd import (
    Condition,
    ConditionStatus,
    Connector,
    ConnectorStatus,
    Worker,
    WorkerStatus,
    connector_conditions,
    from_object,
    merge_conditions,
    stored_conditions,
    summary_conditions,
    to_manifest,
    worker_found,
)
from cooperator.crd.conditions import connector_state
from cooperator.crd.connector import State
from cooperator.crd.status import (
    HeldTaskStatus,
    MemberStatus,
    TaskStatusEntry,
    connector_selector,
    held_summary,
    ratio,
    worker_selector,
)
from cooperator.model import TaskState
from cooperator.model.waits import Wait

TRUE, FALSE = ConditionStatus.TRUE, ConditionStatus.FALSE


def resource(kind: str, name: str = "lake", **spec: Any) -> Worker | Connector:
    meta = {"name": name, "generation": 4}
    return from_object(
        {"apiVersion": "cooperator.dev/v1alpha1", "kind": kind, "metadata": meta, "spec": spec}
    )


def connector(name: str = "sources", **spec: Any) -> Connector:
    made = resource("Connector", name, **{"workerRef": {"name": "lake"}, "class": "noop", **spec})
    assert isinstance(made, Connector)
    return made


def known(**changed: tuple[str, str] | None) -> list[Condition]:
    """A Worker's conditions, all in order except ``changed``: (status, reason); None removes a condition."""
    reported: dict[str, tuple[str, str] | None] = {
        "KafkaReachable": ("True", "Connected"),
        "Leading": ("True", "Leading"),
        "Planned": ("True", "Planned"),
        "MembersReady": ("True", "MembersReady"),
        **changed,
    }
    return [
        Condition(type=type_, status=ConditionStatus(said[0]), reason=said[1], message=f"{type_} is so")
        for type_, said in reported.items()
        if said is not None
    ]


def summary(
    conditions: list[Condition], *, settled: bool = True, problems: tuple[str, ...] = ()
) -> dict[str, Condition]:
    made = summary_conditions(conditions, generation=4, settled=settled, problems=problems)
    return {condition.type: condition for condition in made}


def trues(conditions: dict[str, Condition]) -> set[str]:
    return {type_ for type_, condition in conditions.items() if condition.status is TRUE}


# --- summaries of a Worker


def test_a_worker_that_has_all_it_needs_is_ready_and_quiet() -> None:
    made = summary(known())

    assert trues(made) == {"Ready", "Settled"}
    assert list(made) == ["Ready", "Reconciling", "Stalled", "Settled"]
    assert {condition.observed_generation for condition in made.values()} == {4}


def test_while_tasks_move_it_is_ready_and_busy() -> None:
    made = summary(known(), settled=False)

    assert trues(made) == {"Ready", "Reconciling"}
    assert made["Reconciling"].reason == "Rebalancing"


@pytest.mark.parametrize(
    ("changed", "reason", "lasting"),
    [
        ({"KafkaReachable": ("False", "Unreachable")}, "Unreachable", False),
        ({"KafkaReachable": ("Unknown", "Connecting")}, "Connecting", False),
        ({"Leading": ("False", "TakingLead")}, "TakingLead", False),
        ({"Leading": ("False", "GroupConflict")}, "GroupConflict", True),
        ({"Leading": ("False", "TopicMisconfigured")}, "TopicMisconfigured", True),
        ({"Planned": ("False", "GroupTooLarge")}, "GroupTooLarge", True),
        ({"Planned": ("False", "CannotWrite")}, "CannotWrite", False),
        ({"MembersReady": ("False", "Progressing")}, "Progressing", False),
        ({"MembersReady": ("False", "CrashLoop")}, "CrashLoop", True),
        ({"MembersReady": ("False", "RollStalled")}, "RollStalled", True),
        ({"Leading": None}, "Unknown", False),
    ],
)
def test_missing_parts_are_progressing_or_stalled(
    changed: dict[str, tuple[str, str] | None], reason: str, lasting: bool
) -> None:
    made = summary(known(**changed), settled=False)

    assert trues(made) == {"Stalled" if lasting else "Reconciling"}
    assert (made["Ready"].status, made["Ready"].reason) == (FALSE, reason)
    assert made["Stalled" if lasting else "Reconciling"].reason == reason
    (type_,) = changed
    assert type_ in made["Ready"].message


def test_the_cause_is_reported_and_not_its_consequences() -> None:
    made = summary(
        known(
            MembersReady=("False", "Progressing"),
            Leading=("False", "TakingLead"),
            KafkaReachable=("False", "Unreachable"),
        )
    )
    assert made["Ready"].reason == "Unreachable"


def test_a_refused_spec_stalls_whatever_the_other_conditions() -> None:
    made = summary(known(), problems=("spec.replicas is -1", "spec.image is 'a b'"))

    assert trues(made) == {"Stalled"}
    assert made["Stalled"].reason == "InvalidSpec"
    assert made["Ready"].message == "spec.replicas is -1; spec.image is 'a b'"


statuses = st.tuples(st.sampled_from(["True", "False", "Unknown"]), st.sampled_from(["NotReady", "Odd"]))


@given(
    st.fixed_dictionaries(
        {},
        optional={
            name: st.none() | statuses for name in ("KafkaReachable", "Leading", "Planned", "MembersReady")
        },
    ),
    st.booleans(),
    st.booleans(),
)
def test_summaries_of_any_conditions_are_consistent(
    changed: dict[str, tuple[str, str] | None], settled: bool, is_refused: bool
) -> None:
    made = summary(known(**changed), settled=settled, problems=("no",) if is_refused else ())

    said = trues(made)
    assert not {"Ready", "Stalled"} <= said
    assert not {"Reconciling", "Stalled"} <= said
    assert said & {"Ready", "Reconciling", "Stalled"}, "one summary is always true"
    if "Ready" not in said:
        assert made["Ready"].message
    assert all(condition.reason for condition in made.values())


# --- summaries of a Connector


def task(number: int, state: str, **more: Any) -> dict[str, Any]:
    name = "sources" if number < 0 else f"sources-{number}"
    return {"name": name, "task": number, "state": state, "trace": "", **more}


def connector_summary(made: Connector, *tasks: dict[str, Any], **more: Any) -> dict[str, Condition]:
    lake = resource("Worker")
    assert isinstance(lake, Worker)
    conditions = connector_conditions(made, worker_found(made, [lake]), tasks, **more)
    return {condition.type: condition for condition in conditions}


def test_a_connector_that_shares_a_directory_is_stalled_and_says_with_whom() -> None:
    made = connector_summary(connector(), withheld="spec.config: it would write to /out, as Connector a does")

    assert trues(made) == {"Stalled", "WorkerFound"}
    assert made["Ready"].reason == made["Stalled"].reason == "OutputShared"
    assert made["Stalled"].message == "spec.config: it would write to /out, as Connector a does"


def refused(number: int) -> dict[str, Any]:
    return task(number, "UNASSIGNED", reason="GroupTooLarge")


@pytest.mark.parametrize("numbers", [range(1, 9_000), range(-1, 9_000)])
@pytest.mark.parametrize("state", ["Running", "Paused"])
def test_a_connector_whose_tasks_have_no_room_in_the_group_is_stalled(state: str, numbers: range) -> None:
    rest = [task(n, state.upper()) for n in range(-1, numbers.start)]
    made = connector_summary(connector(state=state), *rest, *map(refused, numbers))

    assert trues(made) == {"Stalled", "WorkerFound"}
    assert made["Ready"].reason == made["Stalled"].reason == "GroupTooLarge"
    said = made["Stalled"].message
    assert said.startswith("the group's record at the broker has no room for sources")
    assert (
        f", sources-{numbers[2]}, …; of 9,000 tasks: {9_000 - max(numbers[0], 0):,} UNASSIGNED; raise" in said
    )
    assert "max.message.bytes of __consumer_offsets" in said
    assert "create it for another Worker" in said


@pytest.mark.parametrize(
    ("state", "tasks"),
    [
        ("Running", [task(-1, "RUNNING"), task(0, "RUNNING")]),
        ("Paused", [task(-1, "PAUSED"), task(0, "PAUSED")]),
        ("Stopped", []),
        ("Stopped", [task(-1, "STOPPED")]),
    ],
)
def test_a_connector_that_is_as_asked_is_ready(state: str, tasks: list[dict[str, Any]]) -> None:
    made = connector_summary(connector(state=state), *tasks)

    assert trues(made) == {"Ready", "WorkerFound"}
    assert made["Ready"].reason == state


@pytest.mark.parametrize(
    ("tasks", "reason", "message"),
    [
        ([], "Starting", "is not assigned yet"),
        ([task(-1, "RUNNING"), task(0, "HELD"), task(1, "RUNNING")], "Progressing", "of 2 tasks: 1 HELD"),
        (
            [task(-1, "RUNNING"), task(0, "RESTARTING", next_attempt_ms=5, trace="no such topic: a\n  at b")],
            "Progressing",
            "no such topic: a (sources-0 will be retried); of 1 task: 1 RESTARTING",
        ),
        (
            [task(-1, "RUNNING"), task(0, "STARTING", waits=(Wait("waiting for Spark to start", 0),))],
            "Progressing",
            "waiting for Spark to start (sources-0; since 1970-01-01T00:00:00Z); of 1 task: 1 STARTING",
        ),
        (
            [task(-1, "RUNNING", waits=(Wait("waiting for the topics a", 0),)), task(0, "RUNNING")],
            "Waiting",
            "waiting for the topics a (sources; since 1970-01-01T00:00:00Z)",
        ),
        ([task(-1, "STARTING"), task(0, "RUNNING")], "Progressing", "the connector's instance is STARTING"),
        (
            [task(-1, "RUNNING"), task(0, "RESTARTING", next_attempt_ms=5, trace="org.a.B$C: no room")],
            "Progressing",
            "no room (sources-0 will be retried)",
        ),
    ],
)
def test_a_connector_that_is_progressing(tasks: list[dict[str, Any]], reason: str, message: str) -> None:
    made = connector_summary(connector(), *tasks)

    assert trues(made) == {"Reconciling", "WorkerFound"}
    assert made["Ready"].reason == made["Reconciling"].reason == reason
    assert message in made["Ready"].message


@st.composite
def tasks_of_any_state(draw: st.DrawFn) -> list[dict[str, Any]]:
    made = []
    for number in range(-1, draw(st.integers(0, 4))):
        more: dict[str, Any] = {}
        if draw(st.booleans()):
            more["waits"] = (Wait("waiting for the topics a", draw(st.integers(0, 9)), draw(parts)),)
        made.append(task(number, draw(st.sampled_from([*TaskState])), **more))
    return made


parts = st.lists(st.sampled_from(["a-0", "a-1", "a-2", "a-3", "a-4"]), unique=True).map(tuple)


@given(tasks_of_any_state())
def test_nothing_that_is_shown_of_a_connector_is_better_than_its_worst_task(
    tasks: list[dict[str, Any]],
) -> None:
    made, state = connector_summary(connector(), *tasks), connector_state(State.RUNNING, tasks)
    all_run = all(task["state"] == "RUNNING" for task in tasks)
    waiting = [task for task in tasks if task.get("waits")]

    assert ("Ready" in trues(made)) == (state == "RUNNING") == (all_run and not waiting)
    assert (state == "FAILED") == any(task["state"] == "FAILED" for task in tasks)
    if "Ready" not in trues(made):
        said = made["Ready"].message
        assert said
        assert not said[0].isdigit(), "it begins with the cause"
    if all_run and waiting:
        assert state == "WAITING"
        assert made["Ready"].message.startswith("waiting for the topics a (")


def test_a_task_that_hangs_in_its_stop_is_a_condition_of_its_connector_while_it_does() -> None:
    hangs = task(0, "STOPPING", reason="Hung", trace="sources-0 (unit eu) was revoked from lake-1")
    made = connector_summary(connector(), task(-1, "RUNNING"), hangs)

    assert trues(made) == {"Reconciling", "WorkerFound", "Hung"}
    assert (made["Hung"].reason, made["Hung"].message) == ("TaskHangs", hangs["trace"])
    for over in (task(0, "RUNNING"), task(0, "HELD", reason="Hung"), task(0, "STOPPING")):
        assert "Hung" not in connector_summary(connector(), task(-1, "RUNNING"), over)


def test_permanently_failed_tasks_stall_with_the_first_words_of_the_trace() -> None:
    failed = task(1, "FAILED", trace="no such topic: lines\n  at somewhere")
    made = connector_summary(connector(), task(-1, "RUNNING"), task(0, "HELD"), failed)

    assert trues(made) == {"Stalled", "WorkerFound"}
    assert made["Stalled"].reason == "TasksFailed"
    assert "no such topic: lines (sources-1 failed for good); fix the cause" in made["Stalled"].message
    assert "at somewhere" not in made["Stalled"].message


@pytest.mark.parametrize("reason", ["InvalidOption", "InvalidQuery", "TopicMisconfigured"])
def test_a_permanent_failure_stalls_with_its_own_reason(reason: str) -> None:
    failed = task(0, "FAILED", reason=reason, trace="option 'topic': is required")
    made = connector_summary(connector(), task(-1, "RUNNING"), failed)

    assert trues(made) == {"Stalled", "WorkerFound"}
    assert made["Stalled"].reason == made["Ready"].reason == reason
    assert "option 'topic': is required" in made["Stalled"].message


def test_a_connector_without_its_worker_waits_for_it() -> None:
    made = connector_summary(connector(workerRef={"name": "pond"}))

    assert trues(made) == {"Reconciling"}
    assert made["Ready"].reason == "WorkerNotFound"


def test_a_refused_connector_stalls() -> None:
    made = connector_summary(connector(), task(-1, "RUNNING"), problems=("option 'topic' is required",))

    assert trues(made) == {"Stalled", "WorkerFound"}
    assert made["Ready"].message == "option 'topic' is required"


# --- times


def test_transition_times_are_kept_while_the_status_is_the_same() -> None:
    first = merge_conditions((), summary(known()).values(), 0)
    stored = to_manifest(connector(), ConnectorStatus(conditions=first))
    busy = merge_conditions(stored_conditions(stored), summary(known(), settled=False).values(), 60_000)

    assert {c.type: c.last_transition_time[11:19] for c in busy} == {
        "Ready": "00:00:00",
        "Reconciling": "00:01:00",
        "Stalled": "00:00:00",
        "Settled": "00:01:00",
    }


@pytest.mark.parametrize(
    "stored",
    [
        {},
        {"status": None},
        {"status": {"conditions": None}},
        {"status": {"conditions": [{"type": "Ready"}, {"type": "Ready", "status": "Maybe", "reason": "x"}]}},
    ],
)
def test_stored_values_that_are_no_conditions_are_ignored(stored: dict[str, Any]) -> None:
    assert stored_conditions(stored) == ()


# --- what fits


def members(count: int, phase: str = "Running", first: int = 0) -> list[MemberStatus]:
    return [MemberStatus(identity=f"lake-{n}", phase=phase) for n in range(first, first + count)]


def test_failing_members_are_listed_first_and_all_are_counted() -> None:
    status = WorkerStatus(members=(*members(500), *members(3, "Pending", 500)))

    assert (len(status.members), status.member_count) == (100, 503)
    assert [member.identity for member in status.members[:3]] == ["lake-500", "lake-501", "lake-502"]


def test_the_holds_that_end_first_are_listed() -> None:
    held = [
        HeldTaskStatus(
            task=f"a-{n}", identity="lake-0", until=f"2026-01-01T00:{59 - n // 4:02}:00Z", reason="Departed"
        )
        for n in range(200)
    ]
    status = WorkerStatus(held=tuple(held))

    assert (len(status.held), status.held_count) == (100, 200)
    assert status.held[0].until == "2026-01-01T00:10:00Z"


def test_few_members_are_listed_in_order() -> None:
    few = (*members(2, "Running"), *members(1, "Pending", 2))
    assert WorkerStatus(members=few).members == few


def test_failed_tasks_are_listed_first() -> None:
    tasks = [TaskStatusEntry(id=n, state="RUNNING") for n in range(300)]
    tasks[250] = TaskStatusEntry(id=250, state="FAILED", trace="root\n" + "t" * 5000 + "\nlast")
    status = ConnectorStatus(task_statuses=tuple(tasks))

    assert (status.task_statuses[0].id, len(status.task_statuses)) == (250, 100)
    assert len(status.task_statuses[0].trace) == 2048
    assert status.task_statuses[0].trace.startswith("root\n")
    assert status.task_statuses[0].trace.endswith("\nlast")


@pytest.mark.parametrize(
    ("until_ms", "text"),
    [
        ([], ""),
        ([38_000] * 4, "4, 38s"),
        ([5_000, 37_001], "2, 38s"),
        ([300_000], "1, 5m"),
        ([301_000], "1, 5m1s"),
        ([3_000_000], "1, 50m"),
        ([86_400_000], "1, 24h"),
        ([0, 0], "2, due"),
        ([-5], "1, due"),
    ],
)
def test_held_tasks_in_a_column(until_ms: list[int], text: str) -> None:
    assert held_summary(until_ms, now_ms=0) == text


def test_selectors() -> None:
    lake = resource("Worker")
    assert isinstance(lake, Worker)
    assert worker_selector(lake) == "cooperator.dev/worker=lake"
    assert connector_selector(connector()) == "cooperator.dev/connector=sources"
    one, other = (connector_selector(connector("a" * 200 + end)).partition("=")[2] for end in "xy")
    assert one != other
    assert len(one) == len(other) == 63
    assert ratio(2, 3) == "2/3"
