"""Pods and nodes of the API in the pool's terms; what proves an end and what does not."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cooperator.controller.incarnations import in_pool_names, proven_ends
from cooperator.controller.interruptions import NOTICES_MS
from cooperator.controller.observe import has_ended, node, phase, pod
from cooperator.model import PodIncarnation, termination_message
from cooperator.pool import EndCause, MarkReason, Node, Phase

UID = "u-1"
AT = "2026-01-01T00:00:{:02d}Z"


def body(state: dict[str, Any] | None = None, restarts: int = 0, **more: Any) -> dict[str, Any]:
    """A pod whose member's container is in ``state``; None: the kubelet has not spoken yet."""
    status: dict[str, Any] = {"phase": more.pop("pod_phase", "Running")}
    if state is not None:
        last = more.pop("last", {})
        status["containerStatuses"] = [
            {"name": "proxy", "state": {"running": {"startedAt": AT.format(1)}}, "restartCount": 9},
            {"name": "worker", "state": state, "lastState": last, "restartCount": restarts},
        ]
    metadata = {
        "name": "lake-0",
        "namespace": "n",
        "uid": UID,
        "creationTimestamp": AT.format(0),
        "labels": {"cooperator.dev/revision": "r1"},
        **more,
    }
    return {"metadata": metadata, "spec": {"nodeName": "m-1"}, "status": status}


def running(second: int = 5) -> dict[str, Any]:
    return {"running": {"startedAt": AT.format(second)}}


def terminated(second: int = 9, message: str = "", started: int = 5) -> dict[str, Any]:
    return {
        "terminated": {
            "startedAt": AT.format(started),
            "finishedAt": AT.format(second),
            "message": message,
            "exitCode": 137,
        }
    }


WAITING = {"waiting": {"reason": "CrashLoopBackOff"}}
DELETED = {"deletionTimestamp": AT.format(30)}


@pytest.mark.parametrize(
    ("seen", "expected", "restarting"),
    [
        (body(), Phase.PENDING, True),
        (body({"waiting": {"reason": "ContainerCreating"}}), Phase.PENDING, True),
        (body(running()), Phase.RUNNING, True),
        (body(terminated()), Phase.ENDED, True),
        (body(WAITING, 1, last=terminated()), Phase.ENDED, True),
        (body(running(), **DELETED), Phase.TERMINATING, False),
        (body(terminated(), **DELETED), Phase.ENDED, False),
        (body(**DELETED), Phase.TERMINATING, False),
        (body(terminated(), pod_phase="Failed"), Phase.ENDED, False),
        # The control plane's garbage collection says Failed of pods that nobody has seen to end.
        (body(running(), pod_phase="Failed"), Phase.TERMINATING, False),
    ],
)
def test_the_phase_follows_from_the_containers_state(
    seen: dict[str, Any], expected: Phase, restarting: bool
) -> None:
    assert phase(seen) is expected
    assert pod(seen).self_restarting is restarting


def accused(seen: dict[str, Any]) -> str:
    """The incarnation whose end is evidence against its tasks; empty if none is."""
    end = pod(seen).end
    return end.incarnation if end is not None and end.cause is EndCause.KILLED else ""


def ended(code: int, reason: str = "Error") -> dict[str, Any]:
    return {"terminated": terminated()["terminated"] | {"exitCode": code, "reason": reason}}


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        (body(ended(137)), f"{UID}.0"),
        (body(ended(139)), f"{UID}.0"),
        (body(ended(1, "OOMKilled")), f"{UID}.0"),
        (body(WAITING, 1, last=ended(137)), f"{UID}.1"),
        (body(running(), 2, last=ended(137)), f"{UID}.1"),
        (body(running()), ""),
        (body(ended(0, "Completed")), ""),
        (body(ended(1)), ""),
        (body(ended(143)), ""),
        (body(ended(255, "Unknown")), ""),
        (body(ended(137, "ContainerStatusUnknown")), ""),
        (body(ended(137), **DELETED), ""),
    ],
)
def test_only_a_signal_that_nobody_asked_for_and_lack_of_memory_accuse_tasks(
    seen: dict[str, Any], expected: str
) -> None:
    assert accused(seen) == expected


