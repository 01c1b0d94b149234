"""Connector: a job that is split into tasks, which the members of a Worker run."""

import json
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Final, Literal, Self

from pydantic import AfterValidator, ConfigDict, Field, JsonValue, model_validator

from cooperator.crd.base import API_VERSION, Lenient, Model, ObjectMeta, Reference
from cooperator.crd.choices import DeletionPolicy
from cooperator.crd.overrides import override_problem
from cooperator.crd.rules import DNS_SUBDOMAIN, LIGHTEST, NOT_WEIGHTLESS, Form, Rule, all_hold, stays
from cooperator.crd.values import Settings
from cooperator.model import RESERVED

RESERVED_SETTINGS: Final = {
    "name": "metadata.name, or spec.connectorName",
    "connector.class": "spec.class",
    "tasks.max": "spec.tasksMax",
}


CLASS: Final = Form(
    # The column CLASS of `kubectl get` shows it as it is.
    r"[!-~]+",
    "use the name of a connector class, such as files-to-kafka: letters, digits and signs of ASCII",
    250,
)
CONNECTOR_NAME: Final = Form(
    r"[^\x00-\x1f\x7f-\x9f]+",
    "use 1 to 1000 characters without control characters, as Kafka Connect does",
    1000,
)
BOUND_TO_NAME: Final = "tasks and offsets are stored in Kafka under this name"
BOUND_TO_WORKER: Final = "the connector's progress belongs to its Worker's group"
STAYS_WITH_ITS_WORKER: Final = Rule(
    # The rule is about one object and not about a change, so that it also refuses a status that binds the
    # Connector to a Worker that its spec no longer names: the second of two concurrent writers fails.
    "!has(self.status) || !has(self.status.boundWorker) || "
    "self.status.boundWorker == self.spec.workerRef.name",
    stays("spec.workerRef.name", BOUND_TO_WORKER),
    field=".spec.workerRef.name",
)
"""Applies to a whole Connector, including its status."""


class State(StrEnum):
    """Running; Paused keeps its tasks where they are, idle; Stopped has none (KIP-875)."""

    RUNNING = "Running"
    PAUSED = "Paused"
    STOPPED = "Stopped"


MOST_CONFIG_BYTES: Final = 400_000
"""Kafka limits a record to 1 MB by default, and each task's record repeats the Connector's settings."""


def _config(config: Mapping[str, str]) -> Mapping[str, str]:
    for key, field in RESERVED_SETTINGS.items():
        if key in config:
            raise ValueError(f"has {key!r}, which is set by {field}: remove it from the config")
    ours = next((key for key in config if key.startswith(RESERVED)), None)
    if ours is not None:
        raise ValueError(
            f"has {ours!r}; names that begin with {RESERVED!r} are reserved for fields of the spec, such as "
            "spec.autoRestart: remove it from the config"
        )
    if problem := override_problem(config):
        raise ValueError(problem)
    sizes = {key: len(json.dumps(value)) for key, value in config.items()}
    if (total := sum(map(len, config)) + sum(sizes.values())) > MOST_CONFIG_BYTES:
        largest = max(sizes, key=lambda key: sizes[key])
        raise ValueError(
            f"has {total:,} bytes as JSON, {sizes[largest]:,} of them in {largest[:100]!r}, but at most "
            f"{MOST_CONFIG_BYTES:,} fit into a record of the config topic beside a task's units: keep large "
            "values in a file that members can read"
        )
    return config


def _config_schema() -> dict[str, JsonValue]:
    """Settings may be of several types, so the API server can check only the ones that are named here."""

    def absent(key: str, field: str) -> Rule:
        escaped = key.replace(".", "__dot__")
        return Rule(f"!has(self.{escaped})", f"{key} is set by {field}: remove it from the config")

    return {
        "x-kubernetes-preserve-unknown-fields": True,
        "properties": {
            key: {"x-kubernetes-int-or-string": True, "description": f"not allowed here: set by {field}"}
            for key, field in RESERVED_SETTINGS.items()
        },
        **all_hold(*(absent(key, field) for key, field in RESERVED_SETTINGS.items())),
    }


