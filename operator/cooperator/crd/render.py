"""Renders the models as custom resource definitions.

The schema is structural, as Kubernetes requires: every field has one type, there are no references, and an
optional field is absent and not null. Anything else from pydantic is an error here, so that no check is lost.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

import yaml
from pydantic import BaseModel

from cooperator.crd.base import API_VERSION
from cooperator.crd.connector import BOUND_TO_NAME, STAYS_WITH_ITS_WORKER, Connector, ConnectorSpec
from cooperator.crd.projection import Projection
from cooperator.crd.rules import VALIDATIONS, Rule, all_hold, stays
from cooperator.crd.status import ConnectorStatus, WorkerStatus
from cooperator.crd.worker import WORKER_NAME, Worker, WorkerSpec

Schema: TypeAlias = dict[str, Any]

_PRESERVE: Final = "x-kubernetes-preserve-unknown-fields"
_COPIED: Final[tuple[str, ...]] = (
    *("description", "type", "format", "enum", "default", "minimum", "maximum"),
    *("minLength", "maxLength", "maxItems", "maxProperties", "required"),
    *("x-kubernetes-int-or-string", _PRESERVE, "x-kubernetes-list-type", "x-kubernetes-list-map-keys"),
)
_DROPPED: Final = frozenset({"title", "propertyNames", "$defs"})
_STRUCTURE: Final = ("properties", "items", "additionalProperties")
_EMPTY: Final[tuple[object, ...]] = (None, "", [], {})

_READY: Final = ".status.conditions[?(@.type=='Ready')]"


def definitions() -> dict[str, Schema]:
    """The custom resource definitions, by the names of their files."""
    made = (
        _definition(
            "Worker",
            "wrk",
            _root(Worker, WorkerSpec, WorkerStatus, [_worker_name()]),
            columns=[
                ("Ready", "string", f"{_READY}.status", "whether the desired state is reached"),
                ("Members", "string", ".status.memberSummary", "running and desired members"),
                ("Tasks", "string", ".status.taskSummary", "running and desired tasks"),
                (
                    "Held",
                    "string",
                    ".status.heldSummary",
                    "tasks that wait, and their longest remaining time",
                ),
                ("Reason", "string", f"{_READY}.reason", "reason of the condition Ready"),
            ],
            replicas=".spec.replicas",
            counted=".status.replicas",
        ),
        _definition(
            "Connector",
            "cnr",
            _root(Connector, ConnectorSpec, ConnectorStatus, [STAYS_WITH_ITS_WORKER, _connector_name()]),
            columns=[
                ("Ready", "string", f"{_READY}.status", "whether the desired state is reached"),
                ("State", "string", ".status.state", "state of the connector's instance"),
                ("Tasks", "string", ".status.taskSummary", "running and desired tasks"),
                (
                    "Held",
                    "string",
                    ".status.heldSummary",
                    "tasks that wait, and their longest remaining time",
                ),
                ("Worker", "string", ".spec.workerRef.name", "the Worker that runs it"),
                ("Reason", "string", f"{_READY}.reason", "reason of the condition Ready"),
            ],
            replicas=".spec.tasksMax",
            counted=".status.tasks.desired",
        ),
    )
    return {f"{crd['spec']['group']}_{crd['spec']['names']['plural']}.yaml": crd for crd in made}


def to_yaml(definition: Schema) -> str:
    """The text of the definition's file."""
    text: str = yaml.dump(definition, Dumper=_Dumper, sort_keys=False, width=110, allow_unicode=True)
    return f"# Written by `cooperator crds`; its tests fail when it is changed by hand.\n{text}"