@pytest.mark.parametrize(
    ("seen", "cause"),
    [
        (body(running()), None),
        (body(), None),
        (body(running(), **DELETED), None),
        (body(ended(137), **DELETED), EndCause.REQUESTED),
        (body(ended(1), **DELETED), EndCause.REQUESTED),
        (body(ended(143)), EndCause.EXITED),
        (body(ended(137)), EndCause.KILLED),
        (body(ended(1, "OOMKilled")), EndCause.KILLED),
        (body(running(), 2, last=ended(137)), EndCause.KILLED),
        (body(ended(0, "Completed")), EndCause.EXITED),
        (body(ended(1)), EndCause.EXITED),
        (body(ended(137, "ContainerStatusUnknown")), EndCause.EXITED),
    ],
)
def test_why_an_incarnation_ended_is_known_from_its_pod(seen: dict[str, Any], cause: EndCause | None) -> None:
    end = pod(seen).end
    assert (end.cause if end is not None else None) is cause


@pytest.mark.parametrize("reason", ["Evicted", "NodeShutdown", "Preempting"])
def test_an_eviction_accuses_no_task(reason: str) -> None:
    seen = body(ended(137), pod_phase="Failed")
    seen["status"]["reason"] = reason

    assert accused(seen) == ""


def test_a_pod_in_the_pools_terms() -> None:
    marked = body(running(7), 2, annotations={"cooperator.dev/leaving": "ScaleDown"})
    seen = pod(marked)
    assert (seen.identity, seen.uid, seen.incarnation) == ("lake-0", UID, f"{UID}.2")
    assert (seen.revision, seen.node, seen.restarts) == ("r1", "m-1", 2)
    assert seen.mark is MarkReason.SCALE_DOWN
    for text in ("ScaleDown/1", "Else", ""):
        assert pod(body(running(), annotations={"cooperator.dev/leaving": text})).mark is None


@pytest.mark.parametrize(
    ("words", "digest"),
    [
        (f"{UID}/7\nfrozen-by 0123456ab\n", "0123456ab"),
        ("frozen-by 0123456ab", "0123456ab"),
        (f"{UID}/7\n", ""),
        ("a frozen-by 0123456ab", ""),
        ("frozen-by /etc", ""),
    ],
)
def test_last_words_name_the_task_whose_thread_has_frozen_the_member(words: str, digest: str) -> None:
    assert pod(body(running(9), 1, last=terminated(9, words))).frozen_by == digest


# --- what proves an end ---


def named(number: int, uid: str = UID) -> PodIncarnation:
    return PodIncarnation(uid, f"{number:016x}")


def message(*starts: PodIncarnation) -> str:
    """The termination message of the last of ``starts``."""
    return termination_message(starts[-1], starts[:-1])


@pytest.mark.parametrize(
    "seen",
    [
        body(),
        body(running()),
        body(running(), pod_phase="Failed"),
        body(**DELETED),
        body(WAITING, 1, last=terminated(9)),
        body(running(59), 1, last=terminated(9)),
        body(terminated(9, "a traceback")),
        body(terminated(9, "a traceback"), pod_phase="Failed"),
    ],
)
def test_only_a_message_that_names_an_incarnation_proves_its_end(seen: dict[str, Any]) -> None:
    assert not has_ended(named(1), seen)


def test_another_pods_end_proves_nothing() -> None:
    assert not has_ended(named(1, "u-2"), body(terminated(9, message(named(1)))))


times = st.integers(0, 59)


@given(
    clock=st.lists(st.tuples(times, times), min_size=1, max_size=6),
    runs=st.booleans(),
    created=times,
    lost=st.integers(0, 5),
)
def test_no_running_incarnation_is_proven_dead_whatever_clocks_show(
    clock: list[tuple[int, int]], runs: bool, created: int, lost: int
) -> None:
    """Incarnations of one pod, each with the start and the end that its node's clock showed: it may have been
    set, or have stood still, at any time. The list of the first ``lost`` is lost with the pod's directory.
    """
    starts = [named(number) for number in range(len(clock))]
    ended = starts[:-1] if runs else starts
    last = {}
    if ended:
        began, finished = clock[len(ended) - 1]
        words = message(*starts[min(lost, len(ended) - 1) : len(ended)])
        last = terminated(finished, words, started=began)
    state = running(clock[-1][0]) if runs else WAITING
    seen = body(state, len(clock) - 1, last=last, creationTimestamp=AT.format(created))
    proven = {each for each in starts if has_ended(each, seen)}
    assert proven <= set(ended)
    assert proven == set(ended[lost:] or ended[-1:])
    assert proven_ends([("lake-0", str(each)) for each in starts], [seen], ()) == {
        ("lake-0", str(each)) for each in proven
    }
    if runs:
        leader = {"members": [{"identity": "lake-0", "incarnation": str(starts[-1])}]}
        [member] = in_pool_names(leader, {"lake-0": seen})["members"]
        assert member["incarnation"] == pod(seen).incarnation, "the running one is known as the pool's newest"


