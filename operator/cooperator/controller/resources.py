"""Reads objects of the API as resources; keeps an unreadable one's error text and last good reading."""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from cooperator.controller.outputs import OutputsSeen
from cooperator.crd import Connector, ResourceError, Worker, from_object
from cooperator.crd.connector_names import Named

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Readings:
    """The last good reading of each object: an unreadable edit stops nothing.

    ``problems`` has the error texts of objects that are unreadable now, by kind and name.
    """

    problems: dict[tuple[str, str], str] = field(default_factory=dict)
    _good: dict[tuple[str, str], Worker | Connector] = field(default_factory=dict)

    def worker(self, body: Mapping[str, Any]) -> Worker | None:
        found = self._read(body)
        return found if isinstance(found, Worker) else None

    def connector(self, body: Mapping[str, Any]) -> Connector | None:
        found = self._read(body)
        return found if isinstance(found, Connector) else None

    def keep_only(self, names: frozenset[str]) -> None:
        """Forget connectors that are gone."""
        for board in (self.problems, self._good):
            for key in [key for key in board if key[0] == "Connector" and key[1] not in names]:
                del board[key]

    def _read(self, body: Mapping[str, Any]) -> Worker | Connector | None:
        kind = str(body.get("kind") or ("Connector" if "workerRef" in body.get("spec", {}) else "Worker"))
        key = (kind, str(body["metadata"]["name"]))
        try:
            found = from_object({"apiVersion": "cooperator.dev/v1alpha1", "kind": kind, **body})
        except (ResourceError, RecursionError) as error:
            self.problems[key] = _message(error)
            before = self._good.get(key)
            if before is not None and before.metadata.uid == body["metadata"].get("uid"):
                # Its metadata is readable, and its deletion must be seen.
                return before
            return None
        self.problems.pop(key, None)
        self._good[key] = found
        return found


def _message(error: ResourceError | RecursionError) -> str:
    if isinstance(error, RecursionError):
        return "the spec is nested too deep: remove the innermost mappings and lists"
    return "; ".join(problem.message for problem in error.problems)


@dataclass(frozen=True, slots=True)
class SeenConnectors:
    """A Worker's Connectors, those that live and those that are being deleted. ``kept`` has the Kafka names
    of those that cannot be read and never could be by this process. Of those that live, ``named`` says which
    are in effect under which name, and ``outputs`` which must not start."""

    living: tuple[Connector, ...] = ()
    ending: tuple[Connector, ...] = ()
    kept: frozenset[str] = frozenset()
    named: Named = field(default_factory=Named)
    outputs: OutputsSeen = field(default_factory=OutputsSeen)


def read_connectors(bodies: Iterable[Mapping[str, Any]], readings: Readings) -> SeenConnectors:
    """``bodies`` are all that refer to one Worker."""
    living: list[Connector] = []
    ending: list[Connector] = []
    kept: list[str] = []
    for body in bodies:
        try:
            connector = readings.connector(body)
        except Exception:
            # One that nobody can read must not keep the others from running.
            log.exception("Connector %s/%s", *map(body["metadata"].get, ("namespace", "name")))
            connector = None
        deleted = body["metadata"].get("deletionTimestamp") is not None
        if connector is not None:
            (ending if deleted else living).append(connector)
        elif not deleted:
            kept.append(connector_name(body))
    return SeenConnectors(tuple(living), tuple(ending), frozenset(kept))


def connector_name(body: Mapping[str, Any]) -> str:
    """The Kafka name of the Connector ``body``, even if it cannot be read."""
    spec = body.get("spec")
    named = spec.get("connectorName") if isinstance(spec, Mapping) else None
    return str(named or body["metadata"]["name"])
