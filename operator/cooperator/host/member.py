"""A Worker's resource as the options of its members' command (``cooperator worker``). Pure."""

from collections.abc import Sequence

from cooperator.crd import Worker
from cooperator.crd.spark import Spark


def member_options(worker: Worker, bootstrap_servers: str) -> Sequence[str]:
    """What all members of a Worker are told, wherever they run; not who they are, nor where their files lie.

    What is as it always was is not written: members of before would be replaced for nothing.
    """
    spec = worker.spec
    options = {
        "--group-id": worker.group_id,
        "--bootstrap-servers": bootstrap_servers,
        "--session-timeout-ms": str(spec.session_timeout_ms),
        "--heartbeat-interval-ms": str(spec.heartbeat_interval_ms),
        "--rebalance-timeout-ms": str(spec.rebalance_timeout_ms),
        "--drain-timeout-ms": str(spec.drain_timeout_seconds * 1000),
    }
    if spec.spark.heap_mb != Spark().heap_mb:
        options["--heap-mb"] = str(spec.spark.heap_mb)
    if spec.capacity != 1.0:
        options["--capacity"] = str(spec.capacity)
    return [
        *(word for option in options.items() for word in option),
        *(f"--spark-conf={name}={value}" for name, value in sorted(spec.spark.conf.items())),
        *(f"--spark-package={package}" for package in spec.spark.packages),
        *(f"--spark-jar={jar}" for jar in spec.spark.jars),
        *(f"--env-allowed={name}" for name in sorted(spec.env_allowed)),
    ]
