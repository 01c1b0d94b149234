"""A group on a real broker: leaders in this process or in their own, members as process groups."""

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from cooperator.leader.service import LeaderService
from cooperator.local import processes
from cooperator.model import INSTANCE
from cooperator.planner.view import Facts
from tests.harness.journal import Journal
from tests.harness.leader_process import desired_of, settings_of
from tests.harness.support import eventually, freeze_group

HERE = Path(__file__).parent


@dataclass
class MemberProcess:
    """One incarnation of a member, with everything it started."""

    identity: str
    incarnation: str
    child: subprocess.Popen[bytes]
    group: "MemberGroup"

    def kill(self) -> None:
        """Send SIGKILL to all of it; returns when nothing of it is left."""
        processes.kill_all(self.incarnation)
        self.wait_ended()

    def wait_ended(self) -> None:
        """Return when nothing of it is left, which is the proof of its end."""
        self.child.wait(30)
        eventually(lambda: not processes.marked(self.incarnation), 30)
        self.group.journal.ended[self.incarnation] = _now_ms()
        self.group.ended.add((self.identity, self.incarnation))

    def jvm(self) -> int:
        """The process id of its JVM."""
        found = self._jvm()
        assert found is not None, f"{self.identity} has no JVM"
        return found

    def has_jvm(self) -> bool:
        return self._jvm() is not None

    def _jvm(self) -> int | None:
        with suppress(psutil.NoSuchProcess):
            for child in psutil.Process(self.child.pid).children():
                if child.name() == "java" and child.status() != psutil.STATUS_ZOMBIE:
                    return child.pid
        return None

    def signal(self, number: signal.Signals) -> None:
        os.killpg(self.child.pid, number)

    def freeze(self) -> None:
        freeze_group(self.child.pid)

    def terminate(self) -> None:
        os.kill(self.child.pid, signal.SIGTERM)


@dataclass
class LeaderProcess:
    child: subprocess.Popen[bytes]
    status_file: Path

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.status_file.read_text()) if self.status_file.exists() else {}
        return found

    def kill(self) -> None:
        self.child.kill()
        self.child.wait(30)
        self.status_file.unlink(missing_ok=True)


