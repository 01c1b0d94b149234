"""Settings of a membership: which client joins which group, and its time-outs."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from cooperator.model.text import hinted
from cooperator.wire import Role

_SECURITY_PREFIXES: Final = ("ssl_", "sasl_")
_SECURITY_NAMES: Final = frozenset({"security_protocol", "proxy_url", "client_dns_lookup"})

_SECURITY_EXAMPLES: Final = ("ssl_cafile", "sasl_mechanism")


@dataclass(frozen=True, slots=True)
class GroupConfig:
    """The settings of a membership. Raises ValueError that names the field, its value and the remedy.

    * ``bootstrap_servers``: ``host:port`` separated by commas.
    * ``client_id``: names this incarnation; the broker derives a dynamic member's id from it.
    * ``group_instance_id``: only for the leader, which is a static member (KIP-345) so that a restart within
      its session time-out triggers no rebalance. Workers are dynamic.
    * ``session_timeout_ms``: the broker drops the member after this silence. Between the broker's
      ``group.min.session.timeout.ms`` and ``group.max.session.timeout.ms``.
    * ``rebalance_timeout_ms``: how long a round waits for this member, and for the leader's plan.
    * ``security``: settings by kafka-python's names (``security_protocol``, ``ssl_…``, ``sasl_…``); never
      shown.
    """

    bootstrap_servers: str
    group_id: str
    client_id: str
    role: Role
    group_instance_id: str | None = None
    session_timeout_ms: int = 10_000
    heartbeat_interval_ms: int = 3_000
    rebalance_timeout_ms: int = 30_000
    security: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        for name in ("bootstrap_servers", "group_id", "client_id"):
            if not getattr(self, name):
                raise ValueError(f"{name} is empty: set it")
        self._check_times()
        if self.role is Role.LEADER and not self.group_instance_id:
            raise ValueError(
                "group_instance_id is empty: the leader is a static member; derive it from cluster, "
                "namespace and Worker"
            )
        if self.role is Role.WORKER and self.group_instance_id is not None:
            raise ValueError(
                f"group_instance_id {self.group_instance_id!r}: workers are dynamic members, since an "
                "assignment of an earlier incarnation must not be restored; remove it"
            )
        for name in self.security:
            if name not in _SECURITY_NAMES and not name.startswith(_SECURITY_PREFIXES):
                raise ValueError(
                    f"security: unknown setting {name!r}; "
                    + hinted(
                        name,
                        (*_SECURITY_NAMES, *_SECURITY_EXAMPLES),
                        f"use kafka-python's names: security_protocol, {', '.join(_SECURITY_EXAMPLES)}, …",
                    )
                )

    def _check_times(self) -> None:
        for name in ("session_timeout_ms", "heartbeat_interval_ms", "rebalance_timeout_ms"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} is {getattr(self, name)}: it must be greater than 0")
        if self.heartbeat_interval_ms * 3 > self.session_timeout_ms:
            raise ValueError(
                f"heartbeat_interval_ms {self.heartbeat_interval_ms}: at most a third of session_timeout_ms "
                f"({self.session_timeout_ms}), so that one lost heartbeat does not end the membership"
            )
        if self.rebalance_timeout_ms <= self.heartbeat_interval_ms:
            raise ValueError(
                f"rebalance_timeout_ms {self.rebalance_timeout_ms}: must be greater than "
                "heartbeat_interval_ms "
                f"({self.heartbeat_interval_ms}), by which members learn of a round"
            )
