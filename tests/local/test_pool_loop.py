"""The pool's loop with processes that are only said to run."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from cooperator.local.members import ProcessIncarnation
from cooperator.local.pool_loop import HALT_KILL_MS, PoolLoop
from cooperator.model import TaskId
from cooperator.planner.view import Facts
from cooperator.pool import PoolDesired, PoolPolicy

REVISION = "r1"


@dataclass
class FakeProcesses:
    """A machine whose processes do what the test says, and a leader that notes what it is told."""

    now_ms: int = 1_000_000
    incarnations: dict[str, ProcessIncarnation] = field(default_factory=dict)
    did: list[str] = field(default_factory=list)
    told: list[Facts] = field(default_factory=list)

    def clock_ms(self) -> int:
        return self.now_ms

    def tell(self, facts: Facts) -> None:
        self.told.append(facts)
        self.did.append("tell")

    # --- Processes ---

    def observe(self) -> dict[str, ProcessIncarnation]:
        return dict(self.incarnations)

    def create(
        self, identity: str, revision: str, command: Callable[[str], Sequence[str]]
    ) -> ProcessIncarnation:
        earlier = self.incarnations.get(identity)
        past = (earlier.incarnation, *earlier.past) if earlier else ()
        incarnation = ProcessIncarnation(
            identity, f"{identity}.{len(past)}", revision, self.now_ms, pid=1, past=past
        )
        self.incarnations[identity] = incarnation
        self.did.append(" ".join(["create", *command(incarnation.incarnation)]))
        return incarnation

    def mark(self, identity: str, incarnation: str, reason: str) -> None:
        self.incarnations[identity] = replace(
            self.incarnations[identity], marked_for=reason, marked_ms=self.now_ms
        )
        self.did.append(f"mark {identity} {reason}".strip())

    def terminate(self, identity: str, incarnation: str) -> None:
        self.incarnations[identity] = replace(self.incarnations[identity], terminating_ms=self.now_ms)
        self.did.append(f"terminate {identity}")

    def kill(self, identity: str, incarnation: str) -> None:
        self.did.append(f"kill {identity}")

    def remove(self, identity: str, incarnation: str) -> None:
        self.incarnations[identity] = replace(self.incarnations[identity], removed=True)
        self.did.append(f"remove {identity}")

    # --- what happens to them ---

    def end(self, identity: str) -> None:
        self.incarnations[identity] = replace(self.incarnations[identity], ended_ms=self.now_ms)

    def done(self) -> list[str]:
        """What was done since the last question, but for what was told."""
        did, self.did = self.did, []
        return [step for step in did if step != "tell"]


def pool(fakes: FakeProcesses) -> PoolLoop:
    return PoolLoop(fakes, fakes.tell, fakes.clock_ms)


def desired(replicas: int) -> PoolDesired:
    policy = PoolPolicy(scale_down_delay_ms=0, scale_down_wait_max_ms=0)
    return PoolDesired("lake", replicas, REVISION, policy)


def command(identity: str, incarnation: str) -> Sequence[str]:
    return [identity, incarnation]


def group(fakes: FakeProcesses, **owned: int) -> dict[str, Any]:
    """A leader's projection: living members with so many tasks each."""
    members = [
        {
            "identity": incarnation.identity,
            "incarnation": incarnation.incarnation,
            "owned": [f"t-{n}" for n in range(owned.get(incarnation.identity.replace("-", "_"), 0))],
            "stopping": [],
            "draining": False,
            "runtime": "Warm",
        }
        for incarnation in fakes.incarnations.values()
        if not incarnation.ended
    ]
    return {"leading": True, "generation": 3, "members": members, "tasks": []}


def started(fakes: FakeProcesses, replicas: int) -> PoolLoop:
    loop = pool(fakes)
    loop.step(desired(replicas), command, {})
    fakes.done()
    return loop


def test_a_new_pool_is_started_and_then_left_alone() -> None:
    fakes = FakeProcesses()
    loop = pool(fakes)
    loop.step(desired(2), command, {})
    assert fakes.done() == ["create lake-0 lake-0.0", "create lake-1 lake-1.0"]
    assert fakes.told[-1].expected == {"lake-0", "lake-1"}
    loop.step(desired(2), command, group(fakes))
    assert fakes.done() == []


def test_what_did_not_change_is_not_told_again() -> None:
    fakes = FakeProcesses()
    loop = started(fakes, 2)
    told = len(fakes.told)
    for _ in range(3):
        loop.step(desired(2), command, group(fakes))
    assert len(fakes.told) <= told + 1


def test_a_dead_member_is_proven_dead_to_the_leader_before_it_is_made_again() -> None:
    fakes = FakeProcesses()
    loop = started(fakes, 2)
    fakes.end("lake-1")
    for _ in range(3):
        loop.step(desired(2), command, group(fakes))
    steps = fakes.did.copy()
    assert steps.index("tell") < steps.index("create lake-1 lake-1.1")
    assert ("lake-1", "lake-1.0") in fakes.told[-1].ended
    assert "lake-1" in (fakes.told[-1].expected or ())


