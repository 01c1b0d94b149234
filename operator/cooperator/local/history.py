"""Reads the task history of a Worker on this machine from its logs."""

from collections.abc import Mapping
from typing import Any

from cooperator.local.layout import ClusterError
from cooperator.logs import KafkaTransport, LogHistory, LogsConfig, LogUnavailable, read_history
from cooperator.model.text import hinted


def history_of(view: Mapping[str, Any], namespace: str, worker: str) -> LogHistory:
    """Reads the logs of the group of ``worker``; ``view`` is the daemon's. Raises ``ClusterError``."""
    groups = {(group["namespace"], group["worker"]): group for group in view["groups"]}
    group = groups.get((namespace, worker))
    if group is None or "group_id" not in group:
        known = ", ".join(name for _, name in groups) or "none"
        remedy = hinted(worker, (name for _, name in groups), f"known: {known}")
        raise ClusterError(f"no group is running for worker {worker!r}; {remedy}")
    found = [w for w in view["workers"] if w["metadata"]["name"] == worker]
    own = next((w["spec"].get("bootstrapServers") for w in found), None)
    config = LogsConfig(own or view["bootstrap_servers"], group["group_id"])
    try:
        return read_history(
            KafkaTransport(config.bootstrap_servers, f"{config.group_id}-inspector", {}), config
        )
    except LogUnavailable as error:
        raise ClusterError(f"the logs of {worker} cannot be read: {error}") from None
