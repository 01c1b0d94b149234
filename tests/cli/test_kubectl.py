"""Output and refusals of ``kubectl cooperator`` for given objects, without a cluster."""

import io
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from cooperator.cli.kubectl.completion import completed
from cooperator.cli.kubectl.errors import explained, no_such
from cooperator.cli.kubectl.kafka import exec_command
from cooperator.cli.kubectl.seen import Seen
from cooperator.cli.kubectl.status_text import status_text
from cooperator.cli.kubectl.story_text import Sources, story_text
from cooperator.cli.kubectl.top import view_of
from cooperator.cli.plan import PlanArguments
from cooperator.cli.plan_source import with_conditions
from cooperator.controller.api.client import WORKERS, ApiError
from cooperator.controller.api.kubeconfig import ClusterAddress
from cooperator.logs import LogHistory
from cooperator.model import Epoch, Hold, Memory, Policy, PolicyName, TaskId, TaskState, TaskStatus
from cooperator.planner import View
from cooperator.scenarios.snapshot import LedBy, Snapshot
from cooperator.terminal.objects import amiss
from cooperator.terminal.story import meant
from cooperator.terminal.top import picture

NOW = 1_700_000_100_000  # 2023-11-14T22:15:00Z
A0 = TaskId("a", 0)


def condition(kind: str, status: str, reason: str, message: str = "") -> dict[str, Any]:
    at = "2023-11-14T22:14:30Z"
    return {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": at}


def worker(**status: Any) -> dict[str, Any]:
    return {
        "kind": "Worker",
        "metadata": {"name": "lake", "namespace": "default", "generation": 2},
        "spec": {"replicas": 2},
        "status": {"observedGeneration": 2, "memberSummary": "1/2", "taskSummary": "1/2", **status}
        | {"readyReplicas": 1, "tasks": {"desired": 2, "running": 1, "held": 1, "failed": 0}},
    }


def connector(*tasks: dict[str, Any], name: str = "a", to: str = "lake", **status: Any) -> dict[str, Any]:
    return {
        "kind": "Connector",
        "metadata": {"name": name, "namespace": "default", "creationTimestamp": "2023-11-14T22:00:00Z"},
        "spec": {"workerRef": {"name": to}, "class": "noop"},
        "status": {"state": "RUNNING", "taskStatuses": list(tasks), **status},
    }


HELD = {"task": "a-0", "identity": "lake-1", "until": "2023-11-14T22:15:41Z", "reason": "Departed"}
LAKE = worker(
    members=[
        {"identity": "lake-0", "phase": "Running", "tasks": 1},
        {"identity": "lake-1", "phase": "Ended", "message": "it has crashed"},
    ],
    memberCount=2,
    held=[HELD],
    heldCount=3,
    conditions=[
        condition("Ready", "False", "CrashLoop", "it has crashed"),
        condition("Stalled", "True", "CrashLoop", "it has crashed"),
        condition("Reconciling", "False", "CrashLoop"),
        condition("MembersReady", "False", "CrashLoop", "it has crashed"),
        condition("UpgradeAvailable", "True", "OperatorChanged", "set spec.version"),
        condition("KafkaReachable", "True", "Connected"),
    ],
    lastRebalance={
        "generation": 7,
        "at": "2023-11-14T22:14:50Z",
        "reason": "Departed",
        "assigned": 3,
        "durationMs": 1250,
    },
)
A = connector(
    {"id": 0, "state": "HELD"},
    {
        "id": 1,
        "state": "RUNNING",
        "member": "lake-0",
        "progress": '{"rows_in": 5, "rows_per_s": 2}',
        "reportedAt": "2023-11-14T22:14:50Z",
    },
)


def rows(text: str, first: str) -> list[list[str]]:
    """The cells of the lines that begin with this text."""
    lines = [[cell.strip() for cell in line.split("   ") if cell.strip()] for line in text.splitlines()]
    return [line for line in lines if line and line[0] == first]


class TestStatus:
    def test_members_holds_with_deadlines_and_the_last_rebalance(self) -> None:
        text = status_text(Seen([LAKE], [A]), NOW)
        assert text.startswith("Worker default/lake: not ready, 1/2 members, 1/2 tasks run, 1 held\n")
        assert rows(text, "lake-1") == [["lake-1", "Ended", "0", "it has crashed"]]
        assert rows(text, "a-0") == [["a-0", "lake-1", "in 41s", "2023-11-14T22:15:41Z", "Departed"]]
        assert "and 2 more tasks that wait" in text
        last = "last rebalance: generation 7, 10s ago, 3 assigned, 0 revoked in 1.25 s: Departed"
        assert text.endswith(last)

    def test_epochs_and_states_of_a_group_without_rounds(self) -> None:
        members = [
            {
                "identity": "lake-0",
                "phase": "Running",
                "state": "UNREVOKED_TASKS",
                "epoch": 6,
                "targetEpoch": 7,
            },
            {"identity": "lake-1", "phase": "Running", "state": "STABLE", "epoch": 5, "targetEpoch": 5},
            {"identity": "lake-2", "phase": "Pending"},
        ]
        said = {"name": "reconciled", "reason": "", "groupEpoch": 9, "assignmentEpoch": 7}
        text = status_text(Seen([worker(members=members, protocol=said)], []), NOW)
        assert "\nprotocol reconciled: group epoch 9, assignment epoch 7\n" in text
        assert rows(text, "MEMBER") == [["MEMBER", "PHASE", "TASKS", "STATE", "EPOCH", "TARGET", "MESSAGE"]]
        assert rows(text, "lake-0") == [["lake-0", "Running", "0", "UNREVOKED_TASKS", "6", "7"]]
        assert rows(text, "lake-2") == [["lake-2", "Pending", "0", "?", "?", "?"]]

    def test_without_a_leader_the_protocol_is_unknown(self) -> None:
        text = status_text(Seen([LAKE], []), NOW)
        assert "\nprotocol unknown: no leader reports it now\n" in text
        assert rows(text, "MEMBER") == [["MEMBER", "PHASE", "TASKS", "MESSAGE"]]

    def test_only_abnormal_conditions_are_shown_and_each_reason_once(self) -> None:
        assert [each["type"] for each in amiss(LAKE)] == ["MembersReady", "UpgradeAvailable"]
        text = status_text(Seen([LAKE], []), NOW)
        assert rows(text, "MembersReady")[0][1:5] == ["Worker/lake", "False", "30s", "CrashLoop"]
        assert "KafkaReachable" not in text
        well = worker(conditions=[condition("Ready", "True", "AllMembersReady")])
        assert "all conditions are met" in status_text(Seen([well], []), NOW)
        assert status_text(Seen([well], []), NOW).startswith("Worker default/lake: Ready,")

    def test_conditions_of_connectors_are_shown_too(self) -> None:
        trouble = condition("Ready", "False", "TaskFailed", "a-1: no disk")
        promise = condition("ExactlyOnce", "False", "AtLeastOnce")
        text = status_text(Seen([LAKE], [connector(conditions=[trouble, promise])]), NOW)
        assert rows(text, "Ready") == [
            ["Ready", "Connector/a", "False", "30s", "TaskFailed", "a-1: no disk"],
        ]
        assert "AtLeastOnce" not in text
        broken = condition("ExactlyOnce", "False", "LocalCheckpoints")
        text = status_text(Seen([LAKE], [connector(conditions=[broken])]), NOW)
        assert rows(text, "ExactlyOnce")[0][1:5] == ["Connector/a", "False", "30s", "LocalCheckpoints"]

    def test_each_worker_has_its_own_connectors(self) -> None:
        other = {**worker(), "metadata": {"name": "pond", "namespace": "default"}}
        text = status_text(Seen([LAKE, other], [A, connector(name="b", to="pond")]), NOW)
        lake, pond = text.split("Worker default/pond")
        assert ("noop" in lake, rows(lake, "b"), len(rows(pond, "b"))) == (True, [], 1)

    def test_a_missing_or_outdated_status_is_shown(self) -> None:
        for status in ({}, {"observedGeneration": -1}):
            fresh = {**LAKE, "status": status}
            assert "no operator has observed it yet" in status_text(Seen([fresh], []), NOW)
        old = worker(observedGeneration=1)
        assert "generation 1 of the spec; 2 has not been observed" in status_text(Seen([old], []), NOW)
        assert "no Workers in this namespace" in status_text(Seen([], []), NOW)


def status(state: TaskState, member: str, at_ms: int, trace: str = "") -> TaskStatus:
    return TaskStatus(A0, state, member, Epoch(2, 7), at_ms, trace)


def event(kind: str, name: str, at: str, reason: str, note: str) -> dict[str, Any]:
    return {
        "metadata": {"creationTimestamp": at},
        "regarding": {"kind": kind, "name": name},
        "reason": reason,
        "note": note,
    }


class TestStory:
    HISTORY = LogHistory(
        (
            status(TaskState.RUNNING, "lake-1", NOW - 60_000),
            status(TaskState.FAILED, "lake-0", NOW - 5_000, "no disk\nline 2"),
        ),
        (
            Memory(
                holds={
                    "lake-1": Hold(
                        frozenset({A0}), NOW - 30_000, NOW - 10_000, cause="Pod/lake-1/4711", incarnation="x"
                    )
                }
            ),
        ),
    )

    def lines(self, **more: Any) -> list[str]:
        lines = story_text(Sources(LAKE, [A], **more), A0, NOW).splitlines()
        assert lines[-1] == "Worker lake: UpgradeAvailable is True: set spec.version", "problems come last"
        return [line for line in lines if not line.startswith("Worker lake: ")]

    def test_a_story_shows_runs_waits_their_cause_and_failures(self) -> None:
        shown = [line.split("  ", 1)[1].split(maxsplit=1) for line in self.lines(history=self.HISTORY)[:-1]]
        assert shown == [
            ["lake-1", "a-0 runs under 2.7"],
            ["lake-1", "a-0 no longer runs, after 30s"],
            ["plan", "a-0 waits for lake-1: Departed, by Pod/lake-1/4711"],
            ["lake-0", "a-0 has failed: no disk"],
        ]

    def test_events_of_other_tasks_are_left_out_and_common_ones_are_not(self) -> None:
        events = [
            event("Worker", "lake", "2023-11-14T22:14:00Z", "TasksHeld", "2 tasks wait for lake-1: a-0, a"),
            event("Connector", "a", "2023-11-14T22:14:01Z", "HoldEnded", "a-1 has moved to lake-0"),
            event("Worker", "lake", "2023-11-14T22:14:02Z", "Rebalanced", "generation 7: 3 tasks assigned"),
            event("Worker", "pond", "2023-11-14T22:14:03Z", "Rebalanced", "generation 8"),
            event("Worker", "lake", "2023-11-14T22:14:04Z", "TasksHeld", "9 tasks wait: a-1 and 8 more"),
        ]
        shown = [line.split("  ", 1)[1].split(maxsplit=1)[1] for line in self.lines(events=events)[:-1]]
        assert [line.split(":")[0] for line in shown if line[:4] in ("Task", "Reba", "Hold")] == [
            "TasksHeld",
            "Rebalanced",
            "TasksHeld",
        ]

    def test_pods_of_its_members_show_how_they_ended(self) -> None:
        def pod(name: str) -> dict[str, Any]:
            ended = {"finishedAt": "2023-11-14T22:14:20Z", "reason": "OOMKilled", "exitCode": 137}
            statuses = [{"name": "worker", "state": {"terminated": ended}}]
            return {"metadata": {"name": name}, "status": {"containerStatuses": statuses}}

        lines = self.lines(history=self.HISTORY, pods=[pod("lake-1"), pod("lake-2")])
        ends = [line for line in lines if "its container has ended (OOMKilled, exit code 137)" in line]
        assert [line.split()[:2] for line in ends] == [["2023-11-14T22:14:20Z", "lake-1"]]

    def test_the_present_state_and_missing_sources_are_shown(self) -> None:
        lines = self.lines(missing="Kafka is away")
        assert lines[-1] == "now: HELD for lake-1, moves in 41s"
        assert lines[-2] == "(without Kafka's logs: Kafka is away)"
        assert "a-0 waits for lake-1 until 2023-11-14T22:15:41Z: Departed" in lines[0]

    def test_a_connector_whose_name_ends_in_a_number(self) -> None:
        assert meant("a-0", [A]) == A0
        assert meant("a-0", [A, connector(name="a-0")]) == TaskId("a-0", -1)
        assert meant("a", [A]) == TaskId("a", -1)

    def test_a_connector_whose_name_no_resource_can_have(self) -> None:
        odd = connector({"id": 0, "state": "RUNNING", "member": "lake-0"}, name="my-a-1234")
        odd["spec"]["connectorName"] = "My A"
        for asked in ("My A-0", "my-a-1234-0"):
            assert meant(asked, [A, odd]) == TaskId("My A", 0)
        for asked in ("My A", "my-a-1234"):
            assert meant(asked, [A, odd]) == TaskId("My A", -1)
        events = [event("Connector", "my-a-1234", "2023-11-14T22:14:00Z", "TaskFailed", "My A-0 has failed")]
        shown = story_text(Sources(LAKE, [A, odd], events), TaskId("My A", 0), NOW)
        assert "TaskFailed: My A-0 has failed" in shown
        assert "now: RUNNING on lake-0" in shown


def test_conditions_with_negative_polarity_are_abnormal_when_true() -> None:
    """For stock workers these conditions are False while all is well."""
    well = ("Unfenced", "Hung", "EagerProtocol", "UnsignedRequests")
    calm = worker(conditions=[condition(kind, "False", "Fine") for kind in well])
    assert amiss(calm) == []
    for kind in well:
        shown = amiss(worker(conditions=[condition(kind, "True", "Bad", "do this")]))
        assert [each["type"] for each in shown] == [kind]


def test_a_plan_shows_abnormal_conditions_of_its_worker() -> None:
    view = View(NOW, 1, (), {}, Policy())
    snapshot = with_conditions(
        Snapshot("lake", LedBy.OPERATOR, view, Memory()),
        [
            condition("Leading", "False", "GroupConflict", "it is led by another"),
            condition("Planned", "True", "Planned"),
            condition("Unfenced", "False", "Fenced"),
            condition("Hung", "True", "MemberHangs", "w-1 hangs"),
        ],
    )
    assert snapshot.notes == (
        "Leading is False (GroupConflict): it is led by another",
        "Hung is True (MemberHangs): w-1 hangs",
    )


def test_top_looks_as_in_a_local_cluster() -> None:
    rounds: dict[Any, Any] = {}
    pod = {
        "metadata": {
            "name": "lake-0",
            "namespace": "default",
            "uid": "u",
            "creationTimestamp": "2023-11-14T22:14:00Z",
        },
        "status": {"phase": "Running"},
    }
    first = view_of(Seen([LAKE], [A]), [pod], NOW, rounds)
    later = worker(lastRebalance={"generation": 8, "at": "2023-11-14T22:14:59Z", "assigned": 1})
    view = view_of(Seen([later], [A]), [], NOW, rounds)
    assert [each["generation"] for each in view["groups"][0]["rebalances"]] == [7, 8]
    file = io.StringIO()
    Console(width=200, file=file).print(picture(first))
    text = file.getvalue()
    assert "1 of 2 members run, 1 of 2 tasks run, 1 HELD, 2 rows/s" in text
    assert "for lake-1, in 41s (Departed)" in text
    assert "it has crashed" in text


class TestRefusals:
    @pytest.mark.parametrize(
        ("status", "message", "texts"),
        [
            (0, "GET /x: the API server does not answer: no route", ("no route", "--context")),
            (401, "GET /x: Unauthorized", ("(401)", "log in again")),
            (
                403,
                'workers.cooperator.dev is forbidden: User "ada" cannot list resource "workers" in API group '
                '"cooperator.dev" in the namespace "n"',
                (
                    "ada lacks a right: list on workers (API group cooperator.dev) in namespace n",
                    "kubectl create role NAME --verb=list --resource=workers.cooperator.dev -n n",
                ),
            ),
            (
                403,
                'User "ada" cannot list resource "pods/log" in API group "" at the cluster scope',
                ("in the whole cluster", "clusterrole NAME --verb=list --resource=pods/log,"),
            ),
            (403, "admission webhook says no", ("forbids it", "webhook says no")),
            (
                404,
                "GET /apis/cooperator.dev/v1alpha1/workers: Not Found",
                ("does not have the resources", "crds"),
            ),
            (422, "spec.state is wrong", ("refuses: spec.state is wrong",)),
        ],
    )
    def test_each_has_its_remedy(self, status: int, message: str, texts: tuple[str, ...]) -> None:
        said = explained(ApiError(status, "", message))
        for text in texts:
            assert text in said

    def test_an_unknown_name(self) -> None:
        assert "did you mean 'lake'?" in no_such(WORKERS, "laek", "n", ["lake", "pond"])
        assert "and no others" in no_such(WORKERS, "lake", "n", [])


def test_a_plan_runs_in_the_pod_with_its_arguments_unchanged() -> None:
    asked = PlanArguments(
        die=("lake-0", "lake-1"), tasks_max=("a=4",), policy=PolicyName.KIP415, max_delay_ms=0
    )
    words = ["--die", "lake-0", "--die", "lake-1", "--tasks-max", "a=4", "--policy", "Kip415"]
    assert asked.words() == [*words, "--max-delay-ms", "0"]
    place = ClusterAddress(None, "n", ("--context", "moon"))  # type: ignore[arg-type]
    assert exec_command(place, ("home", "pod-1"), ["kubectl", "plan"]) == (
        ["kubectl", "--context", "moon", "exec", "-n", "home", "pod-1", "--", "cooperator", "kubectl", "plan"]
    )


def test_completion_works_without_a_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", "/none")
    assert {word for word, _ in completed(["st"])} == {"state", "status", "story", "stop", "start"}
    assert completed(["status", ""]) == []
    assert [word for word, _ in completed(["status", "--all"])] == ["--all-namespaces"]
    assert [word for word, _ in completed(["status", "-o", "y"])] == ["yaml"]


@pytest.mark.parametrize(
    ("name", "words", "said"),
    [
        ("kubectl-cooperator", ["--help"], "story"),
        ("kubectl_complete-cooperator", ["sta"], "status"),
        ("cooperator", ["--help"], "simulate"),
    ],
)
def test_a_link_to_the_program_acts_by_its_name(
    tmp_path: Path, name: str, words: list[str], said: str
) -> None:
    link = tmp_path / name
    link.symlink_to(Path(sys.executable).with_name("cooperator"))
    done = subprocess.run([link, *words], capture_output=True, text=True, check=True)
    assert said in done.stdout


def test_a_missing_client_of_kubernetes_is_named_with_the_remedy() -> None:
    code = (
        "import sys; sys.modules['kubernetes'] = None; sys.argv = ['kubectl-cooperator', 'status']; "
        "from cooperator.cli.kubectl import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "error: kubectl cooperator requires kubernetes, not installed here: "
        "pip install 'cooperator[kubernetes]'\n"
    )