def structural(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> Schema:
    """Convert pydantic's JSON schema to a structural one. Raises ValueError for what does not fit."""
    node = _resolved(schema, definitions)
    unknown = node.keys() - {*_COPIED, *_DROPPED, *_STRUCTURE, VALIDATIONS}
    if unknown:
        raise ValueError(f"no place in a structural schema for {sorted(unknown)}: {schema}")
    if node.get("type") == "object" and "maxLength" in node:
        node["maxProperties"] = node.pop("maxLength")
    made = {key: node[key] for key in _COPIED if key in node}
    if "description" in made:
        made["description"] = _plain(made["description"])
    if made.get("default", 0) in _EMPTY:
        del made["default"]
    if "properties" in node:
        made["properties"] = {
            name: _property(part, definitions, name in node.get("required", ()))
            for name, part in node["properties"].items()
        }
    elif isinstance(node.get("additionalProperties"), Mapping) and not made.get(_PRESERVE):
        made["additionalProperties"] = structural(node["additionalProperties"], definitions)
    if "items" in node:
        made["items"] = structural(node["items"], definitions)
    if VALIDATIONS in node:
        made[VALIDATIONS] = node[VALIDATIONS]
    return made


def _plain(text: str) -> str:
    """The first paragraph of a docstring or description, as one line."""
    return text.partition("\n\n")[0].replace("\n", " ").replace("``", "")


def _property(schema: Mapping[str, Any], definitions: Mapping[str, Any], is_required: bool) -> Schema:
    made = structural(schema, definitions)
    is_made_when_missing = not is_required and "default" not in schema
    if is_made_when_missing and "properties" in made and not made.get(_PRESERVE):
        made["default"] = _default_object(made)
    return made


def _default_object(schema: Schema) -> Schema:
    """The default of an absent object, from which the server fills in the defaults of its fields.

    The server checks the object's rules before that, so the fields that rules need have their defaults here.
    """
    if VALIDATIONS not in schema:
        return {}
    return {name: part["default"] for name, part in schema["properties"].items() if part.get("default")}


def _resolved(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    """Resolve references and alternatives: the only alternative is "or null", which means absent."""
    node = dict(schema)
    if "$ref" in node:
        target = _resolved(definitions[node.pop("$ref").removeprefix("#/$defs/")], definitions)
        return {**target, **node}
    if "anyOf" in node:
        choices = [choice for choice in node.pop("anyOf") if choice != {"type": "null"}]
        if len(choices) != 1:
            raise ValueError(f"a field has one type in a structural schema, this one has more: {schema}")
        return {**_resolved(choices[0], definitions), **node}
    return node


def _root(
    model: type[BaseModel], spec: type[BaseModel], status: type[Projection], rules: Sequence[Rule]
) -> Schema:
    spec_schema = _of(spec)
    may_be_missing = not model.model_fields["spec"].is_required()
    description = model.model_fields["spec"].description
    return {
        "type": "object",
        "description": _plain(model.__doc__ or ""),
        **({} if may_be_missing else {"required": ["spec"]}),
        **(all_hold(*rules) if rules else {}),
        "properties": {
            "apiVersion": {"type": "string", "description": f"the API's version, {API_VERSION}"},
            "kind": {"type": "string", "description": "the kind of resource"},
            "metadata": {"type": "object"},
            "spec": {
                **spec_schema,
                "description": description,
                **({"default": _default_object(spec_schema)} if may_be_missing else {}),
            },
            "status": _without_defaults(_of(status)),
        },
    }


def _of(model: type[BaseModel]) -> Schema:
    schema = model.model_json_schema(by_alias=True)
    return structural(schema, schema.get("$defs", {}))


def _without_defaults(schema: Any) -> Any:
    """Remove defaults, so that the server adds nothing to a status."""
    if isinstance(schema, dict):
        return {
            key: {name: _without_defaults(part) for name, part in value.items()}
            if key == "properties"
            else _without_defaults(value)
            for key, value in schema.items()
            if key != "default"
        }
    return schema


def _worker_name() -> Rule:
    return Rule(
        f"self.metadata.name.matches('^{WORKER_NAME.pattern}$') && "
        f"size(self.metadata.name) <= {WORKER_NAME.longest}",
        f"metadata.name: {WORKER_NAME.remedy}; pods are named NAME-0, …",
    )


def _connector_name() -> Rule:
    """The rule for the name in Kafka, which is the resource's if the spec has none."""

    def read(root: str) -> str:
        return f"(has({root}.spec.connectorName) ? {root}.spec.connectorName : {root}.metadata.name)"

    return Rule(
        f"{read('self')} == {read('oldSelf')}",
        stays("spec.connectorName", BOUND_TO_NAME),
        ".spec.connectorName",
    )


def _definition(
    kind: str,
    short_name: str,
    schema: Schema,
    columns: Sequence[tuple[str, str, str, str]],
    replicas: str,
    counted: str,
) -> Schema:
    group, _, version = API_VERSION.partition("/")
    plural = f"{kind.lower()}s"
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {
                "kind": kind,
                "listKind": f"{kind}List",
                "plural": plural,
                "singular": kind.lower(),
                "shortNames": [short_name],
                "categories": ["cooperator"],
            },
            "versions": [
                {
                    "name": version,
                    "served": True,
                    "storage": True,
                    "subresources": {
                        "status": {},
                        "scale": {
                            "specReplicasPath": replicas,
                            "statusReplicasPath": counted,
                            "labelSelectorPath": ".status.selector",
                        },
                    },
                    "additionalPrinterColumns": [
                        *(
                            {"name": name, "type": type_, "jsonPath": path, "description": description}
                            for name, type_, path, description in columns
                        ),
                        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
                    ],
                    "schema": {"openAPIV3Schema": schema},
                }
            ],
        },
    }


class _Dumper(yaml.SafeDumper):
    """Indents lists and writes no aliases, since the same rule may occur in several places."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)

    def ignore_aliases(self, data: Any) -> bool:
        return True
