"""Tables and what they are made of."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cooperator.crd import parse
from cooperator.crd.status import timestamp
from cooperator.host.status import WorkerFacts
from cooperator.local.members import ProcessIncarnation
from cooperator.local.store import Stored
from cooperator.local.view import state_view, unknown_view
from cooperator.model.visible import visible_line
from cooperator.pool import Report, ReportReason
from cooperator.terminal import tables

NOW = 1_700_000_100_000
STORED = Stored(
    parse(
        """
apiVersion: cooperator.dev/v1alpha1
kind: Worker
metadata: {name: lake, creationTimestamp: "2023-11-14T22:13:20Z"}
spec: {replicas: 2}
---
apiVersion: cooperator.dev/v1alpha1
kind: Connector
metadata: {name: sources, creationTimestamp: "2023-11-14T22:13:20Z"}
spec: {workerRef: {name: lake}, class: files-to-kafka, tasksMax: 2}
---
apiVersion: cooperator.dev/v1alpha1
kind: Connector
metadata: {name: strays, creationTimestamp: "2023-11-14T22:13:20Z"}
spec: {workerRef: {name: laek}, class: noop}
""",
        "test.yaml",
    )
)


def task(name: str, number: int, state: str, member: str | None, **more: Any) -> dict[str, Any]:
    return {
        "name": name if number < 0 else f"{name}-{number}",
        "connector": name,
        "task": number,
        "state": state,
        "member": member,
        "at_ms": NOW - 10_000,
        "progress": "",
        "trace": "",
        **more,
    }


def member(identity: str, incarnation: str, *owned: str) -> dict[str, Any]:
    return {
        "identity": identity,
        "incarnation": incarnation,
        "owned": list(owned),
        "stopping": [],
        "draining": False,
        "runtime": "Warm",
    }


LEADER: dict[str, Any] = {
    "leading": True,
    "known": True,
    "generation": 7,
    "protocol": "reconciled",
    "reconciliation": {
        "epoch": 12,
        "assignment_epoch": 11,
        "settled": False,
        "members": {"lake-0": {"state": "UNREVOKED_TASKS", "epoch": 10, "target_epoch": 11}},
    },
    "members": [member("lake-0", "inc0", "sources", "sources-0"), member("lake-1", "earlier", "sources-1")],
    "tasks": [
        task("sources", -1, "RUNNING", "lake-0", progress='{"units": 8, "tasks": 2}'),
        task(
            "sources", 0, "RUNNING", "lake-0", epoch="2.7", progress='{"rows_in": 12345, "rows_per_s": 7.6}'
        ),
        task(
            "sources", 1, "HELD", None, held_for="lake-1", held_until_ms=NOW + 41_000, held_reason="Departed"
        ),
    ],
    "rebalances": [
        {"generation": 7, "at_ms": NOW, "cause": "members changed", "assigned": 0, "revoked": 0, "moved": 0}
    ],
    "conditions": [
        {"type": "Leading", "status": "True", "reason": "Leading", "message": "", "since_ms": NOW},
        {"type": "KafkaReachable", "status": "True", "reason": "Connected", "message": "", "since_ms": NOW},
    ],
}
SEEN = WorkerFacts(
    incarnations={
        "lake-0": ProcessIncarnation("lake-0", "inc0", "r", NOW - 90_000, pid=11),
        "lake-1": ProcessIncarnation("lake-1", "inc1", "r", NOW - 3_000, pid=12, restarts=1),
    },
    leader=LEADER,
    reports=(Report(ReportReason.CRASH_LOOP, "lake-1", "lake-1 crashed"),),
)


@pytest.fixture
def view() -> dict[str, Any]:
    return state_view(STORED, {("default", "lake"): SEEN}, NOW)


def lines(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.split("   ") if cell.strip()] for line in text.split("\n")]


def test_workers(view: dict[str, Any]) -> None:
    assert lines(tables.workers_table(view["workers"], NOW)) == [
        ["NAME", "MEMBERS", "TASKS", "HELD", "PROTOCOL", "STATE", "AGE", "MESSAGE"],
        ["lake", "1/2", "1/2", "1", "reconciled", "CrashLoop", "100s", "lake-1 crashed"],
    ]


@pytest.mark.parametrize(
    ("text", "status", "reason", "message"),
    [
        ("class: kafka-to-kafka, config: {topics: a, topic: b}", "True", "ExactlyOnce", "read_committed"),
        ("class: kafka-to-files, config: {topics: a, path: /b}", "True", "ExactlyOnce", "_cooperator"),
        (
            "class: spark, config: {source.format: rate, sink.format: console}",
            "False",
            "AtLeastOnce",
            "again",
        ),
        ("class: kafka-to-kafka, config: {topics: a}", "Unknown", "DeliveryUnknown", "refuses its options"),
        ("class: nothing", "Unknown", "DeliveryUnknown", "The guarantee of class nothing is unknown"),
    ],
)
def test_a_connector_says_how_often_its_records_arrive(
    text: str, status: str, reason: str, message: str
) -> None:
    manifest = "apiVersion: cooperator.dev/v1alpha1\nkind: Connector\nmetadata: {name: a}\n"
    stored = Stored(parse(f"{manifest}spec: {{workerRef: {{name: lake}}, {text}}}", "test.yaml"))
    conditions = state_view(stored, {}, NOW)["connectors"][0]["status"]["conditions"]
    found = next(condition for condition in conditions if condition["type"] == "ExactlyOnce")
    assert (found["status"], found["reason"]) == (status, reason)
    assert message in found["message"]


def test_connectors_and_one_whose_worker_is_missing(view: dict[str, Any]) -> None:
    header, sources, strays = lines(tables.connectors_table(view["connectors"], NOW))
    assert header[:5] == ["NAME", "WORKER", "CLASS", "TASKS", "STATE"]
    assert sources == [
        "sources",
        "lake",
        "files-to-kafka",
        "1/2",
        "HELD",
        "100s",
        "sources-1 waits for lake-1 until 2023-11-14T22:15:41Z at the latest; of 2 tasks: 1 HELD",
    ]
    assert strays[4] == "WorkerNotFound"
    assert "did you mean 'lake'?" in strays[6]


def test_tasks_with_a_hold(view: dict[str, Any]) -> None:
    assert lines(tables.tasks_table(view["tasks"], NOW)) == [
        ["NAME", "STATE", "MEMBER", "HELD-FOR", "HELD-UNTIL", "EPOCH", "REPORTED", "PROGRESS"],
        ["sources", "RUNNING", "lake-0", "<none>", "<none>", "<none>", "10s", "8 units in 2 tasks"],
        ["sources-0", "RUNNING", "lake-0", "<none>", "<none>", "2.7", "10s", "12,345 rows, 8/s"],
        ["sources-1", "HELD", "<none>", "lake-1", "in 41s", "<none>", "10s"],
    ]


def test_a_connector_without_room_in_the_group_names_the_remedy(view: dict[str, Any]) -> None:
    refused = [task("sources", n, "UNASSIGNED", None, reason="GroupTooLarge") for n in (-1, 0)]
    view = state_view(STORED, {("default", "lake"): replace(SEEN, leader={**LEADER, "tasks": refused})}, NOW)
    _, sources, _ = lines(tables.connectors_table(view["connectors"], NOW))
    assert sources[-1].startswith(
        "the group's record at the broker has no room for sources, sources-0; of 1 "
    )
    assert "raise max.message.bytes of __consumer_offsets" in sources[-1]
    assert [s["reason"] for s in view["connectors"][0]["status"]["taskStatuses"]] == ["GroupTooLarge"] * 2


def test_tasks_that_failed(view: dict[str, Any]) -> None:
    waits = task(
        "sources", 0, "RESTARTING", "lake-0", trace="no disk\nat line 1", next_attempt_ms=NOW + 9_500
    )
    failed = task("sources", 1, "FAILED", "lake-0", trace="no disk\nat line 1", reason="RestartLimit")
    view = state_view(
        STORED, {("default", "lake"): replace(SEEN, leader={**LEADER, "tasks": [waits, failed]})}, NOW
    )
    [_, first, second] = lines(tables.tasks_table(view["tasks"], NOW))
    assert (first[1], first[-1]) == ("RESTARTING", "next attempt in 10s: no disk")
    assert (second[1], second[-1]) == ("FAILED", "no disk")
    statuses = view["connectors"][0]["status"]["taskStatuses"]
    assert [(s["state"], s["reason"], s["nextAttempt"]) for s in statuses] == [
        ("RESTARTING", "", timestamp(NOW + 9_500)),
        ("FAILED", "RestartLimit", ""),
    ]


def test_a_member_whose_former_incarnation_the_group_still_has_is_pending(view: dict[str, Any]) -> None:
    assert lines(tables.members_table(view["members"], NOW)) == [
        ["NAME", "WORKER", "PHASE", "TASKS", "STATE", "EPOCH", "TARGET", "RESTARTS", "PID", "AGE", "MESSAGE"],
        ["lake-0", "lake", "Running", "2", "UNREVOKED_TASKS", "10", "11", "0", "11", "90s"],
        ["lake-1", "lake", "Pending", "0", "?", "?", "?", "1", "12", "3s", "lake-1 crashed"],
    ]


def test_members_have_no_epochs_in_rounds_and_none_that_may_be_out_of_date() -> None:
    for said in ({"reconciliation": None, "protocol": "sessioned"}, {"stale": True}):
        view = state_view(STORED, {("default", "lake"): replace(SEEN, leader={**LEADER, **said})}, NOW)
        assert "EPOCH" not in tables.members_table(view["members"], NOW)


@pytest.mark.parametrize(
    ("protocol", "words"),
    [
        (None, "protocol unknown: no leader reports it now"),
        (
            {"name": "sessioned", "reason": "lake-3 offers rounds only"},
            "protocol sessioned: lake-3 offers rounds only",
        ),
        (
            {"name": "reconciled", "reason": "", "groupEpoch": 12, "assignmentEpoch": 11},
            "protocol reconciled: group epoch 12, assignment epoch 11",
        ),
    ],
)
def test_the_protocol_in_words(protocol: dict[str, Any] | None, words: str) -> None:
    assert tables.protocol_words(protocol) == words


def test_a_member_that_left_for_good_is_not_shown_and_one_that_will_be_back_is() -> None:
    gone = {
        f"lake-{n}": ProcessIncarnation(f"lake-{n}", f"i{n}", "r", NOW, ended_ms=NOW, removed=True)
        for n in (0, 1)
    }
    seen = WorkerFacts(gone, expected=frozenset({"lake-0"}))
    [row] = state_view(STORED, {("default", "lake"): seen}, NOW)["members"]
    assert (row["name"], row["phase"]) == ("lake-0", "Ended")


@pytest.mark.parametrize(
    "incarnation",
    [
        ProcessIncarnation("lake-0", "inc0", "r", NOW - 90_000, ended_ms=NOW - 1_000),
        ProcessIncarnation("lake-0", "inc0", "r", NOW - 90_000, ended_ms=NOW - 1_000, removed=True),
        ProcessIncarnation("lake-0", "next", "r", NOW - 1_000, pid=13, past=("inc0",)),
    ],
)
def test_tasks_of_a_dead_incarnation_are_held_from_its_death_on_not_from_the_next_round(
    incarnation: ProcessIncarnation,
) -> None:
    seen = WorkerFacts(
        {"lake-0": incarnation, "lake-1": ProcessIncarnation("lake-1", "earlier", "r", 1, pid=1)}, LEADER
    )
    view = state_view(STORED, {("default", "lake"): seen}, NOW)
    states = {task["name"]: (task["state"], task.get("held_for"), task["member"]) for task in view["tasks"]}
    assert states == dict.fromkeys(("sources", "sources-0"), ("HELD", "lake-0", None)) | {
        "sources-1": ("HELD", "lake-1", None)
    }
    assert view["tasks"][0]["held_until_ms"] == NOW - 1_000 + 300_000
    assert view["workers"][0]["status"]["tasks"]["held"] == 2


def test_a_worker_says_what_is_not_as_it_should_be() -> None:
    unreachable = {
        "type": "KafkaReachable",
        "status": "False",
        "reason": "Unreachable",
        "message": "127.0.0.1:1 does not answer",
        "since_ms": NOW,
    }
    down = {**LEADER["conditions"][0], "status": "False"}
    leader = {**LEADER, "members": [], "conditions": [down, unreachable]}
    view = state_view(STORED, {("default", "lake"): WorkerFacts(leader=leader)}, NOW)
    [worker] = view["workers"]
    assert tables.worker_state(worker) == "Unreachable"
    assert "127.0.0.1:1 does not answer" in tables.workers_table([worker], NOW)
    assert {c["type"]: c["status"] for c in worker["status"]["conditions"]} == {
        "KafkaReachable": "False",
        "Leading": "False",
        "MembersReady": "False",
        "Ready": "False",
        # A broker may come back by itself.
        "Reconciling": "True",
        "Stalled": "False",
        "Settled": "False",
    }


def test_a_plan_that_is_not_as_asked_is_the_state_of_its_worker() -> None:
    warned = {
        "type": "PlannedAsAsked",
        "status": "False",
        "reason": "PlanWarning",
        "message": "assignor 'Mine' is not installed here",
        "since_ms": NOW,
    }
    leader = {**LEADER, "conditions": [*LEADER["conditions"], warned]}
    [worker] = state_view(STORED, {("default", "lake"): WorkerFacts({}, leader)}, NOW)["workers"]
    assert tables.worker_state(worker) == "PlanWarning"
    assert "assignor 'Mine' is not installed here" in tables.workers_table([worker], NOW)


@pytest.mark.parametrize("kind", ["Unfenced", "Hung", "EagerProtocol", "UnsignedRequests"])
@pytest.mark.parametrize("status", ["True", "False"])
def test_a_condition_that_is_bad_when_true_is_shown_when_true(kind: str, status: str) -> None:
    said = {"type": kind, "status": status, "reason": "Said", "message": "do this", "since_ms": NOW}
    leader = {**LEADER, "conditions": [*LEADER["conditions"], said]}
    [worker] = state_view(STORED, {("default", "lake"): WorkerFacts({}, leader)}, NOW)["workers"]
    assert (tables.worker_state(worker) == "Said") is (status == "True")
    assert ("do this" in tables.workers_table([worker], NOW)) is (status == "True")


def test_a_worker_is_ready_when_all_its_members_are() -> None:
    incarnations = {f"lake-{n}": ProcessIncarnation(f"lake-{n}", f"inc{n}", "r", NOW, pid=1) for n in (0, 1)}
    leader = {**LEADER, "members": [member("lake-0", "inc0"), member("lake-1", "inc1")]}
    half = {**LEADER, "members": [member("lake-0", "inc0")]}
    for group, state in ((leader, "Ready"), (half, "Progressing")):
        view = state_view(STORED, {("default", "lake"): WorkerFacts(incarnations, group)}, NOW)
        assert tables.worker_state(view["workers"][0]) == state


@pytest.mark.parametrize(
    ("runtime", "phase", "message", "state"),
    [
        ("Warm", "Running", "", "Ready"),
        ("Warming", "Warming", "its runtime is starting", "Progressing"),
        ("Stalled", "Stalled", "its runtime failed to start (see its log)", "Progressing"),
    ],
)
def test_a_member_is_ready_when_its_runtime_is_up(runtime: str, phase: str, message: str, state: str) -> None:
    incarnations = {f"lake-{n}": ProcessIncarnation(f"lake-{n}", f"inc{n}", "r", NOW, pid=1) for n in (0, 1)}
    slow = {**member("lake-1", "inc1"), "runtime": runtime}
    leader = {**LEADER, "members": [member("lake-0", "inc0"), slow]}
    shown = state_view(STORED, {("default", "lake"): WorkerFacts(incarnations, leader)}, NOW)
    assert shown["members"][1]["phase"] == phase
    assert shown["members"][1]["message"].startswith(message)
    assert tables.worker_state(shown["workers"][0]) == state
    of_worker = tables.workers_table(shown["workers"], NOW)
    assert ("lake-1: its runtime failed to start" in of_worker) == (runtime == "Stalled")


def test_without_a_daemon_states_are_unknown(tmp_path: Path) -> None:
    view = unknown_view(STORED, NOW)
    assert lines(tables.workers_table(view["workers"], NOW))[1][:6] == [
        "lake",
        "?/2",
        "?",
        "?",
        "?",
        "Unknown",
    ]
    assert lines(tables.connectors_table(view["connectors"], NOW))[1][3:5] == ["?", "Unknown"]


def test_a_namespace_is_shown_when_there_is_more_than_one() -> None:
    other = parse(
        "{apiVersion: cooperator.dev/v1alpha1, kind: Worker, metadata: {name: pond, namespace: data}}", "t"
    )
    view = unknown_view(Stored((*STORED.workers, *other)), NOW)
    assert lines(tables.workers_table(view["workers"], NOW))[1:] == [
        ["default", "lake", "?/2", "?", "?", "?", "Unknown", "100s"],
        ["data", "pond", "?/1", "?", "?", "?", "Unknown", "<none>"],
    ]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (119, "119s"), (120, "2m"), (185, "3m5s"), (600, "10m"), (10_800, "3h"), (200_000, "2d")],
)
def test_age_is_written_as_kubectl_does(seconds: int, text: str) -> None:
    assert tables.age(NOW - seconds * 1000, NOW) == text


@given(st.lists(st.tuples(st.text(max_size=9), st.text(max_size=9)), max_size=5))
def test_columns_stand_below_their_headers_whatever_is_in_them(rows: list[tuple[str, str]]) -> None:
    text = tables.table(
        [{"a": a, "b": b} for a, b in rows], {"FIRST": lambda r: r["a"], "2": lambda r: r["b"]}
    )
    header, *body = text.split("\n")
    assert len(body) == len(rows)
    column = header.index("2")
    for line, (a, b) in zip(body, rows, strict=True):
        assert line[:column].strip() == (visible_line(" ".join(a.split())) or "<none>")
        assert line[column:] == visible_line(" ".join(b.split()))


@given(st.text())
def test_progress_of_any_text_is_no_error(text: str) -> None:
    assert isinstance(tables.progress(task("a", 0, "RUNNING", "lake-0", progress=text), NOW), str)


def test_a_rate_expires_and_an_old_report_tells_its_age() -> None:
    shown = '{"rows_in": 11247, "rows_per_s": 7089.4, "lag": 12}'
    words = {
        seconds: tables.task_words(
            task("a", 0, "RUNNING", "lake-0", progress=shown, at_ms=NOW - 1_000 * seconds), NOW
        )
        for seconds in (30, 31, 840)
    }
    assert words == {
        30: "11,247 rows, 7,089/s, 12 behind",
        31: "11,247 rows, rate unknown, 12 behind, as of 31s ago",
        840: "11,247 rows, rate unknown, 12 behind, as of 14m ago",
    }


def test_a_task_that_reads_nothing_tells_no_rate_and_its_age() -> None:
    idle = task("a", 0, "RUNNING", "lake-0", progress='{"rows_in": 5, "rows_per_s": 0.0}', at_ms=NOW - 60_000)
    assert tables.task_words(idle, NOW) == "5 rows, as of 60s ago"
    assert tables.task_words({**idle, "at_ms": 0}, NOW) == "5 rows, of unknown age"


def test_the_age_of_a_report_is_not_that_of_what_is_learned_elsewhere() -> None:
    idle = task("a", 0, "RUNNING", "lake-0", progress='{"rows_in": 5, "rows_per_s": 0.0}', at_ms=NOW - 60_000)
    learned = {**idle, "learning": "standby on lake-1, caught up"}
    assert tables.task_words(learned, NOW) == "5 rows, as of 60s ago, standby on lake-1, caught up"


def test_a_task_that_starts_tells_what_it_waits_for_and_no_figures() -> None:
    wait = {"for": "waiting for PostgreSQL at db:5432", "since_ms": NOW - 30_000}
    text = json.dumps({"rows_in": 0, "rows_per_s": 0.0, "waits": [wait]})
    starting = task("a", 0, "STARTING", "lake-0", progress=text, at_ms=NOW - 60_000)
    assert tables.task_words(starting, NOW) == "waiting for PostgreSQL at db:5432 (30s so far)"


@pytest.mark.parametrize(
    "state", ["STARTING", "RUNNING", "RESTARTING", "PAUSED", "STOPPED", "FAILED", "HELD"]
)
@pytest.mark.parametrize(
    "text",
    [
        "",
        '{"units": 8, "tasks": 2}',
        '{"rows_in": 5, "rows_per_s": 1.0, "lag": 3, "units": {"lines-0": {"rows_in": 5}}}',
        '{"units": {"lines-0": {"rows_in": 5}}, "waits": [{"for": "Spark", "since_ms": 1}]}',
    ],
)
def test_each_report_has_words_in_each_state(state: str, text: str) -> None:
    assert isinstance(tables.task_words(task("a", 0, state, "lake-0", progress=text, at_ms=NOW), NOW), str)


def test_a_connector_says_why_its_tasks_fail(view: dict[str, Any]) -> None:
    taken = "unit lines-0: file:/out/lines-0 belongs to another checkpoint: give it another directory"
    failed = [task("sources", n, "FAILED", "lake-0", trace=f"{taken}\nat line 1") for n in (-1, 0)]
    seen = replace(SEEN, leader={**LEADER, "tasks": failed})
    view = state_view(STORED, {("default", "lake"): seen}, NOW)
    [_, first, *_] = lines(tables.connectors_table(view["connectors"], NOW))
    assert taken in first[-1]
