"""The loop of a Worker on a platform that the test makes up, whatever of it fails."""

import logging
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import pytest

from cooperator.crd import Connector
from cooperator.host import leader, worker_loop
from cooperator.host.group import group_seen
from cooperator.host.known import Leader
from cooperator.host.leader import leader_settings
from cooperator.host.platform import Goal, Observation, PlatformError, Wanted
from cooperator.host.pool_step import HALT_KILL_MS, pool_desired
from cooperator.host.status import WorkerFacts
from cooperator.host.worker_loop import WorkerLoop
from cooperator.leader.service import LeaderService, NotLeading
from cooperator.model import TaskId
from cooperator.pool import Action, Create, Delete, Drain, End, EndCause, Kill, Phase, Pod, Remove
from cooperator.wire import RestartRecord
from tests.harness.support import eventually
from tests.host.platform_harness import FakeLeader, connector, worker

BEGIN_MS = 1_800_000_000_000


@dataclass
class FakePlatform:
    """Pods that do what the test says. ``fails``: what the method of this name raises."""

    wanted: Wanted
    log: list[str] = field(default_factory=list)
    pods: dict[str, Pod] = field(default_factory=dict)
    shown: list[WorkerFacts] = field(default_factory=list)
    fails: dict[str, BaseException] = field(default_factory=dict)
    is_led: bool = True
    starts: int = 0
    now_ms: int = BEGIN_MS
    leader: FakeLeader = field(init=False)
    tasks: dict[str, list[str]] = field(default_factory=dict)
    """By member: its tasks that are about to run."""

    def __post_init__(self) -> None:
        self.leader = FakeLeader(self.log, self._projection)
        self.loop = WorkerLoop(
            ("default", "lake"), self, 0.01, lambda: self.now_ms, start_leader=self.leader.start
        )

    def observe(self, leader: Leader) -> Observation | None:
        self._may_fail("observe")
        wanted = self.wanted
        return Observation(
            wanted,
            leader_settings(wanted.worker, "kafka:9092", "test") if self.is_led else None,
            pool_desired(wanted.worker, "r1", wanted.goal is Goal.REMOVE, kill_after_ms=30_000),
            tuple(self.pods.values()),
            leader,
            lambda ended: ended,
            self.now_ms,
        )

    def act(self, action: Action) -> None:
        self.log.append(f"{type(action).__name__} {action.identity}")
        self._may_fail("act")
        match action:
            case Create(identity, revision):
                self.starts += 1
                self.pods[identity] = Pod(identity, identity, f"i{self.starts}", Phase.RUNNING, revision)
            case Delete(identity):
                self._change(identity, phase=Phase.TERMINATING)
            case Remove(identity):
                del self.pods[identity]
            case Drain() | Kill():
                pass

    def publish(self, facts: WorkerFacts, leader: LeaderService | None) -> None:
        self._may_fail("publish")
        self.shown.append(facts)

    def removed(self) -> bool:
        self._may_fail("removed")
        if self.wanted.goal is Goal.RUN:
            return False
        return self.wanted.goal is Goal.ORPHAN or all(p.phase is Phase.ENDED for p in self.pods.values())

    def end(self, identity: str) -> None:
        self._change(identity, phase=Phase.ENDED, end=End(self.pods[identity].incarnation, EndCause.KILLED))

    def ask(self, goal: Goal = Goal.RUN, *connectors: Connector, **spec: object) -> None:
        self.wanted = Wanted(worker(**spec), connectors, goal)

    def done(self) -> list[str]:
        did = [step for step in self.log if step not in ("tell", "lead")]
        self.log.clear()
        return did

    def _change(self, identity: str, **changes: object) -> None:
        self.pods[identity] = replace(self.pods[identity], **changes)  # type: ignore[arg-type]

    def _may_fail(self, method: str) -> None:
        if method in self.fails:
            raise self.fails[method]

    def _projection(self) -> dict[str, object]:
        running = [pod for pod in self.pods.values() if pod.phase is not Phase.ENDED]
        tasks = [
            {"name": f"bad-{n}", "connector": "bad", "task": n, "member": member, "state": "STARTING"}
            for member, names in self.tasks.items()
            for n, _ in enumerate(names, start=-1)
        ]
        members = [
            {
                "identity": pod.identity,
                "incarnation": pod.incarnation,
                "owned": self.tasks.get(pod.identity, []),
                "stopping": [],
                "draining": False,
                "runtime": "Warm",
            }
            for pod in running
        ]
        return {"leading": True, "known": True, "generation": 3, "members": members, "tasks": tasks}


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leader, "_STATUS_S", 0.0)
    monkeypatch.setattr(worker_loop, "_ERROR_PAUSE_S", 0.01)
    monkeypatch.setattr(worker_loop, "_SHORTEST_PAUSE_S", 0.001)


