"""Objects of the API as resources; what cannot be read, in words, and what was there before in its place."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cooperator.crd import Connector, ResourceError, Worker, from_object


@dataclass(slots=True)
class Readings:
    """The last good reading of each object: nothing is stopped because somebody wrote something unreadable.

    ``problems``: by kind and name, of what cannot be read now.
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
        except ResourceError as error:
            self.problems[key] = "; ".join(problem.message for problem in error.problems)
            before = self._good.get(key)
            if before is not None and before.metadata.uid == body["metadata"].get("uid"):
                # Its metadata is not at fault: that it is to go must be seen.
                return before
            return None
        self.problems.pop(key, None)
        self._good[key] = found
        return found
