"""Measures what a change costs in groups of several sizes that reconcile without rounds, on a real broker.

    python -m benchmarks.reconciled_scale measure results.jsonl      10 to 1,000 members, 400 to 40,000 tasks
    python -m benchmarks.reconciled_scale page results.jsonl         docs/evidence/reconciliation.md

The broker has its defaults, the leader is the real one in a process of its own, and light members are in
another (``crowd``). Times run from the desired connectors to the last start at a member. Bytes on the
broker's disk are those of the group's topics, with the batches and markers of transactions.
"""

import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import psutil
import typer

from benchmarks import reconciled_page
from benchmarks.crowd import Said, Seen
from cooperator.local.broker import EmbeddedBroker
from tests.harness.support import eventually

SIZES: Final = ((10, 400), (100, 4_000), (300, 12_000), (1_000, 40_000))
"""Numbers of members, and of tasks."""
TASKS_PER_CONNECTOR: Final = 200
REPEATS: Final = 10
CHANGES: Final = (1, 10, 100, 1_000)
"""Numbers of tasks of one new connector, in the largest group."""
WITHIN_S: Final = 600.0
LEADER: Final = """
import json, sys
from cooperator.leader.service import LeaderService
from cooperator.model import Desired, DesiredConnector
from tests.harness.leader_process import settings_of

service = LeaderService(settings_of(json.loads(sys.argv[1])))
service.start()
for number, line in enumerate(sys.stdin, 1):
    if line.strip():
        wanted = {
            name: DesiredConnector({"connector.class": "noop", "tasks.max": str(n), "units": str(n)})
            for name, n in json.loads(line).items()
        }
        service.set_desired(Desired(number, wanted))
    # The status of 40,000 tasks takes longer than what is measured.
    state = service._lead.machine.state if service._lead is not None else None
    group = None if state is None else state.group
    said = {
        "leading": state is not None and state.leading,
        "members": 0 if state is None else len(state.members),
        "protocol": "" if state is None else state.protocol,
        "generation": 0 if state is None else state.generation,
        "settled": group is not None and group.is_settled,
    }
    print(json.dumps(said), flush=True)
service.stop()
"""

app = typer.Typer(add_completion=False)


@dataclass
class Helper:
    """A process that answers each line with a line of JSON."""

    command: list[str]
    child: "subprocess.Popen[str]" = field(init=False)

    def __post_init__(self) -> None:
        self.child = subprocess.Popen(
            self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ}
        )

    def ask(self, line: str = "") -> dict[str, Any]:
        assert self.child.stdin is not None
        assert self.child.stdout is not None
        self.child.stdin.write(f"{line}\n")
        self.child.stdin.flush()
        found: dict[str, Any] = json.loads(self.child.stdout.readline())
        return found

    def cpu_s(self) -> float:
        used = psutil.Process(self.child.pid).cpu_times()
        return float(used.user + used.system)

    def stop(self) -> None:
        assert self.child.stdin is not None
        self.child.stdin.close()
        try:
            self.child.wait(30)
        except subprocess.TimeoutExpired:
            self.child.kill()