def test_a_clock_set_back_after_boot_ends_nobody() -> None:
    """The node came up at 00:59, and its clock was set back to 00:05 before the container began again."""
    first, second = named(1), named(2)
    seen = body(running(5), 1, last=terminated(59, message(first), started=30))
    assert has_ended(first, seen)
    assert not has_ended(second, seen)


def test_members_and_the_pool_name_one_incarnation_by_two_names() -> None:
    old, new = named(1), named(2)
    seen = {"lake-0": body(running(12), 1, last=terminated(9, message(old)))}

    def said(incarnation: str) -> str:
        leader = {"members": [{"identity": "lake-0", "incarnation": incarnation}]}
        [member] = in_pool_names(leader, seen)["members"]
        return str(member["incarnation"])

    assert said(str(new)) == f"{UID}.1"
    assert said(str(old)) == str(old), "an earlier incarnation is not the one that runs"
    assert said(str(named(1, "u-0"))) == str(named(1, "u-0"))
    assert said("anything") == "anything"


def test_ends_are_told_in_the_members_names() -> None:
    old, new = named(1), named(2)
    incarnations = [("lake-0", str(old)), ("lake-0", str(new)), ("lake-0", "anything")]
    seen = body(running(12), 1, last=terminated(9, message(old)))
    assert proven_ends(incarnations, [seen], [("lake-0", f"{UID}.0")]) == {("lake-0", str(old))}
    # The machine was declared dead: all that was on it has ended.
    assert proven_ends(incarnations, [seen], [("lake-0", f"{UID}.1")]) == {
        ("lake-0", str(old)),
        ("lake-0", str(new)),
    }
    # The pool concludes no more from a report than it states.
    waits = body(WAITING, 1, last=terminated(9, message(old)))
    assert proven_ends(incarnations, [waits], [("lake-0", f"{UID}.1")]) == {("lake-0", str(old))}


READY = {"conditions": [{"type": "Ready", "status": "True"}]}
GOES = Node(leaving=True, notice_ms=30_000)
PREEMPTED = {"type": "PreemptScheduled", "status": "True"}


@pytest.mark.parametrize(
    ("spec", "status", "expected"),
    [
        ({}, READY, Node()),
        ({}, {}, Node(ready=False)),
        ({}, {"conditions": [{"type": "Ready", "status": "Unknown"}]}, Node(ready=False)),
        ({"unschedulable": True}, READY, Node(cordoned=True)),
        ({"taints": [{"key": "dedicated", "effect": "NoSchedule"}]}, READY, Node()),
        ({"taints": [{"key": "maintenance", "effect": "NoExecute"}]}, READY, GOES),
        *(
            (
                {"taints": [{"key": key, "effect": "NoSchedule"}]},
                READY,
                Node(leaving=True, notice_ms=within_ms or 30_000),
            )
            for key, within_ms in NOTICES_MS.items()
        ),
        (
            {"taints": [{"key": "DeletionCandidateOfClusterAutoscaler", "effect": "PreferNoSchedule"}]},
            READY,
            Node(cordoned=True),
        ),
        (
            {
                "taints": [
                    {"key": "aws-node-termination-handler/rebalance-recommendation", "effect": "NoSchedule"}
                ]
            },
            READY,
            Node(cordoned=True),
        ),
        ({}, {"conditions": [*READY["conditions"], PREEMPTED]}, GOES),
        ({}, {"conditions": [*READY["conditions"], {**PREEMPTED, "status": "False"}]}, Node()),
        ({}, {"conditions": [*READY["conditions"], {**PREEMPTED, "type": "FreezeScheduled"}]}, Node()),
        (
            {"taints": [{"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}]},
            {},
            Node(ready=False),
        ),
        (
            {"taints": [{"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}]},
            {},
            Node(ready=False, out_of_service=True),
        ),
    ],
)
def test_a_node_in_the_pools_terms(spec: dict[str, Any], status: dict[str, Any], expected: Node) -> None:
    assert node({"metadata": {"name": "m-1"}, "spec": spec, "status": status}) == expected


@pytest.mark.parametrize(("label", "zone"), [("rack", "r7"), ("other", ""), ("", "")])
def test_a_node_is_in_the_zone_that_its_label_says(label: str, zone: str) -> None:
    body = {"metadata": {"name": "m-1", "labels": {"rack": "r7"}}, "status": READY}
    assert node(body, label).zone == zone
