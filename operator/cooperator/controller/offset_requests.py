"""Requests about a Connector's offsets and state that its annotations carry, and what to do with them. Pure.

A request is one JSON object; its text identifies it, so that clients add an ``id`` of their own. It is
carried out once at most: that a change begins is recorded before it, and a change that was begun by an
operator that is gone is not repeated.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from cooperator.connectors.offsets import OffsetsError, Where, decode
from cooperator.connectors.state_query import StateError, StateQuery
from cooperator.connectors.state_query import decode as decode_query
from cooperator.crd import Connector
from cooperator.crd.connector import State
from cooperator.host.at_rest import why_not_at_rest
from cooperator.host.known import Leader
from cooperator.model.text import choice
from cooperator.model.visible import to_visible_json
from cooperator.rest.parts import ChangeVerb, OffsetChange

LIST: Final = "list"
STATE: Final = "state"
MOST_BYTES: Final = 100_000
"""The limit of a request, and of a result. The API server limits all annotations of an object to 256 KiB."""
_REMEMBERED: Final = 50
"""The number of earlier changes that are not made again, if their requests return."""
_FIELDS: Final = ("id", "do", "offsets", "to", "dryRun", "skip", "query")
_VERBS: Final = (LIST, STATE, *ChangeVerb)


class RequestPhase(StrEnum):
    """``WAITING``: for the connector's tasks to stop, or for a leader. ``UNKNOWN``: it was begun by an
    operator that is gone, and may have been made."""

    WAITING = "Waiting"
    STARTED = "Started"
    DONE = "Done"
    REFUSED = "Refused"
    UNKNOWN = "Unknown"


FINAL: Final = frozenset({RequestPhase.DONE, RequestPhase.REFUSED, RequestPhase.UNKNOWN})


@dataclass(frozen=True, slots=True)
class OffsetRequest:
    """``change`` None: answer ``query``; without it, list the offsets, without the first ``skip``."""

    change: OffsetChange | None = None
    skip: int = 0
    query: StateQuery | None = None


@dataclass(frozen=True, slots=True)
class RecordResult:
    """The result is to be recorded, and nothing else to be done."""

    phase: RequestPhase
    message: str = ""


@dataclass(frozen=True, slots=True)
class CarryOutRequest:
    """The request is to be carried out."""

    request: OffsetRequest


def mark_of(text: str) -> str:
    """Identifies a request by its text."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def result(text: str, phase: RequestPhase, message: str = "", **more: Any) -> dict[str, Any]:
    """The result's form: the request's mark, the phase, and what it says. ``change``: more than a list or a
    dry run was begun."""
    said = {"message": message} if message else {}
    return {"request": mark_of(text), "phase": phase.value, **said, **more}


def remembered(known: Mapping[str, Any], found: Mapping[str, Any]) -> dict[str, Any]:
    """Returns ``found`` with the marks of the changes before it, so that none of them is made again.

    ``known`` is the result that ``found`` replaces.
    """
    earlier = list(known.get("earlier", ()))
    if known.get("change") and known.get("request") != found["request"]:
        earlier.append(known["request"])
    return {**found, **({"earlier": earlier[-_REMEMBERED:]} if earlier else {})}


def read_result(text: str | None) -> Mapping[str, Any]:
    """Returns an empty result for one that nobody can read: only this operator writes it."""
    try:
        found = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def step(
    text: str, known: Mapping[str, Any], connector: Connector, leader: Leader, *, begun_here: bool
) -> RecordResult | CarryOutRequest | None:
    """Decides what is to be done with the request ``text``; None: nothing now.

    ``known`` is the recorded result. ``begun_here``: this process carries it out, or has done so.
    """
    phase = RequestPhase(known["phase"]) if known.get("request") == mark_of(text) else None
    if begun_here or phase in FINAL:
        return None
    if mark_of(text) in known.get("earlier", ()):
        return RecordResult(
            RequestPhase.REFUSED, "this request was begun before: give it another id to repeat it"
        )
    if phase is RequestPhase.STARTED:
        return RecordResult(
            RequestPhase.UNKNOWN,
            "the operator that began this change is gone: it may have been made or not; list the offsets, "
            "and send a new request if it is needed",
        )
    try:
        request = read(text)
    except OffsetsError as error:
        return RecordResult(RequestPhase.REFUSED, str(error))
    waits = _why_not(request, connector, leader)
    if waits is None:
        return CarryOutRequest(request)
    if waits.phase is phase and waits.message == known.get("message", ""):
        return None
    return waits


