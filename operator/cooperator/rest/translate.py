"""Translates configurations and states of Kafka Connect's REST API to Connectors and back. Pure."""

from collections.abc import Mapping
from typing import Any, Final

from cooperator.crd import API_VERSION, Connector, ResourceError, from_object, to_manifest
from cooperator.crd.connector import RESERVED_SETTINGS, State
from cooperator.crd.connector_names import resource_name
from cooperator.model import INSTANCE, ClusterConfig, TaskState, without_reserved
from cooperator.rest.answers import RequestRefused

STATES: Final = {"RUNNING": State.RUNNING, "PAUSED": State.PAUSED, "STOPPED": State.STOPPED}
"""The values of ``initial_state`` (KIP-980)."""

_SHOWN: Final = {
    # Clients know only Kafka's states. A task that is stopping still occupies its slot.
    TaskState.STARTING: "UNASSIGNED",
    TaskState.HELD: "UNASSIGNED",
    TaskState.STOPPING: "RUNNING",
}


def settings(value: Any, what: str, nulls: bool = False) -> dict[str, str | None]:
    """A map of settings; numbers and booleans become text, as Kafka's own server reads them.

    ``nulls`` keeps null settings; otherwise they count as absent.
    """
    if not isinstance(value, dict):
        raise RequestRefused(
            400, f"{what} is not a JSON object: send the connector's settings as names and strings"
        )
    found: dict[str, str | None] = {}
    for name, setting in value.items():
        if setting is None and nulls:
            found[name] = None
        elif isinstance(setting, bool):
            found[name] = str(setting).lower()
        elif isinstance(setting, int | float | str):
            found[name] = str(setting)
        elif setting is not None:
            raise RequestRefused(
                400, f"{what}: {name} is a list or an object, but must be a string: put it in quotes"
            )
    return found


def flat(connector: Connector) -> dict[str, str]:
    """The configuration as that API shows it."""
    spec = connector.spec
    return {
        **spec.config,
        "connector.class": spec.class_,
        "tasks.max": str(spec.tasks_max),
        "name": connector.connector_name,
    }


def created(
    name: str, namespace: str, worker: str, config: Mapping[str, str], state: State = State.RUNNING
) -> Connector:
    """The Connector for a configuration. Raises RequestRefused 400 if the configuration is invalid."""
    metadata = {"name": resource_name(worker, name), "namespace": namespace}
    called = {} if metadata["name"] == name else {"connectorName": name}
    spec = {"workerRef": {"name": worker}, "state": state.value, **called, **_spec(name, config)}
    return _read({"metadata": metadata, "spec": spec})


def configured(connector: Connector, config: Mapping[str, str]) -> Connector:
    """The same Connector with another configuration; the rest of its spec stays."""
    manifest = to_manifest(connector)
    manifest["spec"] = {**manifest["spec"], **_spec(connector.connector_name, config)}
    return _read(manifest)


def in_state(connector: Connector, state: State) -> Connector:
    return connector.model_copy(update={"spec": connector.spec.model_copy(update={"state": state})})


def _spec(name: str, config: Mapping[str, str]) -> dict[str, Any]:
    said = config.get("name", name)
    if said != name:
        raise RequestRefused(
            400, f"the configuration's name is {said!r}, but the connector's is {name!r}: use the same name"
        )
    class_ = config.get("connector.class", "")
    if not class_:
        raise RequestRefused(400, "the configuration has no connector.class: add the class of the connector")
    text = config.get("tasks.max", "1")
    if not (text.strip().isascii() and text.strip().isdigit()) or len(text.strip()) > 9:
        raise RequestRefused(400, f"tasks.max is {text[:40]!r}: use a number of at least 1")
    rest = {key: value for key, value in config.items() if key not in RESERVED_SETTINGS}
    return {"class": class_, "tasksMax": int(text), "config": rest}


def _read(manifest: Mapping[str, Any]) -> Connector:
    try:
        found = from_object({"apiVersion": API_VERSION, "kind": "Connector", **manifest})
    except ResourceError as error:
        raise RequestRefused(400, "; ".join(problem.message for problem in error.problems)) from None
    assert isinstance(found, Connector)
    return found


# --- what is shown --------------------------------------------------------------------------------------


def info(name: str, config: Mapping[str, str], tasks: int, kind: str) -> dict[str, Any]:
    ids = [{"connector": name, "task": number} for number in range(tasks)]
    return {"name": name, "config": dict(config), "tasks": ids, "type": kind}


def status(name: str, leader: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """A connector's status as its group's leader sees it; UNASSIGNED if the leader does not know it yet."""
    items = {task["task"]: task for task in leader.get("tasks", ()) if task["connector"] == name}
    instance = items.pop(INSTANCE, None)
    shown = _item(instance) if instance is not None else {"state": "UNASSIGNED", "worker_id": ""}
    tasks = [{"id": number, **_item(item)} for number, item in sorted(items.items())]
    return {"name": name, "connector": shown, "tasks": tasks, "type": kind}


def _item(item: Mapping[str, Any]) -> dict[str, str]:
    state = TaskState(item["state"])
    shown = {"state": _SHOWN.get(state, state.value), "worker_id": item["member"] or item.get("held_for", "")}
    return shown | ({"trace": item["trace"]} if item["trace"] else {})


def task_configs(name: str, config: ClusterConfig) -> list[dict[str, str]]:
    """The present configurations of its tasks, without settings reserved for the members themselves."""
    connector = config.connectors.get(name)
    if connector is None:
        return []
    return [dict(without_reserved(task)) for task in connector.tasks[: connector.task_count]]


def restarting(status: Mapping[str, Any], tasks: bool, only_failed: bool) -> dict[str, Any]:
    """A connector's status with the parts that will restart as RESTARTING (KIP-745)."""

    def shown(item: Mapping[str, Any]) -> Mapping[str, Any]:
        chosen = not only_failed or item["state"] == "FAILED"
        return {**item, "state": "RESTARTING"} if chosen else item

    return {
        **status,
        "connector": shown(status["connector"]),
        "tasks": [shown(task) if tasks else task for task in status["tasks"]],
    }