@pytest.fixture
def platform() -> Iterator[FakePlatform]:
    made = FakePlatform(Wanted(worker(replicas=2)))
    yield made
    if made.loop.is_alive:
        made.loop.stop(10)


def started(platform: FakePlatform) -> WorkerLoop[FakePlatform]:
    platform.loop.step()
    platform.done()
    return platform.loop


def test_everything_that_fails_is_tried_again_with_what_is_there_then(platform: FakePlatform) -> None:
    for method in ("observe", "act", "publish", "removed"):
        platform.fails = {method: OSError(f"no {method}")}
        with pytest.raises(OSError, match=f"no {method}"):
            platform.loop.step()
    platform.fails = {}
    while set(platform.pods) != {"lake-0", "lake-1"}:
        platform.now_ms += 1_000
        platform.loop.step()
    assert platform.leader.facts_given[-1].expected == {"lake-0", "lake-1"}
    assert platform.shown[-1].expected == {"lake-0", "lake-1"}


def test_a_leader_is_told_of_an_end_even_if_nothing_can_be_done_or_published(platform: FakePlatform) -> None:
    loop = started(platform)
    platform.fails = {"act": OSError("disk full"), "publish": OSError("disk full")}
    platform.end("lake-1")
    with pytest.raises(OSError, match="disk full"):
        loop.step()
    assert ("lake-1", "i2") in platform.leader.facts_given[-1].ended


def test_a_worker_whose_status_cannot_be_written_is_removed_all_the_same(platform: FakePlatform) -> None:
    platform.loop.step()
    platform.fails["publish"] = RecursionError("a Connector is nested too deeply")
    platform.ask(Goal.REMOVE)
    for identity in [*platform.pods]:
        platform.end(identity)
    with pytest.raises(RecursionError):
        platform.loop.step()
    assert platform.loop.done


def test_a_thread_outlives_whatever_its_platform_raises(
    platform: FakePlatform, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "cooperator.host.worker_loop")
    platform.fails = {"observe": PlatformError("the API server does not answer")}
    platform.loop.start()
    platform.loop.wake()
    eventually(lambda: len(caplog.messages) == 1, 10)
    platform.fails = {"observe": RuntimeError("a defect")}
    eventually(lambda: "RuntimeError: a defect" in caplog.text, 10)
    platform.fails = {}
    eventually(lambda: set(platform.pods) == {"lake-0", "lake-1"}, 10)
    assert platform.loop.is_alive
    said = [message for message in caplog.messages if "does not answer" in message]
    assert said == ["Worker default/lake: the API server does not answer"], "once, while it lasted"


def test_a_thread_that_is_stopped_keeps_the_leaders_place(platform: FakePlatform) -> None:
    platform.loop.start()
    eventually(lambda: len(platform.pods) == 2, 10)
    platform.loop.stop(10)
    assert platform.log[-1] == "stop"
    assert not platform.loop.is_alive


def test_a_thread_whose_worker_is_removed_leaves_the_group(platform: FakePlatform) -> None:
    platform.loop.start()
    eventually(lambda: len(platform.pods) == 2, 10)
    platform.ask(Goal.REMOVE)
    eventually(lambda: all(pod.phase is Phase.TERMINATING for pod in platform.pods.values()), 10)
    for identity in ("lake-0", "lake-1"):
        platform.end(identity)
    eventually(lambda: platform.log[-1] == "leave", 10)
    assert platform.loop.done


def test_a_removal_that_fails_in_the_middle_goes_on(platform: FakePlatform) -> None:
    loop = started(platform)
    platform.ask(Goal.REMOVE)
    platform.fails = {"act": OSError("no")}
    with pytest.raises(OSError, match="no"):
        loop.step()
    platform.fails = {}
    while any(pod.phase is Phase.RUNNING for pod in platform.pods.values()):
        platform.now_ms += 1_000
        loop.step()
    for identity in ("lake-0", "lake-1"):
        platform.end(identity)
    platform.fails = {"removed": PlatformError("the finalizer cannot be taken away")}
    with pytest.raises(PlatformError):
        loop.step()
    assert not loop.done
    platform.fails = {}
    loop.step()
    assert loop.done


@pytest.mark.parametrize(
    ("reason", "is_removed"),
    [
        ("WrongConfigTopic", True),
        ("TopicMisconfigured", True),
        ("GroupConflict", True),
        ("TakingLead", False),
        ("Fenced", False),
    ],
)
def test_a_worker_whose_lead_is_refused_can_be_deleted(
    platform: FakePlatform, reason: str, is_removed: bool
) -> None:
    """Its group and topics are fixed, so deleting it is the way to correct them."""
    leading = {"type": "Leading", "status": "False", "reason": reason, "message": "…"}
    platform.leader.projection = lambda: {"conditions": [leading]}
    platform.leader.refuses = NotLeading("group 'g' is not led from here")
    platform.loop.step()
    platform.ask(Goal.ORPHAN)
    platform.loop.step()
    assert (platform.loop.done, "leave" in platform.log) == (is_removed, is_removed)


