"""Restarts that a Connector's manifest requests. Pure."""

from collections.abc import Mapping
from typing import Any, Final

from cooperator.controller.names import GROUP, RESTART
from cooperator.wire import RestartRecord

DONE: Final = f"{GROUP}/restarted"
"""Our annotation: the last request that was carried out. It is no status, because decisions depend on it."""


def asked(body: Mapping[str, Any]) -> str:
    """The present request: spec.restartNonce and the annotation."""
    annotations = body["metadata"].get("annotations") or {}
    nonce = (body.get("spec") or {}).get("restartNonce") or ""
    return f"{nonce}|{annotations.get(RESTART, '')}"


def done(body: Mapping[str, Any]) -> str | None:
    """Return None for a Connector that has not been seen before: its present request restarts nothing."""
    value = (body["metadata"].get("annotations") or {}).get(DONE)
    return None if value is None else str(value)


def record(name: str, before: str, now: str) -> RestartRecord | None:
    """The restart that a change from ``before`` to ``now`` requests; None for no or an unknown request.

    A new nonce restarts the connector and all its tasks. The annotation says what to restart: ``connector``,
    ``tasks`` (all, and the connector), ``failed`` (the failed ones of these) or a task's number; the text
    after a ``#`` only makes the value new.
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
