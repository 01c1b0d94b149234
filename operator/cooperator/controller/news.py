"""Turns watch events into log messages with an id. Pure.

Most events contain nothing new: statuses that are written once a second, or our own marks.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from cooperator.controller.names import RESTART
from cooperator.controller.observe import Body, Container, container, node, phase
from cooperator.pool import Phase


@dataclass(frozen=True, slots=True)
class News:
    """``id`` is the object's kind, name and resourceVersion as the API server sent them. It identifies this
    event and no other."""

    id: str
    kind: str
    name: str
    words: str


def news_of(kind: str, before: Body | None, now: Body, deleted: bool = False) -> News | None:
    """Return None without news. ``before`` is the object as last seen, None for a new one."""
    words = "is gone" if deleted else _TOLD[kind](before, now)
    if not words:
        return None
    metadata = now["metadata"]
    return News(
        f"{kind}/{metadata['name']}/{metadata.get('resourceVersion', '0')}", kind, metadata["name"], words
    )


def _pod(before: Body | None, now: Body) -> str:
    if before is None or before["metadata"].get("uid") != now["metadata"].get("uid"):
        # The operator creates these itself and logs that elsewhere.
        return ""
    was, is_ = container(before) or Container(), container(now) or Container()
    words = []
    # Times have a resolution of one second: two incarnations may end within it.
    another = is_.finished_ms != was.finished_ms or (was.running and is_.restarts != was.restarts)
    over = phase(now) is Phase.ENDED and phase(before) is not Phase.ENDED
    if over or (another and is_.finished_ms is not None):
        code = "" if is_.exit_code is None else f" with code {is_.exit_code}"
        words.append(f"its container has ended{code}")
    if is_.running and is_.started_ms != was.started_ms:
        words.append(f"its container runs (restart {is_.restarts})")
    if _deleted(now) and not _deleted(before):
        words.append("is being deleted")
    return ", ".join(words)


def _resource(before: Body | None, now: Body) -> str:
    if before is None:
        return "is there"
    words = []
    generation = now["metadata"].get("generation")
    if generation != before["metadata"].get("generation"):
        words.append(f"has another spec, of generation {generation}")
    if _annotation(now) != _annotation(before) and _annotation(now):
        words.append("is to be restarted")
    if _deleted(now) and not _deleted(before):
        words.append("is being deleted")
    return ", ".join(words)


def _node(before: Body | None, now: Body) -> str:
    if before is None:
        return ""
    was, is_ = asdict(node(before)), asdict(node(now))
    changed = [f"{name}: {value}" for name, value in is_.items() if was[name] != value]
    return ", ".join(changed)


def _deleted(body: Body) -> bool:
    return body["metadata"].get("deletionTimestamp") is not None


def _annotation(body: Body) -> str:
    annotations: Mapping[str, Any] = body["metadata"].get("annotations") or {}
    return str(annotations.get(RESTART, ""))


_TOLD: Final = {"Worker": _resource, "Connector": _resource, "Pod": _pod, "Node": _node}