def test_a_worker_that_cannot_be_handed_back_is_not_removed(platform: FakePlatform) -> None:
    loop = started(platform)
    platform.ask(Goal.ORPHAN, replicas=2)
    platform.leader.refuses = TimeoutError("not even yet")
    loop.step()
    assert not loop.done
    assert loop.leader is not None
    platform.leader.refuses = None
    platform.fails = {"removed": PlatformError("the API server does not answer")}
    with pytest.raises(PlatformError):
        loop.step()
    platform.fails = {}
    loop.step()
    assert (loop.done, platform.log.count("hand back"), platform.log.count("lead")) == (True, 1, 0)


def test_without_settings_no_leader_is_started_and_a_running_one_goes_on(platform: FakePlatform) -> None:
    platform.is_led = False
    platform.loop.step()
    assert (platform.loop.leader, platform.loop.restart(RestartRecord("a"))) == (None, 409)
    platform.is_led = True
    platform.loop.step()
    platform.is_led = False
    platform.ask(Goal.RUN, connector("a"), replicas=2)
    platform.loop.step()
    assert [set(desired.connectors) for desired in platform.leader.desired] == [set(), {"a"}]
    assert platform.log.count("lead") == 1


def test_brought_down_all_are_announced_as_returning_and_told_to_end_once(platform: FakePlatform) -> None:
    loop = started(platform)
    platform.ask(Goal.HALT, replicas=2)
    loop.step()
    assert platform.log == ["tell", "Delete lake-0", "Delete lake-1"]
    facts_given = platform.leader.facts_given[-1]
    assert facts_given.returning == {"lake-0", "lake-1"} == facts_given.expected
    platform.done()
    loop.step()
    assert platform.done() == []
    platform.end("lake-0")
    platform.now_ms += HALT_KILL_MS + 1
    loop.step()
    assert (platform.done(), loop.done) == (["Kill lake-1"], False)
    platform.end("lake-1")
    loop.step()
    assert loop.done


def test_up_again_the_same_names_come_back(platform: FakePlatform) -> None:
    loop = started(platform)
    platform.ask(Goal.HALT, replicas=2)
    loop.step()
    for identity in ("lake-0", "lake-1"):
        platform.end(identity)
    loop.step()
    again = FakePlatform(Wanted(worker(replicas=2)), pods=platform.pods)
    for _ in range(2):
        again.loop.step()
    assert sorted(again.done()) == ["Create lake-0", "Create lake-1", "Remove lake-0", "Remove lake-1"]


def test_tasks_that_kill_their_members_are_told_as_poisoned_until_they_are_pardoned(
    platform: FakePlatform,
) -> None:
    platform.ask(Goal.RUN, connector("bad"), replicas=1)
    loop = started(platform)
    instance, task = TaskId("bad", -1), TaskId("bad", 0)
    for _ in range(2):
        platform.tasks = {"lake-0": ["bad", "bad-0"]}
        loop.step()
        platform.end("lake-0")
        platform.tasks = {}
        while "lake-0" not in platform.pods or platform.pods["lake-0"].phase is Phase.ENDED:
            platform.now_ms += 60_000
            loop.step()
    assert platform.leader.facts_given[-1].poisoned == {instance, task}
    reported = {r.subject for r in platform.shown[-1].reports if r.reason.value == "PoisonTask"}
    assert reported == {"bad", "bad-0"}

    assert platform.leader.on_restart is not None
    platform.leader.on_restart(RestartRecord("bad"))
    loop.step()
    assert platform.leader.facts_given[-1].poisoned == {task}, (
        "a restart of the instance alone is not one of its tasks"
    )
    platform.ask(Goal.RUN, connector("bad", config={"now": "good"}), replicas=1)
    loop.step()
    assert platform.leader.facts_given[-1].poisoned == frozenset(), "the change may be the fix"


def test_a_task_in_quarantine_does_not_keep_the_group_from_being_calm() -> None:
    task = {"name": "bad-0", "connector": "bad", "task": 0, "member": None, "reason": "PoisonTask"}
    led = {"leading": True, "known": True, "generation": 3, "members": []}
    failed = group_seen({**led, "tasks": [{**task, "state": "FAILED"}]})
    on_its_way = group_seen({**led, "tasks": [{**task, "state": "UNASSIGNED", "reason": ""}]})
    assert failed is not None
    assert on_its_way is not None
    assert (failed.calm, on_its_way.calm) == (True, False)