class Group:
    """One group: its leader, its members, and its topics."""

    def __init__(self, broker: EmbeddedBroker, data: Path, members: int) -> None:
        self.group_id = f"bench-{uuid.uuid4().hex[:8]}"
        self.count = members
        self._data = data
        self.wanted: dict[str, int] = {}
        policy = {"reconciles": True, "join_wait_ms": 0, "lease_ms": 120_000}
        leads = {"bootstrap_servers": broker.bootstrap_servers, "group_id": self.group_id, "policy": policy}
        said = {**leads, "session_timeout_ms": 60_000, "rebalance_timeout_ms": 90_000}
        self.leader = Helper([sys.executable, "-c", LEADER, json.dumps(said)])
        eventually(lambda: self.leader.ask()["leading"], 120, "the leader leads")
        began = time.monotonic()
        crowd = Said(broker.bootstrap_servers, self.group_id, members)
        words = {name: getattr(crowd, name) for name in Said.__dataclass_fields__}
        self.crowd = Helper([sys.executable, "-m", "benchmarks.crowd", json.dumps(words)])
        eventually(self._is_complete, WITHIN_S, f"{members} members without rounds")
        self.joined_s = time.monotonic() - began

    def _is_complete(self) -> bool:
        status = self.leader.ask()
        is_reconciled = status["members"] == self.count and status["protocol"] == "reconciled"
        return is_reconciled and self.seen().reconciled == self.count

    def seen(self) -> Seen:
        return Seen(**self.crowd.ask())

    def disk_bytes(self) -> int:
        """The size of the group's topics."""
        return sum(each.stat().st_size for each in self._data.glob(f"{self.group_id}-*/*.log"))

    def change(self, **connectors: int) -> dict[str, Any]:
        """Want these connectors, too (numbers of tasks by name); returns what that took."""
        before, disk = self.seen(), self.disk_bytes()
        cpu = self.leader.cpu_s(), self.crowd.cpu_s()
        self.wanted |= connectors
        new = sum(connectors.values()) + len(connectors)
        since_ms = time.time_ns() // 1_000_000
        self.leader.ask(json.dumps(self.wanted))
        eventually(lambda: self.seen().owned == before.owned + new, WITHIN_S, f"{new} more run")
        after = self.seen()
        eventually(lambda: self.leader.ask()["settled"], WITHIN_S, "the group is settled")
        # The transaction that follows the last report is on the disk, too.
        last = self.seen()
        return {
            "tasks": sum(connectors.values()),
            "took_ms": after.last_start_ms - since_ms,
            "requests": last.exchanges - before.exchanges + last.posts - before.posts,
            "http_bytes": last.bytes - before.bytes,
            "disk_bytes": self.disk_bytes() - disk,
            "members": last.concerned - before.concerned,
            "stops": last.stops - before.stops,
            "leader_cpu_s": round(self.leader.cpu_s() - cpu[0], 2),
            "members_cpu_s": round(self.crowd.cpu_s() - cpu[1], 2),
        }

    def stop(self) -> None:
        self.crowd.stop()
        self.leader.stop()


@app.command()
def measure(results: Path, least: int = SIZES[0][0], largest: int = SIZES[-1][0]) -> None:
    """Measure groups of these numbers of members; append a line of JSON for each to ``results``."""
    with tempfile.TemporaryDirectory() as directory:
        broker = EmbeddedBroker(Path(directory))
        broker.start(timeout_s=300)
        try:
            for members, tasks in SIZES:
                if least <= members <= largest:
                    is_last = members == SIZES[-1][0]
                    line = measured(broker, Path(directory) / "data", members, tasks, is_last)
                    with results.open("a") as file:
                        file.write(json.dumps(line) + "\n")
                    typer.echo(json.dumps(line))
        finally:
            broker.stop()


def measured(broker: EmbeddedBroker, data: Path, members: int, tasks: int, is_last: bool) -> dict[str, Any]:
    group = Group(broker, data, members)
    try:
        connectors = {f"c{n}": TASKS_PER_CONNECTOR for n in range(tasks // TASKS_PER_CONNECTOR)}
        everything = group.change(**connectors)
        rest_s = group.seen(), time.monotonic()
        ones = [group.change(**{f"one-{number}": 1}) for number in range(REPEATS)]
        many = [group.change(**{f"many-{count}": count}) for count in CHANGES[1:]] if is_last else []
        idle = (group.seen().idle - rest_s[0].idle) / (time.monotonic() - rest_s[1])
        return {
            "members": members,
            "tasks": tasks,
            "joined_s": round(group.joined_s, 1),
            "everything": everything,
            "one_more": median(ones),
            "took_ms": [each["took_ms"] for each in ones],
            "more": many,
            "idle_reports_per_s": round(idle, 1),
            "load": round(os.getloadavg()[0], 1),
            "failures": group.seen().failures,
            "generations": group.leader.ask()["generation"],
        }
    finally:
        group.stop()


def median(changes: list[dict[str, Any]]) -> dict[str, float]:
    names = itertools.chain(*changes[:1])
    return {name: round(statistics.median(each[name] for each in changes), 2) for name in names}


@app.command()
def page(results: Path) -> None:
    """Write the page and its picture from ``results``."""
    reconciled_page.write([json.loads(line) for line in results.read_text().splitlines()])


if __name__ == "__main__":
    app()
