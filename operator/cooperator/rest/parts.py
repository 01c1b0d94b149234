"""What the front asks of the world. All calls may block; each raises Refused with the code to answer."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from cooperator.crd import Connector
from cooperator.model import ClusterConfig
from cooperator.rest.answers import Right
from cooperator.wire import RestartRecord

Entries = Sequence[tuple[Mapping[str, Any], Mapping[str, Any] | None]]
"""(partition, offset) of a source or a sink; an offset of None forgets the partition's."""


class Connectors(Protocol):
    """The Connectors of the Worker's namespace."""

    def all(self) -> Sequence[Connector]:
        """Those of this Worker."""
        ...

    def find(self, name: str) -> Connector | None:
        """Also one of another Worker: a namespace has each name once."""
        ...

    def create(self, connector: Connector) -> None:
        """Refused 409 where there is one of that name, 400 where it is not accepted."""
        ...

    def change(self, before: Connector, after: Connector) -> None:
        """Refused 403 where somebody else manages what would change, 409 where it has changed meanwhile."""
        ...

    def delete(self, connector: Connector) -> None:
        """Refused 403 as ``change``."""
        ...


class Access(Protocol):
    """Who may do what."""

    def permit(self, authorization: str, right: Right) -> None:
        """Return where the bearer of the header ``authorization`` has ``right``; Refused 401 for somebody
        unknown, 403 for one who has not, 503 where that cannot be told."""
        ...


class Group(Protocol):
    """The group as its leader knows it."""

    def status(self) -> Mapping[str, Any]:
        """The leader's projection; empty while there is none."""
        ...

    def config(self) -> ClusterConfig: ...

    def adopts(self) -> bool:
        """Whether connectors of the config topic that have no resource stay as they are."""
        ...

    def restart(self, record: RestartRecord) -> int:
        """Below 300; 404 for what is not configured; 409 while nobody leads; 503: its worker is silent."""
        ...

    def cluster_id(self) -> str:
        """Kafka's; empty if the broker does not say."""
        ...


class Members(Protocol):
    """What only members know, or those who know their classes."""

    def plugins(self, connectors_only: bool) -> list[dict[str, Any]]: ...

    def plugin_config(self, name: str) -> list[dict[str, Any]]: ...

    def validate(self, name: str, config: Mapping[str, str]) -> dict[str, Any]:
        """Kafka's ConfigInfos."""
        ...

    def type_of(self, class_name: str) -> str:
        """source, sink or unknown."""
        ...

    def topics(self, name: str) -> list[str]:
        """What a connector has read or written since it was made (KIP-558); empty where nobody tracks it."""
        ...

    def loggers(self) -> dict[str, Any]: ...

    def logger(self, name: str) -> dict[str, Any]: ...

    def set_level(self, name: str, level: str, scope: str) -> list[str] | None:
        """The loggers of one member that have changed; None where all members were told."""
        ...


class Offsets(Protocol):
    """Where a connector's source, or sink, stands. Nothing of it runs when they are changed.

    ``config``: flat, as the API shows it.
    """

    def listed(self, name: str, config: Mapping[str, str]) -> list[dict[str, Any]]:
        """``{"partition", "offset"}`` of each."""
        ...

    def alter(self, name: str, config: Mapping[str, str], entries: Entries) -> str:
        """What was done, as a sentence."""
        ...

    def reset(self, name: str, config: Mapping[str, str]) -> str: ...
