"""A member that speaks the protocol by hand and can stop responding."""

from typing import Any

from kafka import errors
from kafka.protocol.consumer import JoinGroupRequest, SyncGroupRequest

from cooperator.group import GroupConfig
from cooperator.group.admin import GroupAdmin
from cooperator.group.library import new_loop
from cooperator.wire import Role


class SilentMember:
    """Completes rounds on request and sends no heartbeats, so only its timeouts end it."""

    def __init__(
        self, bootstrap_servers: str, group_id: str, session_timeout_ms: int, rebalance_timeout_ms: int
    ) -> None:
        self.config = GroupConfig(
            bootstrap_servers,
            group_id,
            "silent",
            Role.WORKER,
            session_timeout_ms=session_timeout_ms,
            rebalance_timeout_ms=rebalance_timeout_ms,
        )
        self._loop = new_loop(self.config)
        self._admin = GroupAdmin(self._loop, self.config)
        self.member_id = ""

    def join(self, *, goes_on: bool = True) -> None:
        """Returns when a round is complete. If a round fails, joins the next one when ``goes_on`` is set."""
        protocols = [(name, b"silent") for name in ("sessioned", "compatible", "default")]
        self.member_id = self._loop.run(self._admin.add_pending, protocols)
        while True:
            answer = self._ask(
                JoinGroupRequest(
                    group_id=self.config.group_id,
                    session_timeout_ms=self.config.session_timeout_ms,
                    rebalance_timeout_ms=self.config.rebalance_timeout_ms,
                    member_id=self.member_id,
                    protocol_type="connect",
                    protocols=protocols,
                )
            )
            assert answer.error_code == 0
            synced = self._ask(
                SyncGroupRequest(
                    group_id=self.config.group_id,
                    generation_id=answer.generation_id,
                    member_id=self.member_id,
                    protocol_type="connect",
                    protocol_name=answer.protocol_name,
                    assignments=[],
                )
            )
            if synced.error_code == errors.RebalanceInProgressError.errno:
                if goes_on:
                    continue
                return
            assert synced.error_code == 0
            return

    def close(self) -> None:
        """Closes the connection without LeaveGroup."""
        self._admin.close()
        self._loop.close()

    def _ask(self, request: Any) -> Any:
        return self._loop.run(self._admin._ask, request, 60_000)