@dataclass
class MemberGroup:
    """One group. ``journal`` has what ran where, as the members reported it."""

    bootstrap_servers: str
    directory: Path
    group_id: str
    journal: Journal = field(init=False)
    ended: set[tuple[str, str]] = field(default_factory=set)
    members: list[MemberProcess] = field(default_factory=list)
    leaders: list[LeaderService] = field(default_factory=list)
    leader_processes: list[LeaderProcess] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.journal = Journal(self.directory / "journal.jsonl")

    def at_rest(self, leader: "LeaderService | LeaderProcess", identities: Sequence[str]) -> dict[str, str]:
        """Returns where tasks run, once all these members are in the group and nothing moves. One status has
        both: a group of the first members may be settled, too, and tasks move when others join."""

        def rests() -> bool:
            status = leader.status()
            members = {member["identity"] for member in status.get("members", ())}
            assert members == set(identities), members
            # A connector whose instance has not made its tasks yet moves nothing, either.
            made = {task["connector"] for task in status["tasks"] if task["task"] != INSTANCE}
            assert made == set(status["connectors"]), made
            return bool(status["settled"])

        eventually(rests, 120, "all members are in the group, and nothing moves")
        self.journal.at_rest()
        return self.journal.running()

    # --- leaders ---

    def leader(
        self, connectors: Mapping[str, Mapping[str, str]], expected: Sequence[str] = (), **said: Any
    ) -> LeaderService:
        """Start a leader in this process, so that a test can give it facts."""
        service = LeaderService(settings_of(self._said(connectors, expected, said)))
        service.start()
        service.set_facts(Facts(expected=frozenset(expected) or None))
        service.set_desired(desired_of(self._with_journal(connectors)))
        self.leaders.append(service)
        return service

    def leader_process(
        self, connectors: Mapping[str, Mapping[str, str]], expected: Sequence[str] = (), **said: Any
    ) -> LeaderProcess:
        """Start a leader that can be killed."""
        status_file = self.directory / f"leader-{uuid.uuid4().hex[:6]}.json"
        settings = {**self._said(connectors, expected, said), "status_file": str(status_file)}
        with (self.directory / "leader.log").open("ab") as log:
            child = subprocess.Popen(
                [sys.executable, str(HERE / "leader_process.py"), json.dumps(settings)],
                stdout=log,
                stderr=log,
            )
        process = LeaderProcess(child, status_file)
        self.leader_processes.append(process)
        return process

    def _with_journal(self, connectors: Mapping[str, Mapping[str, str]]) -> dict[str, dict[str, str]]:
        journal = {"journal": str(self.journal.path)}
        return {
            name: {**config, **(journal if config["connector.class"] == "noop" else {})}
            for name, config in connectors.items()
        }

    def _said(
        self,
        connectors: Mapping[str, Mapping[str, str]],
        expected: Sequence[str],
        said: dict[str, Any],
    ) -> dict[str, Any]:
        return {
            "bootstrap_servers": self.bootstrap_servers,
            "group_id": self.group_id,
            "connectors": self._with_journal(connectors),
            "expected": list(expected),
            **said,
        }

    def facts(self, service: LeaderService, expected: Sequence[str], **more: Any) -> None:
        """Give ``service`` a host's facts: who is expected, and whose end is proven."""
        service.set_facts(Facts(expected=frozenset(expected), ended=frozenset(self.ended), **more))

    # --- members ---

    def member(
        self,
        identity: str,
        inside: Sequence[str] = (),
        cold: bool = False,
        spark_conf: Mapping[str, str] | None = None,
        older: bool = False,
        **options: str,
    ) -> MemberProcess:
        """Start a member. ``inside`` prefixes its command, to run it somewhere else. A ``cold`` one can run
        nothing until ``warm_up``. An ``older`` one knows rounds only."""
        incarnation = uuid.uuid4().hex[:12]
        arguments = self._arguments(identity, incarnation, options)
        for name, value in (spark_conf or {}).items():
            arguments += ["--spark-conf", f"{name}={value}"]
        program = [str(HERE / "older_worker.py")] if older else ["-m", "cooperator.cli"]
        if cold:
            files = (self._warm_file(identity, said) for said in (True, False))
            program = [str(HERE / "slow_worker.py"), *map(str, files)]
        command = [*inside, sys.executable, *program, *arguments]
        child = processes.spawn(command, incarnation, self.directory / f"{identity}.log")
        member = MemberProcess(identity, incarnation, child, self)
        self.members.append(member)
        return member

    def warm_up(self, identity: str) -> None:
        """Let a cold member become warm."""
        self._warm_file(identity, said=True).touch()

    def warm_ms(self, identity: str) -> int:
        """When (ms since the epoch) a member that was cold became warm, by its own report."""
        return int(self._warm_file(identity, said=False).read_text())

    def _warm_file(self, identity: str, said: bool) -> Path:
        return self.directory / f"{identity}.{'warm-up' if said else 'warm'}"

    def _arguments(self, identity: str, incarnation: str, options: dict[str, str]) -> list[str]:
        said = {
            "group-id": self.group_id,
            "bootstrap-servers": self.bootstrap_servers,
            "identity": identity,
            "incarnation": incarnation,
            "state-dir": str(self.directory / identity),
            "checkpoints": str(self.directory / "checkpoints"),
            "runtime": "inline",
            "allowed-file-reference": str(self.directory.parent),
            "heartbeat-interval-ms": "1000",
            "session-timeout-ms": "6000",
            **{name.replace("_", "-"): value for name, value in options.items()},
        }
        return ["worker", *(word for name, value in said.items() for word in (f"--{name}", value))]

    # --- looking ---

    def runs(self, *tasks: str, timeout_s: float = 60) -> dict[str, str]:
        """See ``Journal.settled``."""
        return self.journal.settled(tasks, timeout_s)

    def starts(self) -> Counter[tuple[str, str]]:
        """Number of starts by (identity, task), from the members' logs."""
        return self._told(" starting ")

    def stops(self) -> Counter[tuple[str, str]]:
        """Number of requested stops by (identity, task), from the members' logs."""
        return self._told(" stopping ")

    def _told(self, word: str) -> Counter[tuple[str, str]]:
        found: Counter[tuple[str, str]] = Counter()
        for identity in {member.identity for member in self.members}:
            log = self.directory / f"{identity}.log"
            for line in log.read_text(errors="replace").splitlines() if log.exists() else ():
                if word in line and "(attempt" in line:
                    found[identity, line.split(word)[1].split()[0]] += 1
        return found

    def close(self) -> None:
        for service in self.leaders:
            service.stop()
        for process in self.leader_processes:
            if process.child.poll() is None:
                process.kill()
        for member in self.members:
            if member.child.poll() is None or processes.marked(member.incarnation):
                member.kill()
        for log in sorted(self.directory.glob("*.log")):
            # pytest shows this when the test has failed.
            print(f"--- {log.name}", *log.read_text(errors="replace").splitlines()[-25:], sep="\n")
        assert self.journal.doubled() == []


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
