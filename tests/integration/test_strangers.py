"""Members that the host does not expect get no tasks and are reported."""

import pytest

from tests.harness.member_group import MemberGroup
from tests.harness.support import eventually

pytestmark = pytest.mark.real

TASKS = tuple(f"a-{n}" for n in range(4))
OURS = ("w-0", "w-1")


def test_a_stranger_gets_no_task_and_gives_up_those_it_has(group: MemberGroup) -> None:
    noop = {"connector.class": "noop", "tasks.max": "4", "units": "4"}
    leader = group.leader({"a": noop}, (*OURS, "w-9"), policy={"join_wait_ms": 90_000})
    for identity in (*OURS, "w-9"):
        group.member(identity)
    assert set(group.runs(*TASKS).values()) == {*OURS, "w-9"}

    def unexpected() -> str:
        found = [each for each in leader.status()["conditions"] if each["type"] == "UnexpectedMember"]
        return found[0]["message"] if found and found[0]["status"] == "True" else ""

    assert unexpected() == ""
    group.facts(leader, OURS)
    eventually(lambda: set(group.runs(*TASKS).values()) == set(OURS), 60, "its tasks move away")
    eventually(lambda: unexpected().startswith("w-9: not a member of this Worker"))
    before = group.starts()
    group.member("w-7")
    eventually(lambda: unexpected().startswith("w-7, w-9: "), 60, "another one has joined")
    eventually(lambda: leader.status()["settled"])
    assert set(group.runs(*TASKS).values()) == set(OURS)
    assert group.starts() == before, "nothing was started for it, or anywhere because of it"
