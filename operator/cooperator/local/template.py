"""What a Worker's members are started with: its resource as command lines."""

import sys
from collections.abc import Callable, Sequence

from cooperator.crd import Worker
from cooperator.crd.worker import Spark
from cooperator.local.layout import WorkerDir

MemberCommand = Callable[[Worker, str, str, str], Sequence[str]]
"""(worker, bootstrap servers, identity, incarnation) to the command of a member's process."""


def member_command(directory: WorkerDir) -> MemberCommand:
    """How members are started that keep their files below ``directory``."""

    def command(worker: Worker, bootstrap_servers: str, identity: str, incarnation: str) -> list[str]:
        spec = worker.spec
        options = {
            "--group-id": worker.group_id,
            "--bootstrap-servers": bootstrap_servers,
            "--identity": identity,
            "--incarnation": incarnation,
            "--state-dir": str(directory.members / identity),
            "--checkpoints": spec.checkpoint_location or str(directory.checkpoints),
            "--session-timeout-ms": str(spec.session_timeout_ms),
            "--heartbeat-interval-ms": str(spec.heartbeat_interval_ms),
            "--rebalance-timeout-ms": str(spec.rebalance_timeout_ms),
            "--drain-timeout-ms": str(spec.drain_timeout_seconds * 1000),
        }
        # What is as it always was is not written: members of before would be replaced for nothing.
        if spec.spark.heap_mb != Spark().heap_mb:
            options["--heap-mb"] = str(spec.spark.heap_mb)
        if spec.capacity != 1.0:
            options["--capacity"] = str(spec.capacity)
        conf = [
            *(f"--spark-conf={name}={value}" for name, value in sorted(spec.spark.conf.items())),
            *(f"--env-allowed={name}" for name in sorted(spec.env_allowed)),
        ]
        return [
            *(sys.executable, "-m", "cooperator.cli", "worker"),
            *(word for option in options.items() for word in option),
            *conf,
        ]

    return command
