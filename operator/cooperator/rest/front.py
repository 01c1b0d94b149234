"""All answers of one Worker's front, from request to answer. It knows no server and may block."""

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar
from urllib.parse import quote

import cooperator
from cooperator.crd.connector import State
from cooperator.host.at_rest import why_not_at_rest
from cooperator.model.text import choice, hinted
from cooperator.rest.answers import Answer, Call, RequestRefused, Right, refusal
from cooperator.rest.connectors import ConnectorAnswers
from cooperator.rest.openapi import document
from cooperator.rest.parts import Authorizer, Connectors, Entries, Group, Members, Offsets
from cooperator.rest.routes import Route, find, query_of
from cooperator.rest.translate import flat, settings

log = logging.getLogger(__name__)

T = TypeVar("T")

_LEVELS: Final = ("TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL", "OFF")
_DOCUMENT: Final = document()
_SPOKEN: Final = "4.1.0"
"""The Kafka version whose REST API this is: clients read it and request nothing newer."""


@dataclass(frozen=True, slots=True)
class Request:
    """The request as received. ``path`` is still encoded; ``content_type`` is empty if none was sent."""

    method: str
    path: str
    query: str = ""
    body: bytes = b""
    content_type: str = ""
    authorization: str = ""


class Front:
    """Kafka Connect's REST API of one Worker. Thread-safe if its parts are."""

    def __init__(
        self,
        name: tuple[str, str],
        connectors: Connectors,
        group: Group,
        members: Members,
        offsets: Offsets,
        access: Authorizer,
    ) -> None:
        """``name`` is the Worker's namespace and name."""
        self._worker = name[1]
        self._group = group
        self._members = members
        self._offsets = offsets
        self._access = access
        self._connectors = ConnectorAnswers(*name, connectors, group, members)

    def admit(self, request: Request) -> Answer | bool:
        """Authorizes a request by its headers alone. Returns the refusal, or whether the answer needs the
        body.

        Never raises.
        """
        return self._guarded(request, lambda: bool(self._admitted(request)[0].body))

    def answer(self, request: Request) -> Answer:
        """Never raises: an unexpected error is 500, with its details in the log and not in the answer."""
        refused = self.admit(request)
        return refused if isinstance(refused, Answer) else self.serve(request)

    def serve(self, request: Request) -> Answer:
        """Like ``answer``, for an authorized request."""
        return self._guarded(request, lambda: self._served(request))

    def _admitted(self, request: Request) -> tuple[Route, dict[str, str]]:
        route, path = find(request.method, request.path)
        self._permit(request, self._right(route, path))
        return route, path

    def _served(self, request: Request) -> Answer:
        route, path = find(request.method, request.path)
        call = Call(
            path,
            query_of(route, request.query),
            _json(route, request),
            lambda right: self._permit(request, replace(right, name=path.get("connector", ""))),
        )
        return self._handler(route)(call)

    def _guarded(self, request: Request, act: Callable[[], T]) -> T | Answer:
        try:
            return act()
        except RequestRefused as refused:
            return refusal(refused)
        except Exception:
            log.exception("%s %r", request.method, request.path)
            return refusal(RequestRefused(500, "internal error; see the operator's log"))

    def _handler(self, route: Route) -> Callable[[Call], Answer]:
        own: Callable[[Call], Answer] | None = getattr(self, route.handler, None)
        found: Callable[[Call], Answer] = own or getattr(self._connectors, route.handler)
        return found

    def _right(self, route: Route, path: Mapping[str, str]) -> Right:
        if route.right.resource == "workers":
            return replace(route.right, name=self._worker)
        return replace(route.right, name=path.get("connector", ""))

    def _permit(self, request: Request, right: Right) -> None:
        if right.verb:
            self._access.permit(request.authorization, right)

    # --- the group itself ---

    def root(self, call: Call) -> Answer:
        commit = f"cooperator-{cooperator.__version__}"
        return Answer(
            200, {"version": _SPOKEN, "commit": commit, "kafka_cluster_id": self._group.cluster_id()}
        )

    def health(self, call: Call) -> Answer:
        if self._group.status().get("leading"):
            return Answer(200, {"status": "healthy", "message": "the group is led and requests are served"})
        return Answer(503, {"status": "starting", "message": "the group has no leader at the moment"})

    def openapi(self, call: Call) -> Answer:
        return Answer(200, _DOCUMENT)

    # --- offsets ---

    def offsets(self, call: Call) -> Answer:
        config = self._connectors.config_of(call.name)
        return Answer(200, {"offsets": self._offsets.listed(call.name, config)})

    def alter(self, call: Call) -> Answer:
        entries = _entries(call.body)
        config = self._at_rest(call.name)
        return Answer(200, {"message": self._offsets.alter(call.name, config, entries)})

    def reset(self, call: Call) -> Answer:
        config = self._at_rest(call.name)
        return Answer(200, {"message": self._offsets.reset(call.name, config)})

    def migrate(self, call: Call) -> Answer:
        config = self._at_rest(call.name)
        return Answer(200, {"message": self._offsets.migrate(call.name, config)})

    def _at_rest(self, name: str) -> Mapping[str, str]:
        """The configuration. Raises RequestRefused 400 unless it is stopped, as Kafka does; 409 while it is
        stopping."""
        connector = self._connectors.known(name)
        if connector.spec.state is not State.STOPPED:
            raise RequestRefused(
                400,
                f"connector {name} is {connector.spec.state.value}, but offsets of stopped connectors only "
                f"can be changed: send PUT /connectors/{quote(name, safe='')}/stop first",
            )
        reason = why_not_at_rest(connector, self._group.status())
        if reason:
            raise RequestRefused(409, reason)
        return flat(connector)

    # --- plug-ins and loggers ---

    def plugins(self, call: Call) -> Answer:
        return Answer(200, self._members.plugins(call.query["connectorsOnly"]))

    def plugin_config(self, call: Call) -> Answer:
        return Answer(200, self._members.plugin_config(call.path["plugin"]))

    def validate(self, call: Call) -> Answer:
        config = {k: v for k, v in settings(call.body, "the body").items() if v is not None}
        plugin = call.path["plugin"]
        named = config.get("connector.class", plugin)
        # A plug-in has a full and a short name.
        if named != plugin and named.rpartition(".")[2] not in (plugin, f"{plugin}Connector"):
            raise RequestRefused(
                400,
                f"connector.class is {named!r}, but the path names {plugin!r}: use the same class",
            )
        return Answer(200, self._members.validate(plugin, {**config, "connector.class": named}))

    def loggers(self, call: Call) -> Answer:
        return Answer(200, self._members.loggers())

    def logger(self, call: Call) -> Answer:
        return Answer(200, self._members.logger(call.path["logger"]))

    def set_level(self, call: Call) -> Answer:
        level = call.body.get("level") if isinstance(call.body, dict) else None
        if not isinstance(level, str) or level.upper() not in _LEVELS:
            raise RequestRefused(
                400, f"the body's level is {str(level)[:40]!r}: {choice(str(level), _LEVELS)}"
            )
        scope = call.query["scope"].lower()
        if scope not in ("worker", "cluster"):
            raise RequestRefused(400, f"scope is {scope[:40]!r}: {choice(scope, ('worker', 'cluster'))}")
        changed = self._members.set_level(call.path["logger"], level.upper(), scope)
        return Answer(204) if changed is None else Answer(200, changed)


