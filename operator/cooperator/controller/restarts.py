"""Restarts that a Connector's manifest asks for. Pure."""

from collections.abc import Mapping
from typing import Any, Final

from cooperator.controller.names import GROUP, RESTART
from cooperator.wire import RestartRecord

DONE: Final = f"{GROUP}/restarted"
"""Annotation of ours: the request that was carried out last. Not a status, since it is decided by."""


def asked(body: Mapping[str, Any]) -> str:
    """What stands in the manifest now: spec.restartNonce and the annotation."""
    annotations = body["metadata"].get("annotations") or {}
    nonce = (body.get("spec") or {}).get("restartNonce") or ""
    return f"{nonce}|{annotations.get(RESTART, '')}"


def done(body: Mapping[str, Any]) -> str | None:
    """None: this Connector has not been looked at before, so what stands in it now asks for nothing."""
    value = (body["metadata"].get("annotations") or {}).get(DONE)
    return None if value is None else str(value)


def record(name: str, before: str, now: str) -> RestartRecord | None:
    """What the change from ``before`` to ``now`` asks for; None: nothing, or nothing that is understood.

    A new nonce restarts the connector and all its tasks. The annotation says what: ``connector``, ``tasks``
    (all, and the connector), ``failed`` (what has failed of these) or a task's number; what follows a ``#``
    only makes it new.
    """
    nonce_before, _, _ = before.partition("|")
    nonce, _, text = now.partition("|")
    if before == now:
        return None
    if nonce != nonce_before and nonce:
        return RestartRecord(name, True, False, None)
    word = text.partition("#")[0].strip().lower()
    if word == "connector":
        return RestartRecord(name, False, False, None)
    if word == "tasks":
        return RestartRecord(name, True, False, None)
    if word == "failed":
        return RestartRecord(name, True, True, None)
    if word.isascii() and word.isdigit():
        return RestartRecord(name, False, False, int(word))
    return None
