"""New tasks run within a second beside a member that is frozen or slow to stop, on a real broker.

Of twenty members, one of five real ones is always stopped by SIGSTOP; fifteen light ones share a process.
Times are taken where tasks start, from the journal of the members.
"""

import json
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pytest

from cooperator.leader.service import LeaderService
from tests.harness.leader_process import desired_of
from tests.harness.member_group import MemberGroup, MemberProcess
from tests.harness.support import eventually

pytestmark = pytest.mark.real

REAL = tuple(f"w-{number:02}" for number in range(5))
LIGHT = tuple(f"w-{number:02}" for number in range(5, 20))
POLICY: dict[str, Any] = {
    "scheduled_rebalance_max_delay_ms": 60_000,
    "lease_ms": 65_000,
    "join_wait_ms": 90_000,
    "reconciles": True,
}
SESSION_MS = 45_000
"""Longer than any member is frozen, so that the broker counts it all the time."""
COUNT = 100
WITHIN_S = 1.0
ONE = {"connector.class": "noop", "tasks.max": "1", "units": "1"}


@dataclass
class Journal:
    """The lines of the members' journal as they come."""

    path: Path
    started_ms: dict[str, int] = field(default_factory=dict)
    """When each task began to run for the first time."""
    loads: Counter[str] = field(default_factory=Counter)
    """The number of tasks of each member."""
    _read: int = 0

    def read(self) -> "Journal":
        with self.path.open("rb") as file:
            file.seek(self._read)
            text = file.read()
        whole = text.rfind(b"\n") + 1
        self._read += whole
        for line in text[:whole].splitlines():
            said = json.loads(line)
            if said["event"] == "start":
                self.started_ms.setdefault(said["task"], said["at_ms"])
                self.loads[said["member"]] += 1
            elif said["event"] == "stop":
                self.loads[said["member"]] -= 1
        return self


class Members:
    """The group, its leader, and what is wanted of it."""

    def __init__(self, group: MemberGroup, light: tuple[str, ...]) -> None:
        self.group = group
        self.identities = (*REAL, *light)
        self.leader: LeaderService = group.leader(
            {}, self.identities, session_timeout_ms=60_000, policy=POLICY
        )
        self.journal = Journal(group.journal.path)
        self.wanted: dict[str, dict[str, str]] = {}
        self.light: subprocess.Popen[bytes] | None = None
        group.journal.path.touch()
        eventually(lambda: self.leader.status().get("leading"), 60, "the leader has made its topics")
        if light:
            self.light = self._start_light(light)
        self.real = {identity: self.start(identity) for identity in REAL}
        eventually(self.is_complete, 180, "all are in, without rounds")

    def start(self, identity: str) -> MemberProcess:
        times = {"session_timeout_ms": str(SESSION_MS), "rebalance_timeout_ms": "62000"}
        return self.group.member(identity, **times)

    def _start_light(self, identities: tuple[str, ...]) -> subprocess.Popen[bytes]:
        said = {
            "bootstrap_servers": self.group.bootstrap_servers,
            "group_id": self.group.group_id,
            "identities": identities,
            "journal": str(self.group.journal.path),
            "session_timeout_ms": SESSION_MS,
            "heartbeat_interval_ms": 1_000,
        }
        with (self.group.directory / "light.log").open("ab") as log:
            command = [sys.executable, "-m", "tests.harness.light_members", json.dumps(said)]
            return subprocess.Popen(command, stdout=log, stderr=log)

    def is_complete(self) -> bool:
        status = self.leader.status()
        return status.get("protocol") == "reconciled" and len(status["members"]) == len(self.identities)

    def want(self, **connectors: dict[str, str]) -> int:
        """Want these connectors, too; returns when (ms)."""
        self.wanted |= {name.replace("_", "-"): config for name, config in connectors.items()}
        desired = desired_of(self.group._with_journal(self.wanted))
        now_ms = time.time_ns() // 1_000_000
        self.leader.set_desired(desired)
        return now_ms

    def runs_after_s(self, name: str) -> float:
        """Want one more connector; returns how long it takes until its task runs."""
        since_ms = self.want(**{name: ONE})
        eventually(lambda: f"{name}-0" in self.journal.read().started_ms, 90, name)
        return (self.journal.started_ms[f"{name}-0"] - since_ms) / 1000

    def states(self) -> Counter[str]:
        """The number of members in each state."""
        known = self.leader.status()["reconciliation"] or {"members": {}}
        return Counter(each["state"] for each in known["members"].values())

    def say(self, took_s: list[float]) -> None:
        """Write the times to a log, which pytest shows if the test fails."""
        text = " ".join(f"{each:.2f}" for each in took_s)
        (self.group.directory / "took.log").write_text(f"{text}\n")

    def close(self) -> None:
        if self.light is not None:
            self.light.terminate()
            self.light.wait(60)


