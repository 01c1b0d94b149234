"""What the watches have seen last: objects by kind, and a wake-up for the Workers that they concern.

An event older than what is known is passed over. A list that is handed in later takes out what it does not
have: a watch that was closed may have missed deletions, which kopf does not make up for.
"""

import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from cooperator.controller.canary import PATIENCE_S, Canary
from cooperator.controller.names import WORKER_LABEL
from cooperator.controller.news import News, news_of

Body = Mapping[str, Any]
Name = tuple[str, str]
"""(namespace, name); the namespace of nodes is empty."""

WORKER: Final = "Worker"
CONNECTOR: Final = "Connector"
POD: Final = "Pod"
NODE: Final = "Node"
_GONE_KEPT: Final = 64
_DELETED_KEPT: Final = 10_000
_NEWS_KEPT: Final = 50


@dataclass(frozen=True, slots=True)
class Seen:
    """One Worker and what belongs to it. ``gone``: deleted pods as they were seen last, the newest last."""

    worker: Body | None
    connectors: tuple[Body, ...] = ()
    pods: Mapping[str, Body] = field(default_factory=dict)
    gone: tuple[Body, ...] = ()
    nodes: Mapping[str, Body] = field(default_factory=dict)


class Store:
    """Thread-safe. ``wake`` is told which Worker something has happened to; ``clock_s`` never goes back."""

    def __init__(self, wake: Callable[[Name], None], clock_s: Callable[[], float] = time.monotonic) -> None:
        self._wake = wake
        self._clock_s = clock_s
        self._canary = Canary()
        self._lock = threading.Lock()
        self._objects: dict[str, dict[Name, Body]] = {kind: {} for kind in (WORKER, CONNECTOR, POD, NODE)}
        self._gone: dict[Name, deque[Body]] = {}
        self._deleted: OrderedDict[tuple[str, Name], int] = OrderedDict()
        self._news: dict[Name, deque[News]] = {}

    def put(self, kind: str, body: Body, deleted: bool = False, watched: bool = False) -> None:
        """An object as it was seen; ``watched``: by a handler, of which a watch told."""
        name = _name(body)
        with self._lock:
            if _version(body) <= self._deleted.get((kind, name), -1):
                # An answer that comes after the news of the deletion.
                return
            if watched:
                self._canary.heard((kind, name), _version(body))
            known = self._objects[kind].get(name)
            if known is not None and not _is_newer(body, known, deleted):
                return
            if deleted:
                self._objects[kind].pop(name, None)
                self._canary.gone((kind, name))
                self._bury(kind, body)
                self._deleted[kind, name] = _version(body)
                while len(self._deleted) > _DELETED_KEPT:
                    self._deleted.popitem(last=False)
            else:
                self._objects[kind][name] = body
            concerned = self._concerned(kind, body) | (self._concerned(kind, known) if known else set())
            news = news_of(kind, known, body, deleted)
            if news is not None:
                for worker in concerned:
                    self._news.setdefault(worker, deque(maxlen=_NEWS_KEPT)).append(news)
        for worker in concerned:
            self._wake(worker)

    def replace(self, kind: str, bodies: Iterable[Body], version: int, among: Callable[[Body], bool]) -> None:
        """A list as of ``version``, complete for the objects that ``among`` is true of."""
        listed = {_name(body): body for body in bodies}
        with self._lock:
            objects = self._objects[kind]
            missing = [
                name
                for name, known in objects.items()
                if name not in listed and among(known) and _version(known) <= version
            ]
            # They are not in ``gone``: nobody has seen how they ended.
            concerned = {worker for name in missing for worker in self._concerned(kind, objects.pop(name))}
            for name in missing:
                self._canary.gone((kind, name))
            for name, body in listed.items():
                if _version(body) > self._deleted.get((kind, name), -1):
                    self._canary.listed((kind, name), _version(body), self._clock_s())
        for worker in concerned:
            self._wake(worker)
        for body in listed.values():
            self.put(kind, body)

    def unheard(self) -> str:
        """What the API lists and no handler was told of, in words; empty when all is well."""
        with self._lock:
            late = self._canary.late(self._clock_s())
        if late is None:
            return ""
        kind, (namespace, name) = late
        return f"no handler was told of the {kind} {namespace}/{name} as it is listed for {PATIENCE_S:g} s"

    def news(self, worker: Name) -> tuple[News, ...]:
        """What there is to tell of a Worker and its own since this was asked last, the newest last."""
        with self._lock:
            return tuple(self._news.pop(worker, ()))

    def see(self, worker: Name) -> Seen:
        namespace, name = worker
        with self._lock:
            pods = {
                pod_name: body
                for (pod_namespace, pod_name), body in self._objects[POD].items()
                if pod_namespace == namespace and _worker_of(body) == name
            }
            return Seen(
                worker=self._objects[WORKER].get(worker),
                connectors=tuple(
                    body
                    for (where, _), body in sorted(self._objects[CONNECTOR].items())
                    if where == namespace and _referred(body) == name
                ),
                pods=pods,
                gone=tuple(self._gone.get(worker, ())),
                nodes={node: body for (_, node), body in self._objects[NODE].items()},
            )

    def strays(self) -> tuple[Body, ...]:
        """Connectors whose Worker is not there."""
        with self._lock:
            workers = self._objects[WORKER]
            return tuple(
                body
                for (namespace, _), body in sorted(self._objects[CONNECTOR].items())
                if (namespace, _referred(body)) not in workers
            )

    def workers(self) -> Mapping[Name, Body]:
        with self._lock:
            return dict(self._objects[WORKER])

    def forget(self, worker: Name) -> None:
        """Nothing of this Worker is left."""
        with self._lock:
            self._gone.pop(worker, None)
            self._news.pop(worker, None)

    def _bury(self, kind: str, body: Body) -> None:
        if kind == POD:
            name = (_name(body)[0], _worker_of(body))
            self._gone.setdefault(name, deque(maxlen=_GONE_KEPT)).append(body)

    def _concerned(self, kind: str, body: Body) -> set[Name]:
        namespace = _name(body)[0]
        if kind == WORKER:
            return {_name(body)}
        if kind == CONNECTOR:
            return {(namespace, _referred(body))}
        if kind == POD:
            return {(namespace, _worker_of(body))}
        node = _name(body)[1]
        return {
            (pod_namespace, _worker_of(pod))
            for (pod_namespace, _), pod in self._objects[POD].items()
            if pod.get("spec", {}).get("nodeName") == node
        }


def _name(body: Body) -> Name:
    return body["metadata"].get("namespace", ""), body["metadata"]["name"]


def _worker_of(body: Body) -> str:
    return str((body["metadata"].get("labels") or {}).get(WORKER_LABEL, ""))


def _referred(body: Body) -> str:
    reference = (body.get("spec") or {}).get("workerRef")
    return str(reference.get("name", "")) if isinstance(reference, Mapping) else ""


def _version(body: Body) -> int:
    return int(body["metadata"].get("resourceVersion") or 0)


def _is_newer(body: Body, known: Body, deleted: bool) -> bool:
    """Of the same name; versions grow over all objects of a kind, also over a deletion and a new object."""
    return _version(body) > _version(known) or (deleted and _version(body) == _version(known))