def _json(route: Route, request: Request) -> Any:
    if not route.body:
        return None
    kind = request.content_type.partition(";")[0].strip().lower()
    if kind not in ("", "application/json"):
        raise RequestRefused(415, "HTTP 415 Unsupported Media Type: send application/json")
    try:
        value = json.loads(request.body)
        # Escaped lone surrogates are text that could not be encoded again.
        json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        # The error's own text may quote the body, which may hold secrets.
        raise RequestRefused(400, "the body is not valid JSON") from None
    return value


def _entries(body: Any) -> Entries:
    form = 'send {"offsets": [{"partition": {…}, "offset": {…} or null}, …]}'
    offsets = body.get("offsets") if isinstance(body, dict) else None
    if not isinstance(offsets, list) or not offsets:
        raise RequestRefused(400, f"partitions and their offsets are missing: {form}")
    if unknown := sorted(body.keys() - {"offsets"}):
        raise RequestRefused(
            400, f"unknown field {unknown[0][:40]!r}: {hinted(unknown[0], ('offsets',), form)}"
        )
    entries = []
    for number, entry in enumerate(offsets):
        if not isinstance(entry, dict) or not isinstance(entry.get("partition"), dict):
            raise RequestRefused(400, f"offsets[{number}].partition is not an object: {form}")
        if "offset" not in entry or not isinstance(entry["offset"], dict | None):
            raise RequestRefused(400, f"offsets[{number}].offset is neither an object nor null: {form}")
        entries.append((entry["partition"], entry["offset"]))
    return entries