def test_a_new_daemon_tells_ends_of_incarnations_that_it_has_not_seen() -> None:
    fakes = FakeProcesses()
    fakes.incarnations["lake-0"] = ProcessIncarnation(
        "lake-0", "third", REVISION, 1, pid=1, past=("second", "first")
    )
    pool(fakes).step(desired(1), command, {})
    assert fakes.did == ["tell"]
    assert fakes.told[-1].ended == {("lake-0", "second"), ("lake-0", "first")}


def test_scaled_down_it_is_announced_moved_and_only_then_told_to_end() -> None:
    fakes = FakeProcesses()
    loop = started(fakes, 2)
    busy = group(fakes, lake_0=3, lake_1=3)
    loop.step(desired(1), command, busy)
    assert fakes.done() == ["mark lake-1 ScaleDown"]
    assert fakes.told[-1].leaving == {"lake-1"}
    loop.step(desired(1), command, busy)
    assert fakes.done() == []
    loop.step(desired(1), command, group(fakes, lake_0=6))
    assert fakes.done() == ["terminate lake-1"]
    fakes.end("lake-1")
    loop.step(desired(1), command, group(fakes, lake_0=6))
    assert fakes.done() == ["remove lake-1"]
    loop.step(desired(1), command, group(fakes, lake_0=6))
    assert fakes.done() == []


def test_brought_down_all_are_announced_as_returning_and_stopped_once() -> None:
    fakes = FakeProcesses()
    loop = started(fakes, 2)
    assert not loop.halt()
    assert fakes.did == ["tell", "terminate lake-0", "terminate lake-1"]
    assert fakes.told[-1].returning == {"lake-0", "lake-1"} == fakes.told[-1].expected
    fakes.done()
    assert not loop.halt()
    assert fakes.done() == []
    fakes.end("lake-0")
    fakes.end("lake-1")
    assert loop.halt()


def test_brought_down_who_does_not_stop_is_killed() -> None:
    fakes = FakeProcesses()
    loop = started(fakes, 1)
    loop.halt()
    fakes.done()
    fakes.now_ms += HALT_KILL_MS + 1
    assert not loop.halt()
    assert fakes.done() == ["kill lake-0"]


def starting(fakes: FakeProcesses, *names: str) -> dict[str, Any]:
    """A leader's projection in which these tasks are about to run at lake-0."""
    tasks = [
        {"name": name, "connector": "bad", "task": n, "member": "lake-0", "state": "STARTING"}
        for n, name in enumerate(names, start=-1)
    ]
    return {**group(fakes, lake_0=len(names)), "tasks": tasks}


def test_tasks_that_kill_their_members_are_told_as_poisoned_until_somebody_pardons_them() -> None:
    fakes = FakeProcesses()
    loop = started(fakes, 1)
    instance, task = TaskId("bad", -1), TaskId("bad", 0)
    for _ in range(3):
        loop.step(desired(1), command, starting(fakes, "bad", "bad-0"))
        fakes.end("lake-0")
        while fakes.incarnations["lake-0"].ended:
            fakes.now_ms += 60_000
            loop.step(desired(1), command, {})
    assert fakes.told[-1].poisoned == {instance, task}
    assert {report.subject for report in loop.reports if report.reason.value == "PoisonTask"} == {
        "bad",
        "bad-0",
    }

    loop.pardon("bad", include_tasks=False)
    loop.step(desired(1), command, {})
    assert fakes.told[-1].poisoned == {task}, "a restart of the instance alone is not one of its tasks"
    loop.pardon("good")
    loop.pardon("bad")
    loop.step(desired(1), command, {})
    assert fakes.told[-1].poisoned == frozenset()


def test_a_task_in_quarantine_does_not_keep_the_group_from_being_calm() -> None:
    fakes = FakeProcesses()
    loop = started(fakes, 2)
    failed = {"name": "bad-0", "connector": "bad", "task": 0, "member": None, "state": "FAILED"}
    calm = {**group(fakes), "tasks": [{**failed, "reason": "PoisonTask"}]}
    one = PoolDesired("lake", 1, REVISION, PoolPolicy(scale_down_delay_ms=0))
    loop.step(one, command, {**calm, "tasks": [{**failed, "state": "UNASSIGNED"}]})
    assert fakes.done() == [], "a task that is on its way is waited for"
    loop.step(one, command, calm)
    assert fakes.done() == ["mark lake-1 ScaleDown"]


def test_up_again_the_same_names_come_back() -> None:
    fakes = FakeProcesses()
    loop = started(fakes, 2)
    loop.halt()
    for identity in ("lake-0", "lake-1"):
        fakes.end(identity)
    loop.halt()
    fakes.done()
    again = pool(fakes)
    for _ in range(2):
        again.step(desired(2), command, {})
    assert fakes.done() == [
        "remove lake-0",
        "remove lake-1",
        "create lake-0 lake-0.1",
        "create lake-1 lake-1.1",
    ]


def test_a_leader_that_is_not_up_to_date_is_not_believed() -> None:
    fakes = FakeProcesses()
    loop = started(fakes, 2)
    calm = group(fakes, lake_0=3)
    loop.step(desired(1), command, {**calm, "stale": True})
    assert fakes.done() == []
    loop.step(desired(1), command, calm)
    assert fakes.done() == ["mark lake-1 ScaleDown"]
