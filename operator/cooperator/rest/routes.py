"""The one table of routes: paths, parameter types, bodies, rights, answers. Pure.

It follows Kafka's REST reference (KIP-26 and those named beside a route). ``find`` uses it, and ``openapi``
makes the document from it that tests are generated from.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import parse_qsl, unquote

from cooperator.model.text import choice
from cooperator.rest.answers import RequestRefused, Right

PUBLIC: Final = Right("")
"""Requires no right."""

BOOLEAN: Final = {"type": "boolean"}
TEXT: Final = {"type": "string"}
LIST: Final = {"type": "array", "items": TEXT}


@dataclass(frozen=True, slots=True)
class Route:
    """``answers`` maps a code to the name of a schema of ``openapi``, empty for no body. ``query`` maps a
    name to type and default. ``body`` is a schema's name. ``refusals`` are codes that this route may refuse
    with, besides those of all routes."""

    method: str
    path: str
    handler: str
    right: Right
    answers: Mapping[int, str]
    refusals: tuple[int, ...] = ()
    query: Mapping[str, tuple[Mapping[str, Any], Any]] = field(default_factory=dict)
    body: str = ""

    @property
    def segments(self) -> tuple[str, ...]:
        return tuple(filter(None, self.path.split("/")))


def _table() -> Iterator[Route]:
    c, one = "/connectors/{connector}", "/connector-plugins/{plugin}/config"
    get, listing = Right("get"), Right("list")
    worker = Right("get", "workers")
    yield Route("GET", "/", "root", worker, {200: "ServerInfo"})
    yield Route("GET", "/health", "health", PUBLIC, {200: "Health", 503: "Health"})  # KIP-1017
    yield Route("GET", "/openapi.json", "openapi", PUBLIC, {200: "Anything"})
    expand = {"expand": (LIST, ())}  # KIP-465
    yield Route("GET", "/connectors", "connectors", listing, {200: "Connectors"}, query=expand)
    create = Right("create")
    yield Route(
        "POST", "/connectors", "create", create, {201: "ConnectorInfo"}, (409,), body="CreateConnectorRequest"
    )
    yield Route("GET", c, "connector", get, {200: "ConnectorInfo"}, (404,))
    yield Route("DELETE", c, "delete", Right("delete"), {204: ""}, (404, 409))
    config = f"{c}/config"
    yield Route("GET", config, "config", get, {200: "Config"}, (404,))
    both = {200: "ConnectorInfo", 201: "ConnectorInfo"}
    yield Route("PUT", config, "put_config", Right("update"), both, (409,), body="Config")
    yield Route(  # KIP-477
        "PATCH",
        config,
        "patch_config",
        Right("patch"),
        {200: "ConnectorInfo"},
        (404, 409),
        body="ConfigPatch",
    )
    yield Route("GET", f"{c}/status", "status", get, {200: "ConnectorStatus"}, (404,))
    yield Route("GET", f"{c}/tasks", "tasks", get, {200: "Tasks"}, (404,))
    yield Route("GET", f"{c}/tasks-config", "tasks_config", get, {200: "TasksConfig"}, (404,))  # KIP-661
    yield Route("GET", f"{c}/tasks/{{task}}/status", "task_status", get, {200: "TaskStatus"}, (404,))
    yield Route("GET", f"{c}/topics", "topics", get, {200: "Topics"}, (404,))  # KIP-558
    yield Route("PUT", f"{c}/topics/reset", "reset_topics", Right("patch"), {}, (404,))
    for word in ("pause", "resume"):
        yield Route("PUT", f"{c}/{word}", word, Right("patch"), {202: ""}, (404, 409))
    yield Route("PUT", f"{c}/stop", "stop", Right("patch"), {204: ""}, (404, 409))  # KIP-875
    restart = Right("update", subresource="restart")
    flags = {"includeTasks": (BOOLEAN, False), "onlyFailed": (BOOLEAN, False)}  # KIP-745
    answers = {202: "ConnectorStatus", 204: ""}
    yield Route("POST", f"{c}/restart", "restart", restart, answers, (404, 409), flags)
    yield Route("POST", f"{c}/tasks/{{task}}/restart", "restart_task", restart, {204: ""}, (404, 409))
    offsets = f"{c}/offsets"  # KIP-875

    def of_offsets(verb: str) -> Right:
        return Right(verb, subresource="offsets")

    yield Route("GET", offsets, "offsets", of_offsets("get"), {200: "Offsets"}, (404, 409))
    done = {200: "Message"}
    yield Route("PATCH", offsets, "alter", of_offsets("patch"), done, (404, 409), body="Offsets")
    yield Route("DELETE", offsets, "reset", of_offsets("delete"), done, (404, 409))
    # Kafka has no such request.
    yield Route("POST", f"{offsets}/migrate", "migrate", of_offsets("patch"), done, (404, 409))
    only = {"connectorsOnly": (BOOLEAN, True)}  # KIP-769
    yield Route("GET", "/connector-plugins", "plugins", worker, {200: "Plugins"}, query=only)
    yield Route("GET", one, "plugin_config", worker, {200: "ConfigKeys"}, (404,))
    yield Route("PUT", f"{one}/validate", "validate", create, {200: "ConfigInfos"}, (404,), body="Config")
    loggers = Right("get", "workers", "loggers")  # KIP-495, KIP-976
    yield Route("GET", "/admin/loggers", "loggers", loggers, {200: "Loggers"})
    yield Route("GET", "/admin/loggers/{logger}", "logger", loggers, {200: "Logger"}, (404,))
    yield Route(
        "PUT",
        "/admin/loggers/{logger}",
        "set_level",
        Right("update", "workers", "loggers"),
        {200: "Names", 204: ""},
        (404,),
        {"scope": (TEXT, "worker")},
        "Level",
    )


ROUTES: Final = tuple(_table())


def find(method: str, path: str) -> tuple[Route, dict[str, str]]:
    """The route of a request and its decoded path parameters; ``path`` is still encoded.

    A slash at the end is ignored, as in JAX-RS. Raises RequestRefused 404 and 405.
    """
    segments = [unquote(segment) for segment in path.strip("/").split("/")] if path.strip("/") else []
    matching = [(route, p) for route in ROUTES if (p := _parameters(route, segments)) is not None]
    if not matching:
        raise RequestRefused(404, "HTTP 404 Not Found")
    wanted = "GET" if method == "HEAD" else method
    for route, parameters in matching:
        if route.method == wanted:
            return route, parameters
    allowed = ", ".join(sorted({route.method for route, _ in matching}))
    raise RequestRefused(405, "HTTP 405 Method Not Allowed", {"Allow": allowed})


def _parameters(route: Route, segments: list[str]) -> dict[str, str] | None:
    if len(route.segments) != len(segments):
        return None
    found: dict[str, str] = {}
    for pattern, segment in zip(route.segments, segments, strict=True):
        if pattern.startswith("{"):
            found[pattern[1:-1]] = segment
        elif pattern != segment:
            return None
    return found


def query_of(route: Route, text: str) -> dict[str, Any]:
    """The route's parameters in a query; others are ignored. Raises RequestRefused 400 for wrong types."""
    sent = parse_qsl(text, keep_blank_values=True)
    found: dict[str, Any] = {}
    for name, (kind, default) in route.query.items():
        values = [value for key, value in sent if key == name]
        if kind is LIST:
            found[name] = tuple(values)
        elif not values:
            found[name] = default
        elif kind is BOOLEAN:
            found[name] = _boolean(name, values[-1])
        else:
            found[name] = values[-1]
    return found


def _boolean(name: str, value: str) -> bool:
    if value.lower() not in ("true", "false"):
        raise RequestRefused(400, f"{name} is {value[:40]!r}: {choice(value, ('true', 'false'))}")
    return value.lower() == "true"
