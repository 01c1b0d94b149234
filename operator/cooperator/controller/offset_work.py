"""Carries out what a Connector's annotations request about its offsets (``offset_requests``).

A member, or for stock workers this process, makes the change, as for Kafka Connect's REST API. It may take as
long as a store or a database takes, so that threads do it, and not the Worker's loop.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any, Final

from cooperator.controller.api.client import CONNECTORS, Api
from cooperator.controller.api.recorder import Recorder
from cooperator.controller.names import OFFSETS_REQUEST, OFFSETS_RESULT
from cooperator.controller.observe import Body
from cooperator.controller.offset_requests import (
    FINAL,
    CarryOutRequest,
    OffsetRequest,
    RecordResult,
    RequestPhase,
    fitting,
    mark_of,
    read_result,
    remembered,
    result,
    step,
)
from cooperator.controller.story import Happening
from cooperator.crd import Connector, Worker
from cooperator.host.at_rest import why_not_at_rest
from cooperator.host.known import Leader
from cooperator.leader.service import LeaderService
from cooperator.model.text import counted
from cooperator.model.visible import to_visible_json
from cooperator.rest.answers import RequestRefused
from cooperator.rest.led import LedGroup
from cooperator.rest.of_worker import offsets_of
from cooperator.rest.parts import Offsets
from cooperator.rest.translate import flat

log = logging.getLogger(__name__)

_THREADS: Final = 2
Result = dict[str, Any]
Operations = Callable[[Worker, Callable[[], LeaderService | None]], Offsets]


class OffsetWork:
    """Used by one Worker's thread. ``leader`` returns the Worker's present one; any thread may call it.
    ``saw`` receives the answers of the API server."""

    def __init__(
        self,
        api: Api,
        leader: Callable[[], LeaderService | None],
        saw: Callable[[Body], None],
        threads: Executor | None = None,
        operations: Operations = offsets_of,
    ) -> None:
        self._api = api
        self._leader = leader
        self._saw = saw
        self._operations = operations
        self._recorder = Recorder(api)
        self._threads = threads or ThreadPoolExecutor(_THREADS, "offsets")
        self._begun: dict[tuple[str, str], Future[Result]] = {}
        """By uid and mark: what this process carries out, or has carried out."""

    def keep(
        self, worker: Worker, connectors: Mapping[str, Connector], bodies: Iterable[Body], facts: Leader
    ) -> None:
        """Takes up new requests and records results. ``connectors`` are those in effect. Raises ApiError."""
        named = {each.metadata.name: each for each in connectors.values()}
        asking = set()
        for body in bodies:
            metadata = body["metadata"]
            annotations = metadata.get("annotations") or {}
            text, connector = annotations.get(OFFSETS_REQUEST), named.get(metadata["name"])
            if text is None or connector is None or metadata.get("deletionTimestamp"):
                continue
            key = (str(metadata["uid"]), mark_of(text))
            asking.add(key)
            known = read_result(annotations.get(OFFSETS_RESULT))
            begun = self._begun.get(key)
            if begun is not None:
                is_recorded = known.get("request") == key[1] and known.get("phase") in FINAL
                if begun.done() and not is_recorded:
                    self._record(body, known, begun.result(0))
                continue
            match step(text, known, connector, facts, begun_here=False):
                case RecordResult(phase, message):
                    change = {"change": True} if known.get("phase") == RequestPhase.STARTED else {}
                    self._record(body, known, result(text, phase, message, **change))
                case CarryOutRequest(request):
                    if _mark(request):
                        self._record(body, known, result(text, RequestPhase.STARTED, **_mark(request)))
                    self._begun[key] = self._threads.submit(
                        self._carried_out, text, request, worker, connector
                    )
        self._begun = {key: work for key, work in self._begun.items() if key in asking or not work.done()}

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _carried_out(self, text: str, request: OffsetRequest, worker: Worker, connector: Connector) -> Result:
        name, config = connector.connector_name, flat(connector)
        try:
            offsets = self._operations(worker, self._leader)
            if request.query is not None:
                return result(text, RequestPhase.DONE, **offsets.state(name, config, request.query))
            if request.change is None:
                found = offsets.listed(name, config)
                return result(text, RequestPhase.DONE, **fitting("offsets", found[request.skip :]))
            # The facts may be a second old.
            if reason := why_not_at_rest(connector, LedGroup(self._leader).status()):
                return result(text, RequestPhase.REFUSED, reason)
            changes = offsets.changed(name, config, request.change)
        except RequestRefused as refused:
            return result(text, RequestPhase.REFUSED, str(refused), **_mark(request))
        except Exception as error:
            log.exception("the offsets of %s", name)
            why = f"{type(error).__name__}; see the operator's log"
            return result(text, RequestPhase.REFUSED, why, **_mark(request))
        plain = [{"partition": c.partition, "before": c.before, "after": c.after} for c in changes]
        would = "would change" if request.change.dry_run else "changed"
        said = f"{request.change.do.value}: {counted(len(changes), 'position')} {would}"
        return result(text, RequestPhase.DONE, said, **_mark(request), **fitting("changes", plain))

    def _record(self, body: Body, known: Mapping[str, Any], answer: Result) -> None:
        found = remembered(known, answer)
        metadata = body["metadata"]
        annotations = {OFFSETS_RESULT: to_visible_json(found)}
        patch = {"metadata": {"uid": metadata["uid"], "annotations": annotations}}
        self._saw(self._api.merge(CONNECTORS, metadata["namespace"], metadata["name"], patch))
        phase = RequestPhase(found["phase"])
        if phase in FINAL and (found.get("change") or phase is not RequestPhase.DONE):
            reason = "OffsetsChanged" if phase is RequestPhase.DONE else f"Offsets{phase.value}"
            self._recorder.record(
                body, "Connector", Happening(reason, found["message"], phase is not RequestPhase.DONE)
            )


def _mark(request: OffsetRequest) -> dict[str, Any]:
    """The field ``change`` of a result, for a request that may have changed something."""
    return {"change": True} if request.change is not None and not request.change.dry_run else {}
