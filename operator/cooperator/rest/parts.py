"""The front's dependencies. All calls may block; each raises RequestRefused with the code to answer."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from cooperator.connectors.offsets import Change, Entry, Where
from cooperator.connectors.state_query import StateQuery
from cooperator.crd import Connector
from cooperator.model import ClusterConfig
from cooperator.rest.answers import Right
from cooperator.wire import RestartRecord


class ChangeVerb(StrEnum):
    ALTER = "alter"
    RESET = "reset"
    MIGRATE = "migrate"


@dataclass(frozen=True, slots=True)
class OffsetChange:
    """A change of a connector's offsets. ``entries`` are those of ``alter``; ``to`` is that of ``reset``:
    without it everything is forgotten."""

    do: ChangeVerb
    entries: tuple[Entry, ...] = ()
    to: Where | None = None
    dry_run: bool = False


Entries = Sequence[tuple[Mapping[str, Any], Mapping[str, Any] | None]]
"""(partition, offset) of a source or a sink; an offset of None forgets the partition's."""


class Connectors(Protocol):
    """The Connectors of the Worker's namespace."""

    def all(self) -> Sequence[Connector]:
        """The Connectors of this Worker."""
        ...

    def find(self, name: str) -> Connector | None:
        """The Connector of this Worker with this name in Kafka."""
        ...

    def resource(self, name: str) -> Connector | None:
        """The Connector with this resource name, even of another Worker: names are unique in a namespace."""
        ...

    def create(self, connector: Connector) -> None:
        """Raises RequestRefused 409 if the name exists, and 400 if the Connector is not accepted."""
        ...

    def change(self, before: Connector, after: Connector) -> None:
        """Raises RequestRefused 403 if another manager owns a changed field, and 409 on a concurrent
        change."""
        ...

    def delete(self, connector: Connector) -> None:
        """Raises RequestRefused 403 like ``change``."""
        ...


class Authorizer(Protocol):
    """Authentication and authorization."""

    def permit(self, authorization: str, right: Right) -> None:
        """Return if the bearer of the header ``authorization`` has ``right``. Raises RequestRefused 401 for
        an unknown caller, 403 without the right, and 503 if that cannot be determined."""
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
        """Below 300 on success; 404: not configured; 409: no leader; 503: its worker does not answer."""
        ...

    def cluster_id(self) -> str:
        """The Kafka cluster's id; empty if the broker does not report it."""
        ...


class Members(Protocol):
    """Operations that require the members, or code with access to their connector classes."""

    def wrong_name(self, name: str) -> str:
        """Returns why no connector of theirs can have this name, with the remedy; empty if one can."""
        ...

    def plugins(self, connectors_only: bool) -> list[dict[str, Any]]: ...

    def plugin_config(self, name: str) -> list[dict[str, Any]]: ...

    def validate(self, name: str, config: Mapping[str, str]) -> dict[str, Any]:
        """Kafka's ConfigInfos."""
        ...

    def type_of(self, class_name: str) -> str:
        """source, sink or unknown."""
        ...

    def topics(self, name: str) -> list[str]:
        """The topics used by a connector since its creation (KIP-558); empty if they are not tracked."""
        ...

    def loggers(self) -> dict[str, Any]: ...

    def logger(self, name: str) -> dict[str, Any]: ...

    def set_level(self, name: str, level: str, scope: str) -> list[str] | None:
        """The changed loggers of one member, or None if all members were asked."""
        ...


class Offsets(Protocol):
    """The offsets of a connector's source or sink. No task of it runs when they are changed.

    ``config`` is flat, as the API shows it.
    """

    def listed(self, name: str, config: Mapping[str, str]) -> list[dict[str, Any]]:
        """``{"partition", "offset"}`` of each."""
        ...

    def alter(self, name: str, config: Mapping[str, str], entries: Entries) -> str:
        """A sentence that says what was done."""
        ...

    def reset(self, name: str, config: Mapping[str, str]) -> str: ...

    def changed(self, name: str, config: Mapping[str, str], asked: OffsetChange) -> list[Change]:
        """Makes the change, or, for a dry run, only returns what it would be."""
        ...

    def state(self, name: str, config: Mapping[str, str], query: StateQuery) -> dict[str, Any]:
        """Rows of the state of its queries: ``{"rows", "cut"}``. Its tasks may run."""
        ...

    def migrate(self, name: str, config: Mapping[str, str]) -> str:
        """Takes over the positions that an earlier release kept in checkpoints."""
        ...
