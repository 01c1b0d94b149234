"""Measures how long new tasks of a group take until they run, in rounds and without.

    python -m benchmarks.reconciled --members 10 --tasks 900

Members are light ones (``light``) and the leader is the real one, all in this process; the broker is real.
The time runs from the desired connector to the last task, as the members say. It contains the record of the
connector, the start of its instance, its task configurations, and the tasks. The processor time of this
process is in the report, since all members share it.
"""

import json
import resource
import tempfile
import time
import uuid
from pathlib import Path
from typing import Any

import typer

from benchmarks.light import LightMember
from cooperator.group import GroupConfig
from cooperator.leader.service import LeaderService
from cooperator.local.broker import EmbeddedBroker
from cooperator.logs import LogsConfig, open_logs
from cooperator.model import Desired, DesiredConnector
from cooperator.wire import Role
from tests.harness.leader_process import settings_of
from tests.harness.support import eventually

WITHIN_S = 120.0


def main(members: int = 10, tasks: int = 900, times: int = 5) -> None:
    """Print one line of JSON for each protocol."""
    with tempfile.TemporaryDirectory() as directory:
        broker = EmbeddedBroker(Path(directory))
        broker.start()
        try:
            for reconciles in (False, True):
                typer.echo(json.dumps(measure(broker.bootstrap_servers, members, tasks, times, reconciles)))
        finally:
            broker.stop()


def measure(servers: str, count: int, tasks: int, times: int, reconciles: bool) -> dict[str, Any]:
    group_id = f"bench-{uuid.uuid4().hex[:8]}"
    policy = {"reconciles": reconciles, "join_wait_ms": 0}
    said = {"bootstrap_servers": servers, "group_id": group_id, "policy": policy}
    leader = LeaderService(settings_of(said))
    leader.start()
    eventually(lambda: leader.status().get("leading"), 60)
    logs = open_logs(LogsConfig(servers, group_id))
    members = [
        LightMember(
            GroupConfig(servers, group_id, f"w-{number}-{uuid.uuid4().hex[:8]}", Role.WORKER),
            f"w-{number}",
            logs,
            reconciles=reconciles,
        )
        for number in range(count)
    ]
    try:
        for member in members:
            member.start()
        wanted = "reconciled" if reconciles else "sessioned"
        eventually(lambda: is_complete(leader, count, wanted), 60, f"{count} members in {wanted}")
        took_s = []
        began_cpu = cpu_s()
        began = time.monotonic()
        for number in range(times):
            connectors = {f"c{each}": connector(tasks) for each in range(number + 1)}
            since = time.monotonic()
            leader.set_desired(Desired(number + 1, connectors))
            eventually(lambda: running(members) == (number + 1) * (tasks + 1), WITHIN_S)  # noqa: B023
            took_s.append(round(time.monotonic() - since, 2))
        share = (cpu_s() - began_cpu) / (time.monotonic() - began)
        return {
            "protocol": wanted,
            "members": count,
            "tasks": tasks,
            "took_s": took_s,
            "generation": leader.status()["generation"],
            "processors": round(share, 2),
        }
    finally:
        for member in members:
            member.stop()
        leader.stop()
        logs.close()


def connector(tasks: int) -> DesiredConnector:
    return DesiredConnector({"connector.class": "noop", "tasks.max": str(tasks), "units": str(tasks)})


def running(members: list[LightMember]) -> int:
    return sum(len(member.owned) for member in members)


def is_complete(leader: LeaderService, count: int, protocol: str) -> bool:
    status = leader.status()
    return len(status.get("members", ())) == count and status["protocol"] == protocol


def cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    typer.run(main)
