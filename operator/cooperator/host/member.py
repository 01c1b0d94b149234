"""A Worker's resource as the options of its members' command (``cooperator worker``). Pure."""

from collections.abc import Sequence

from cooperator.crd import Worker, WorkerSpec
from cooperator.crd.spark import Spark


def member_options(worker: Worker, bootstrap_servers: str) -> Sequence[str]:
    """The options common to all members of a Worker on any platform, without identity and file locations.

    Defaults are omitted, so that a new release does not replace existing members.
    """
    spec = worker.spec
    options = {
        "--group-id": worker.group_id,
        "--bootstrap-servers": bootstrap_servers,
        "--session-timeout-ms": str(spec.session_timeout_ms),
        "--heartbeat-interval-ms": str(spec.heartbeat_interval_ms),
        "--rebalance-timeout-ms": str(spec.rebalance_timeout_ms),
        "--drain-timeout-ms": str(spec.drain_timeout_ms),
    }
    if spec.revocation_timeout_ms != WorkerSpec().revocation_timeout_ms:
        options["--revocation-timeout-ms"] = str(spec.revocation_timeout_ms)
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
        *(f"--allowed-path={path}" for path in sorted(spec.allowed_paths)),
        *(f"--allowed-file-reference={path}" for path in sorted(spec.allowed_file_references)),
    ]
