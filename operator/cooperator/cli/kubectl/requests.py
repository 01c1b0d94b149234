"""Sends a request about a Connector's offsets or state to the operator, and waits for the result.

Both are annotations of the Connector (``controller.offset_requests``). The right to patch it is all that they
need, and no access to Kafka from here.
"""

import json
import time
import uuid
from typing import Any, Final

from cooperator.cli.kubectl.errors import CommandError
from cooperator.cli.kubectl.seen import Body, one
from cooperator.controller.api.client import CONNECTORS
from cooperator.controller.api.kubeconfig import ClusterAddress
from cooperator.controller.names import OFFSETS_REQUEST, OFFSETS_RESULT
from cooperator.controller.offset_requests import FINAL, MOST_BYTES, RequestPhase, mark_of, read_result
from cooperator.terminal.console import say

_POLL_S: Final = 0.25


def answered(place: ClusterAddress, name: str, asked: dict[str, Any], timeout_s: float) -> Body:
    """Sends the request and returns its result. Raises CommandError, ApiError.

    The request is withdrawn if it has not begun in time, so that it is not carried out later.
    """
    body = one(place, CONNECTORS, name)
    text = json.dumps({"id": uuid.uuid4().hex, **asked}, ensure_ascii=False)
    if len(text.encode()) > MOST_BYTES:
        raise CommandError(
            f"the request has {len(text.encode()):,} bytes, at most {MOST_BYTES:,} fit: send a part of it at "
            "a time"
        )
    before = _standing(body)
    _annotate(place, body, {OFFSETS_REQUEST: text})
    phase: RequestPhase | None = None
    answer: Body = {}
    deadline, said = time.monotonic() + timeout_s, ""
    try:
        while phase not in FINAL:
            if time.monotonic() > deadline:
                raise CommandError(_not_done(name, phase, str(answer.get("message", "")), timeout_s))
            time.sleep(_POLL_S)
            seen = place.api.get(CONNECTORS, place.namespace, name)["metadata"]
            found = read_result((seen.get("annotations") or {}).get(OFFSETS_RESULT))
            if found.get("request") == mark_of(text):
                phase, answer = RequestPhase(found["phase"]), dict(found)
            if phase is RequestPhase.WAITING and said != answer["message"]:
                said = answer["message"]
                say(f"waiting: {said}")
    finally:
        _annotate(place, body, before)
    if phase is not RequestPhase.DONE:
        raise CommandError(str(answer["message"]))
    return answer


def _standing(body: Body) -> dict[str, str | None]:
    """The annotations to restore after a request: those of an earlier one, such as a manifest's, if any.

    Raises CommandError if that one has not ended.
    """
    metadata = body["metadata"]
    annotations = metadata.get("annotations") or {}
    text, answer = annotations.get(OFFSETS_REQUEST), read_result(annotations.get(OFFSETS_RESULT))
    if text is not None and not (answer.get("request") == mark_of(text) and answer["phase"] in FINAL):
        name, why = metadata["name"], answer.get("message") or "no operator has answered"
        raise CommandError(
            f"Connector {name} has a request about its offsets or state that has not ended ({why}): wait, or "
            f"remove it with `kubectl annotate -n {metadata['namespace']} connectors.cooperator.dev {name} "
            f"{OFFSETS_REQUEST}-`"
        )
    return {name: annotations.get(name) for name in (OFFSETS_REQUEST, OFFSETS_RESULT)}


def _not_done(name: str, phase: RequestPhase | None, message: str, timeout_s: float) -> str:
    if phase is RequestPhase.STARTED:
        return (
            f"the change of offsets of Connector {name} has begun, but has not ended within {timeout_s:g} s: "
            "list its offsets before you repeat it"
        )
    why = message or "no operator has answered: check that one runs and serves the Worker"
    return f"nothing was changed within {timeout_s:g} s: {why}"


def _annotate(place: ClusterAddress, body: Body, annotations: dict[str, str | None]) -> None:
    metadata = body["metadata"]
    patch = {"metadata": {"uid": metadata["uid"], "annotations": annotations}}
    place.api.merge(CONNECTORS, place.namespace, metadata["name"], patch)
