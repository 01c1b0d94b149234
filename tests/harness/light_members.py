"""Light members (``benchmarks.light``) as a process of their own, which write the journal of ``noop`` units.

The only argument is JSON: ``bootstrap_servers``, ``group_id``, ``identities``, ``journal``, and the times of
``GroupConfig``.
"""

import json
import os
import signal
import sys
import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.light import LightMember
from cooperator.connectors.noop import Noop
from cooperator.connectors.units import task_configs
from cooperator.group import GroupConfig
from cooperator.logs import Logs, LogsConfig, open_logs
from cooperator.model import Epoch, TaskId, TaskState, without_reserved
from cooperator.wire import Role


class JournalingMember(LightMember):
    """Appends a line for each start and stop of a task; real members can run the tasks of its connectors."""

    def __init__(self, config: GroupConfig, identity: str, logs: Logs, journal: Path) -> None:
        super().__init__(config, identity, logs, reconciles=True)
        self._journal = os.open(journal, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        self._attempts: dict[TaskId, int] = {}

    def task_configs(self, config: Mapping[str, str]) -> Sequence[Mapping[str, str]]:
        units = [f"unit-{number}" for number in range(int(config["units"]))]
        return task_configs(Noop(), without_reserved(config), units, int(config["tasks.max"]))

    def _say(self, task: TaskId, state: TaskState, epoch: Epoch) -> None:
        super()._say(task, state, epoch)
        if task.is_instance:
            return
        if state is TaskState.RUNNING:
            self._attempts[task] = epoch.generation
        line = {
            "task": str(task),
            "unit": f"unit-{task.task}",
            "member": self.identity,
            "incarnation": self.incarnation,
            "attempt": self._attempts[task],
            "event": "start" if state is TaskState.RUNNING else "stop",
            "at_ms": round(time.time() * 1000),
        }
        os.write(self._journal, json.dumps(line).encode() + b"\n")


def main() -> None:
    said: dict[str, Any] = json.loads(sys.argv[1])
    logs = open_logs(LogsConfig(said["bootstrap_servers"], said["group_id"]))
    members = []
    for identity in said["identities"]:
        config = GroupConfig(
            said["bootstrap_servers"],
            said["group_id"],
            f"{identity}-{uuid.uuid4().hex[:8]}",
            Role.WORKER,
            session_timeout_ms=said["session_timeout_ms"],
            heartbeat_interval_ms=said["heartbeat_interval_ms"],
        )
        members.append(JournalingMember(config, identity, logs, Path(said["journal"])))
    for member in members:
        member.start()
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    ended.wait()
    for member in members:
        member.stop()
    logs.close()


if __name__ == "__main__":
    main()