class AutoRestartSpec(Model):
    """Automatic restarts of failed tasks."""

    model_config = ConfigDict(
        json_schema_extra=all_hold(
            Rule(
                "self.backoffMs <= self.backoffMaxMs",
                "backoffMs must not exceed backoffMaxMs: raise backoffMaxMs, or lower backoffMs",
            )
        )
    )

    enabled: bool = Field(default=True, description="whether failed tasks are restarted automatically")
    max_restarts: int = Field(
        default=7,
        ge=0,
        le=1_000_000,
        description="number of consecutive restarts after which a task stays failed",
    )
    backoff_ms: int = Field(
        default=10_000,
        ge=1_000,
        le=86_400_000,
        description="delay before the first restart; doubles with each restart",
    )
    backoff_max_ms: int = Field(default=300_000, ge=1_000, le=86_400_000, description="maximum delay")
    reset_after_ms: int = Field(
        default=600_000,
        ge=1_000,
        le=31_536_000_000,
        description="running time after which the count of restarts is reset",
    )

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.backoff_ms > self.backoff_max_ms:
            raise ValueError(
                f"backoffMs ({self.backoff_ms}) exceeds backoffMaxMs ({self.backoff_max_ms}): raise "
                "backoffMaxMs to "
                f"{self.backoff_ms}, or lower backoffMs"
            )
        return self


class StateReplicasSpec(Model):
    """Moves of tasks with state to members that have learned it beforehand."""

    standbys: int = Field(
        default=0,
        ge=0,
        le=5,
        description=(
            "number of other members that learn each task's state all the time; one of them goes on with the "
            "task at once when its member's death is proven"
        ),
    )
    max_warmups: int = Field(
        default=2,
        ge=1,
        le=100,
        description=(
            "number of tasks with state in the Worker that members learn at a time in order to take them over"
        ),
    )
    acceptable_lag_bytes: int = Field(
        default=10_000_000,
        ge=0,
        le=1_000_000_000_000,
        description="a member that is at most this far behind a task's newest commit has caught up",
    )
    warmup_timeout_ms: int = Field(
        default=600_000,
        ge=1_000,
        le=86_400_000,
        description="time after which a task moves to a member that has not caught up",
    )


class WorkerReference(Reference):
    """The Worker that runs a Connector; fixed once tasks may have started."""

    name: Annotated[str, DNS_SUBDOMAIN] = Field(
        description="the name of the Worker; immutable once status.boundWorker is set"
    )


class ConnectorSpec(Model):
    """The desired state of a Connector."""

    worker_ref: WorkerReference = Field(
        description="the Worker that runs the connector, such as {name: lake}"
    )
    connector_name: Annotated[str, CONNECTOR_NAME] | None = Field(
        default=None,
        description=(
            "the connector's name in Kafka, if it differs from the resource's name, such as Orders_2; only "
            "with runtime: connect; immutable once status.boundWorker is set"
        ),
    )
    class_: Annotated[str, CLASS] = Field(
        alias="class", description="the connector's class, such as files-to-kafka"
    )
    tasks_max: int = Field(default=1, ge=1, le=40_000, description="maximum number of tasks")
    task_weight: Annotated[float, NOT_WEIGHTLESS] = Field(
        default=1.0,
        ge=LIGHTEST,
        le=1_000_000,
        description="load of one task, relative to those of other connectors",
    )
    config: Annotated[Settings, AfterValidator(_config)] = Field(
        default_factory=dict,
        max_length=1000,
        json_schema_extra=_config_schema(),
        description="the connector's settings; values are strings, numbers or booleans",
    )
    auto_restart: AutoRestartSpec = Field(
        default_factory=AutoRestartSpec, description="automatic restarts of failed tasks"
    )
    deletion_policy: Annotated[DeletionPolicy, Lenient] = Field(
        default=DeletionPolicy.DELETE,
        description="Delete: the connector is deleted with this resource; Orphan: it keeps running",
    )
    state: Annotated[State, Lenient] = Field(default=State.RUNNING, description="desired state of the tasks")
    state_replicas: StateReplicasSpec | None = Field(
        default=None,
        description=(
            "set, if only to {}: tasks with state run on while the members that they move to learn it; "
            "unset: they stop first, and read their state where they start"
        ),
    )
    restart_nonce: str = Field(
        default="",
        max_length=253,
        description="any text; a change restarts the connector and all its tasks once",
    )


class Connector(Model):
    """A job that is split into tasks."""

    api_version: Literal["cooperator.dev/v1alpha1"] = Field(
        default=API_VERSION, description="the API's version"
    )
    kind: Literal["Connector"] = Field(default="Connector", description="the kind of resource")
    metadata: ObjectMeta = Field(description="name and namespace")
    spec: ConnectorSpec = Field(description="desired state of the connector")

    @property
    def connector_name(self) -> str:
        """The connector's name in Kafka: in the group's topics, in Connect's REST API and in statuses."""
        return self.spec.connector_name or self.metadata.name
