"""Objects as the watches have seen them last, by kind, and a wake-up for the Workers that they concern.

An event older than the known object is ignored. A list that is handed in later removes what it does not
contain: a watch that was closed may have missed deletions, which kopf does not make up for.
"""

import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from cooperator.controller.api.watch_health import PATIENCE_S, WatchHealth
from cooperator.controller.names import RELEASED, WORKER_LABEL
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
    """One Worker and what belongs to it. ``gone`` are deleted pods as last seen, the newest last."""

    worker: Body | None
    connectors: tuple[Body, ...] = ()
    pods: Mapping[str, Body] = field(default_factory=dict)
    gone: tuple[Body, ...] = ()
    nodes: Mapping[str, Body] = field(default_factory=dict)


class Store:
    """Thread-safe. ``wake`` receives the Worker that an event concerns; ``clock_s`` is monotonic."""

    def __init__(self, wake: Callable[[Name], None], clock_s: Callable[[], float] = time.monotonic) -> None:
        self._wake = wake
        self._clock_s = clock_s
        self._watch_health = WatchHealth()
        self._lock = threading.Lock()
        self._objects: dict[str, dict[Name, Body]] = {kind: {} for kind in (WORKER, CONNECTOR, POD, NODE)}
        self._gone: dict[Name, deque[Body]] = {}
        self._deleted: OrderedDict[tuple[str, Name], int] = OrderedDict()
        self._news: dict[Name, deque[News]] = {}
        self._specs = 0

    def put(self, kind: str, body: Body, deleted: bool = False, watched: bool = False) -> None:
        """Store an object as it was seen; ``watched`` says that a watch delivered it to a handler."""
        name = _name(body)
        with self._lock:
            if _version(body) <= self._deleted.get((kind, name), -1):
                # This answer is older than the deletion.
                return
            if watched:
                self._watch_health.heard((kind, name), _version(body))
            known = self._objects[kind].get(name)
            if known is not None and not _is_newer(body, known, deleted):
                return
            if deleted:
                self._objects[kind].pop(name, None)
                self._watch_health.gone((kind, name))
                self._bury(kind, body)
                self._deleted[kind, name] = _version(body)
                while len(self._deleted) > _DELETED_KEPT:
                    self._deleted.popitem(last=False)
            else:
                self._objects[kind][name] = body
            if deleted or known is None or _meaning(known) != _meaning(body):
                self._specs += 1
            concerned = self._concerned(kind, body) | (self._concerned(kind, known) if known else set())
            news = news_of(kind, known, body, deleted)
            if news is not None:
                for worker in concerned:
                    self._news.setdefault(worker, deque(maxlen=_NEWS_KEPT)).append(news)
        for worker in concerned:
            self._wake(worker)

    def replace(self, kind: str, bodies: Iterable[Body], version: int, among: Callable[[Body], bool]) -> None:
        """Take a list as of ``version``, complete for the objects that ``among`` is true of."""
        listed = {_name(body): body for body in bodies}
        with self._lock:
            objects = self._objects[kind]
            missing = [
                name
                for name, known in objects.items()
                if name not in listed and among(known) and _version(known) <= version
            ]
            self._specs += bool(missing)
            # They are not in ``gone``: their ends were not observed.
            concerned = {worker for name in missing for worker in self._concerned(kind, objects.pop(name))}
            for name in missing:
                self._watch_health.gone((kind, name))
            for name, body in listed.items():
                if _version(body) > self._deleted.get((kind, name), -1):
                    self._watch_health.listed((kind, name), _version(body), self._clock_s())
        for worker in concerned:
            self._wake(worker)
        for body in listed.values():
            self.put(kind, body)

    def unheard(self) -> str:
        """Describes objects that the API lists and no handler has received; empty if there are none."""
        with self._lock:
            late = self._watch_health.late(self._clock_s())
        if late is None:
            return ""
        kind, (namespace, name) = late
        return f"no handler received the {kind} {namespace}/{name} as it is listed for {PATIENCE_S:g} s"

    def news(self, worker: Name) -> tuple[News, ...]:
        """Return and clear the news of a Worker and its objects, the newest last."""
        with self._lock:
            return tuple(self._news.pop(worker, ()))

    def see(self, worker: Name) -> Seen:
        """Return a Worker and what belongs to it. Pods that only have its label are nobody's."""
        namespace, name = worker
        with self._lock:
            body = self._objects[WORKER].get(worker)
            uid = body["metadata"].get("uid") if body is not None else None
            pods = {
                pod_name: pod
                for (pod_namespace, pod_name), pod in self._objects[POD].items()
                if pod_namespace == namespace and _worker_of(pod) == name and _belongs(pod, uid)
            }
            return Seen(
                worker=body,
                connectors=tuple(
                    body
                    for (where, _), body in sorted(self._objects[CONNECTOR].items())
                    if where == namespace and referred(body) == name
                ),
                pods=pods,
                gone=tuple(pod for pod in self._gone.get(worker, ()) if _belongs(pod, uid)),
                nodes={node: body for (_, node), body in self._objects[NODE].items()},
            )

    def strays(self) -> tuple[Body, ...]:
        """Connectors whose Worker does not exist."""
        with self._lock:
            workers = self._objects[WORKER]
            return tuple(
                body
                for (namespace, _), body in sorted(self._objects[CONNECTOR].items())
                if (namespace, referred(body)) not in workers
            )

    def workers(self) -> Mapping[Name, Body]:
        with self._lock:
            return dict(self._objects[WORKER])

    def specs(self) -> tuple[int, Mapping[Name, Body], Mapping[Name, Body]]:
        """All Workers and all Connectors, and a number that grows when one of them or its spec changes."""
        with self._lock:
            return self._specs, dict(self._objects[WORKER]), dict(self._objects[CONNECTOR])

    def forget(self, worker: Name) -> None:
        """Drop what is kept for this Worker, of which nothing is left."""
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
            return {(namespace, referred(body))}
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


def _belongs(pod: Body, worker_uid: str | None) -> bool:
    """Whether a pod with a Worker's label is its own: anybody may set a label."""
    metadata = pod["metadata"]
    owners = [owner.get("uid") for owner in metadata.get("ownerReferences") or ()]
    if owners:
        return worker_uid in owners
    return (metadata.get("annotations") or {}).get(RELEASED) == _worker_of(pod)


def referred(body: Body) -> str:
    """The Worker that a Connector names; empty if it names none."""
    reference = (body.get("spec") or {}).get("workerRef")
    return str(reference.get("name", "")) if isinstance(reference, Mapping) else ""


def _meaning(body: Body) -> tuple[Any, ...]:
    """Differs when anything but the status has changed."""
    metadata = body["metadata"]
    return metadata.get("uid"), metadata.get("generation"), metadata.get("annotations")


def _version(body: Body) -> int:
    return int(body["metadata"].get("resourceVersion") or 0)


def _is_newer(body: Body, known: Body, deleted: bool) -> bool:
    """Both have one name; versions grow over all objects of a kind, even over a deletion and a new one."""
    return _version(body) > _version(known) or (deleted and _version(body) == _version(known))
