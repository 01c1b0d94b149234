"""Connector: a job that is split into tasks, which the members of a Worker run."""

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Final, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from cooperator.crd.base import API_VERSION, Lenient, Model, ObjectMeta, Reference
from cooperator.crd.values import Settings
from cooperator.model import RESERVED

_RESERVED: Final = {
    "name": "metadata.name",
    "connector.class": "spec.class",
    "tasks.max": "spec.tasksMax",
}


class State(StrEnum):
    """Running; Paused keeps its tasks where they are, idle; Stopped has none (KIP-875)."""

    RUNNING = "Running"
    PAUSED = "Paused"
    STOPPED = "Stopped"


def _class(name: str) -> str:
    if not re.fullmatch(r"\S{1,250}", name):
        raise ValueError("use the name of a connector class, such as files-to-kafka, without spaces")
    return name


def _config(config: Mapping[str, str]) -> Mapping[str, str]:
    for key, field in _RESERVED.items():
        if key in config:
            raise ValueError(f"has {key!r}, which is set by {field}: remove it from the config")
    ours = next((key for key in config if key.startswith(RESERVED)), None)
    if ours is not None:
        raise ValueError(
            f"has {ours!r}; names that begin with {RESERVED!r} are kept for the spec's own fields, such as "
            "spec.autoRestart: remove it from the config"
        )
    return config


class AutoRestartSpec(Model):
    """When tasks that have failed are started again by themselves."""

    enabled: bool = Field(default=True, description="whether failed tasks are restarted without being asked")
    max_restarts: int = Field(
        default=7, ge=0, le=1_000_000, description="after how many restarts in a row a task stays failed"
    )
    backoff_seconds: int = Field(
        default=10, ge=1, le=86_400, description="the pause before the first restart; doubles with each"
    )
    backoff_max_seconds: int = Field(default=300, ge=1, le=86_400, description="the longest pause")
    reset_after_seconds: int = Field(
        default=600, ge=1, le=31_536_000, description="a task that has run for so long begins to count anew"
    )

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.backoff_seconds > self.backoff_max_seconds:
            raise ValueError(
                f"backoffSeconds ({self.backoff_seconds}) is the first pause and cannot be longer than the "
                f"longest, backoffMaxSeconds ({self.backoff_max_seconds}): raise backoffMaxSeconds to "
                f"{self.backoff_seconds}, or lower backoffSeconds"
            )
        return self


class ConnectorSpec(Model):
    """What a Connector is meant to do."""

    worker_ref: Reference = Field(description="the Worker that runs it, such as {name: lake}")
    class_: Annotated[str, AfterValidator(_class)] = Field(
        alias="class", description="the connector's class, such as files-to-kafka"
    )
    tasks_max: int = Field(default=1, ge=1, le=40_000, description="into how many tasks it may be split")
    task_weight: float = Field(
        default=1.0, ge=0.001, le=1_000_000, description="how heavy one of its tasks is, compared to others"
    )
    config: Annotated[Settings, AfterValidator(_config)] = Field(
        default_factory=dict, description="the connector's own settings"
    )
    auto_restart: AutoRestartSpec = Field(
        default_factory=AutoRestartSpec, description="when failed tasks are started again by themselves"
    )
    state: Annotated[State, Lenient] = Field(default=State.RUNNING, description="whether its tasks run")
    restart_nonce: str = Field(
        default="",
        max_length=253,
        description="any text; a new one restarts the connector and all its tasks once",
    )


class Connector(Model):
    """A job that is split into tasks."""

    api_version: Literal["cooperator.dev/v1alpha1"] = Field(
        default=API_VERSION, description="the API's version"
    )
    kind: Literal["Connector"] = Field(default="Connector", description="the kind of resource")
    metadata: ObjectMeta = Field(description="name and namespace")
    spec: ConnectorSpec = Field(description="what the connector is meant to do")