@pytest.fixture
def start(group: MemberGroup) -> Iterator[Callable[[tuple[str, ...]], Members]]:
    started: list[Members] = []

    def begin(light: tuple[str, ...]) -> Members:
        started.append(Members(group, light))
        return started[0]

    yield begin
    for members in started:
        members.close()


@pytest.mark.long("tests/leader/test_new_tasks.py::test_a_new_connector_does_not_wait_for_a_frozen_member")
def test_new_tasks_run_within_a_second_while_one_of_twenty_members_is_stopped(
    start: Callable[[tuple[str, ...]], Members],
) -> None:
    """Every second connector finds a member that has just been stopped, and that is next in line for it."""
    members, dice = start(LIGHT), Random(1)
    members.want(**{f"first-{number}": ONE for number in range(40)})
    eventually(lambda: len(members.journal.read().started_ms) == 40, 60)
    eventually(lambda: members.leader.status()["settled"], 60)
    generation = members.leader.status()["generation"]
    took_s: list[float] = []
    frozen = members.real[REAL[0]]
    frozen.freeze()
    for number in range(COUNT):
        if number % 2:
            frozen.signal(signal.SIGCONT)
            loads = members.journal.read().loads
            least = min(REAL, key=lambda identity: (loads[identity], dice.random()))
            frozen = members.real[least]
            time.sleep(dice.random())
            frozen.freeze()
            time.sleep(dice.choice([0.0, 0.0, 0.05, 0.3]))
        took_s.append(members.runs_after_s(f"new-{number}"))
    frozen.signal(signal.SIGCONT)
    took_s.sort()
    members.say(took_s)
    assert took_s[COUNT * 99 // 100 - 1] <= WITHIN_S, took_s
    assert sum(each > 0.3 for each in took_s) >= 10, "new tasks had to be withdrawn from frozen members"
    assert members.leader.status()["generation"] == generation, "the frozen members were in the group"
    eventually(lambda: members.leader.status()["settled"], 60)


@pytest.mark.long(
    "tests/leader/test_new_tasks.py::test_a_new_connector_does_not_wait_for_a_member_that_releases_slowly"
)
def test_new_tasks_run_within_a_second_while_members_are_slow_to_stop(
    start: Callable[[tuple[str, ...]], Members],
) -> None:
    """A sixth member joins, and each of the others takes 15 s to stop the task that it gives."""
    members = start(())
    slowly = {**ONE, "tasks.max": "30", "units": "30", "stop.delay.ms": "15000"}
    members.want(slow=slowly)
    eventually(lambda: len(members.journal.read().started_ms) == 30, 60)
    eventually(lambda: members.leader.status()["settled"], 60)
    members.group.facts(members.leader, (*REAL, "w-05"))
    members.start("w-05")
    eventually(lambda: members.states()["UNREVOKED_TASKS"] == len(REAL), 120, "each one gives a task")
    took_s = sorted(members.runs_after_s(f"new-{number}") for number in range(10))
    members.say(took_s)
    assert members.states()["UNREVOKED_TASKS"] == len(REAL), "they are still stopping"
    assert took_s[-1] <= WITHIN_S, took_s
    eventually(lambda: members.leader.status()["settled"], 60)