def _why_not(request: OffsetRequest, connector: Connector, leader: Leader) -> RecordResult | None:
    if request.change is not None:
        reason = why_not_at_rest(connector, leader)
        if reason:
            # A later stop, for another reason, must not make a change that has been forgotten.
            stopping = connector.spec.state is State.STOPPED
            return RecordResult(RequestPhase.WAITING if stopping else RequestPhase.REFUSED, reason)
    elif not leader.get("leading"):
        return RecordResult(RequestPhase.WAITING, "the group has no leader at the moment")
    return None


def read(text: str) -> OffsetRequest:
    """Raises ``OffsetsError``, which names the field, the value and the remedy."""
    form = 'write {"id": "…", "do": "list"}, or alter with "offsets", or reset with "to": earliest or latest'
    if len(text.encode()) > MOST_BYTES:
        raise OffsetsError(
            f"the request has {len(text.encode()):,} bytes, at most {MOST_BYTES:,} are allowed: split it"
        )
    try:
        asked = json.loads(text)
    except (ValueError, RecursionError):
        raise OffsetsError(f"the request is not valid JSON: {form}") from None
    if not isinstance(asked, dict):
        raise OffsetsError(f"the request is not an object: {form}")
    if unknown := sorted(asked.keys() - set(_FIELDS)):
        raise OffsetsError(
            f"the request has the unknown field {unknown[0][:40]!r}: {choice(unknown[0], _FIELDS)}"
        )
    do, to, dry_run, skip = (asked.get(name) for name in ("do", "to", "dryRun", "skip"))
    if do not in _VERBS:
        raise OffsetsError(f"do is {str(do)[:40]!r}: {choice(str(do), _VERBS)}")
    if not isinstance(dry_run, bool | None):
        raise OffsetsError(f"dryRun is {str(dry_run)[:40]!r}: use true or false")
    if isinstance(skip, bool) or not isinstance(skip, int | None) or (skip or 0) < 0:
        raise OffsetsError(f"skip is {str(skip)[:40]!r}: use a number of at least 0")
    if to is not None and (do != ChangeVerb.RESET or to not in tuple(Where)):
        raise OffsetsError(f"to is {str(to)[:40]!r}: use earliest or latest, with do: reset only")
    if ("offsets" in asked) != (do == ChangeVerb.ALTER):
        what = "are missing" if do == ChangeVerb.ALTER else f"do not belong to {do}"
        raise OffsetsError(f"offsets {what}: {form}")
    if ("query" in asked) != (do == STATE):
        what = "is missing" if do == STATE else f"does not belong to {do}"
        raise OffsetsError(
            f'query {what}: write {{"do": "state", "query": {{"keys": {{"column": "value"}}}}}}'
        )
    if do == STATE:
        return OffsetRequest(query=_query(asked["query"]))
    if do == LIST:
        return OffsetRequest(skip=skip or 0)
    entries = (
        decode(json.dumps({"offsets": asked["offsets"]}), "the request") if do == ChangeVerb.ALTER else []
    )
    where = None if to is None else Where(to)
    return OffsetRequest(OffsetChange(ChangeVerb(str(do)), tuple(entries), where, bool(dry_run)))


def _query(asked: Any) -> StateQuery:
    try:
        return decode_query(asked)
    except StateError as error:
        raise OffsetsError(f"query: {error}") from None


def fitting(name: str, items: list[dict[str, Any]]) -> dict[str, Any]:
    """``items`` under ``name`` as far as they fit into a result, and their number as ``total``."""
    found, size = [], 0
    for item in items:
        size += len(to_visible_json(item).encode()) + 2
        if size > MOST_BYTES:
            break
        found.append(item)
    return {name: found, "total": len(items)}
