"""The OpenAPI document of ``routes``. Pure."""

import re
from collections.abc import Mapping
from typing import Any, Final

import cooperator
from cooperator.rest.routes import PUBLIC, ROUTES, TEXT, Route


def _object(required: Mapping[str, Any], **optional: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {**required, **optional}, "required": list(required)}


def _many(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": schema}


def _map(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": schema}


def _ref(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}


_NUMBER: Final = {"type": "integer"}
_SCALAR: Final = {"type": ["string", "number", "boolean"]}
_SETTINGS: Final = {**_map(_SCALAR), "propertyNames": {"minLength": 1}}
_TASK_ID: Final = _object({"connector": TEXT, "task": _NUMBER})
_TYPE: Final = {"enum": ["source", "sink", "unknown"]}
_STATE: Final = {"enum": ["UNASSIGNED", "RUNNING", "PAUSED", "STOPPED", "FAILED", "RESTARTING"]}
_ITEM: Final = {"state": _STATE, "worker_id": TEXT}
_TASK_STATUS: Final = _object({"id": _NUMBER, **_ITEM}, trace=TEXT)
_ENTRY: Final = _object({"partition": {"type": "object"}, "offset": {"type": ["object", "null"]}})
_INITIAL: Final = {"enum": ["RUNNING", "PAUSED", "STOPPED"]}
_EXPANDED: Final = _object({}, info=_ref("ConnectorInfo"), status=_ref("ConnectorStatus"))

SCHEMAS: Final[Mapping[str, Any]] = {
    "Anything": {},
    "Error": _object({"error_code": _NUMBER, "message": TEXT}),
    "ServerInfo": _object({"version": TEXT, "commit": TEXT, "kafka_cluster_id": TEXT}),
    "Health": _object({"status": {"enum": ["healthy", "starting", "unhealthy"]}, "message": TEXT}),
    "Connectors": {"anyOf": [_many(TEXT), _map(_EXPANDED)]},
    "Config": _SETTINGS,
    "ConfigPatch": {
        **_map({"type": ["string", "number", "boolean", "null"]}),
        "propertyNames": {"minLength": 1},
    },
    "CreateConnectorRequest": _object({"name": TEXT, "config": _SETTINGS}, initial_state=_INITIAL),
    "ConnectorInfo": _object({"name": TEXT, "config": _map(TEXT), "tasks": _many(_TASK_ID), "type": _TYPE}),
    "ConnectorStatus": _object(
        {
            "name": TEXT,
            "connector": _object(_ITEM, trace=TEXT),
            "tasks": _many(_TASK_STATUS),
            "type": _TYPE,
        }
    ),
    "TaskStatus": _TASK_STATUS,
    "Tasks": _many(_object({"id": _TASK_ID, "config": _map(TEXT)})),
    "TasksConfig": _map(_map(TEXT)),
    "Topics": _map(_object({"topics": _many(TEXT)})),
    "Offsets": {**_object({"offsets": {**_many(_ENTRY), "minItems": 0}}), "additionalProperties": False},
    "Message": _object({"message": TEXT}),
    "Plugins": _many(_object({"class": TEXT, "type": TEXT}, version=TEXT)),
    "ConfigKeys": _many(_object({"name": TEXT, "type": TEXT, "required": {"type": "boolean"}})),
    "ConfigInfos": _object(
        {
            "name": TEXT,
            "error_count": _NUMBER,
            "groups": _many(TEXT),
            "configs": _many(
                _object({"definition": {"type": ["object", "null"]}, "value": {"type": "object"}})
            ),
        }
    ),
    "Loggers": _map({"type": "object"}),
    "Logger": {"type": "object"},
    "Names": _many(TEXT),
    "Level": _object({"level": TEXT}),
}

_EVERYWHERE: Final = (400, 401, 403, 503)
_NAMES: Final = re.compile(r"{(\w+)}")


def document() -> dict[str, Any]:
    """The routes as an OpenAPI 3.1 document."""
    paths: dict[str, dict[str, Any]] = {}
    for route in ROUTES:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Kafka Connect's REST API, by cooperator", "version": cooperator.__version__},
        "paths": paths,
        "components": {
            "schemas": dict(SCHEMAS),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(route: Route) -> dict[str, Any]:
    codes = route.refusals if route.right is PUBLIC else (*_EVERYWHERE, *route.refusals)
    refused = {str(code): _content("Error", "refused") for code in codes}
    answered = {str(code): _content(name, "done") for code, name in route.answers.items()}
    operation: dict[str, Any] = {
        "operationId": f"{route.method.lower()}_{'_'.join(route.segments)}".replace("{", "").replace("}", ""),
        "parameters": [
            *(
                {"name": n, "in": "path", "required": True, "schema": TEXT}
                for n in _NAMES.findall(route.path)
            ),
            *({"name": n, "in": "query", "schema": kind} for n, (kind, _) in route.query.items()),
        ],
        "responses": {**refused, **answered},
        "security": [] if route.right is PUBLIC else [{}, {"token": []}],
    }
    if route.body:
        operation["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": _ref(route.body)}},
        }
        operation["responses"]["415"] = _content("Error", "refused")
    return operation


def _content(name: str, description: str) -> dict[str, Any]:
    if not name:
        return {"description": description}
    return {"description": description, "content": {"application/json": {"schema": _ref(name)}}}
