"""The group as the leader in this process knows it (``parts.Group``), and its members' URLs."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cooperator.leader.leader_thread import LeaderThread
from cooperator.leader.ownership import GroupPolicy
from cooperator.leader.service import LeaderService
from cooperator.leader.stock.fencing import overrides
from cooperator.logs import Logs, LogUnavailable, fence_producers
from cooperator.logs.connect_offsets import kafka_cluster_id
from cooperator.model import ClusterConfig, SessionKey, TaskFencing
from cooperator.rest.answers import RequestRefused
from cooperator.wire import RestartRecord


class LedGroup:
    """``leader`` returns the present one, or None while there is none."""

    def __init__(self, leader: Callable[[], LeaderService | None]) -> None:
        self._leader = leader
        self._cluster_id = ""

    def status(self) -> Mapping[str, Any]:
        leader = self._leader()
        return {} if leader is None else leader.status()

    def config(self) -> ClusterConfig:
        current = self._current()
        return ClusterConfig() if current is None else current[1].config.snapshot()

    def adopts(self) -> bool:
        leader = self._leader()
        return leader is not None and leader.settings.group_policy is GroupPolicy.ADOPT

    def restart(self, record: RestartRecord) -> int:
        leader = self._leader()
        try:
            return 409 if leader is None else leader.restart(record)
        except (TimeoutError, LogUnavailable) as error:
            raise RequestRefused(
                503, f"the restart could not be written; try again: {error or 'no answer'}"
            ) from None

    def cluster_id(self) -> str:
        leader = self._leader()
        if leader is not None and not self._cluster_id:
            settings = leader.settings
            self._cluster_id = kafka_cluster_id(settings.bootstrap_servers, settings.log_security)
        return self._cluster_id

    def urls(self) -> Sequence[str]:
        """URLs of the members of the last round, without a final slash."""
        current = self._current()
        # The tuple is replaced as a whole, so any thread may read it.
        members = () if current is None else current[0].machine.state.members
        return tuple(member.url.rstrip("/") for member in members if member.url)

    def fence(self, connector: str) -> None:
        """Return when no producer of the connector's tasks can write any more (KIP-618), and at once without
        exactly-once sources. Raises RequestRefused 400 and 503."""
        leader, config = self._leader(), self.config()
        if leader is None or not leader.settings.exactly_once_source:
            return
        fencing, known = config.fencings.get(connector, TaskFencing()), config.connectors.get(connector)
        tasks = max(fencing.recorded or 0, len(known.tasks) if known is not None else 0)
        ids = [f"{leader.settings.group_id}-{connector}-{number}" for number in range(tasks)]
        try:
            own = overrides({} if known is None else known.config)
            fence_producers(leader.settings.logs_config(), ids, own)
        except ValueError as error:
            raise RequestRefused(400, f"admin.override.*: {error}") from None
        except LogUnavailable as error:
            message = f"producers of {connector} could not be fenced; try again: {error}"
            raise RequestRefused(503, message) from None

    def session_key(self) -> SessionKey | None:
        return self.config().session_key

    def _current(self) -> tuple[LeaderThread, Logs] | None:
        leader = self._leader()
        return None if leader is None else leader.current()
