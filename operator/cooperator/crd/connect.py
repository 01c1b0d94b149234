"""The configuration of stock Kafka Connect workers (``runtime: connect``)."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Final

from pydantic import AfterValidator, Field, JsonValue

from cooperator.crd.base import Lenient, Model
from cooperator.crd.owned import OWNED, why_owned
from cooperator.crd.pod import MOUNT_PATH, unique
from cooperator.crd.rules import Form, Rule, all_hold
from cooperator.crd.values import Settings

_INT32_MAX: Final = 2_147_483_647

JVM_OPTION: Final = Form(
    r"-[^ \t\r\n]+",
    "use one JVM option, such as -XX:+UseG1GC or -Dname=value, without spaces",
    1024,
)
LOGGER: Final = Form(
    r"[A-Za-z_$][A-Za-z0-9_.$]*", "use the name of a logger, such as org.apache.kafka.connect, or root", 255
)
TOPIC: Final = Form(r"[a-zA-Z0-9._-]+", "use a topic name: 1 to 249 letters, digits, '.', '_' and '-'", 249)
AGENT: Final = Form(
    r"/[^ \t\r\n]*\.jar(=[^ \t\r\n]+)?",
    "use the path of a .jar in the image, '=' and its arguments, such as /opt/agent.jar=9404:/opt/a.yaml",
    1024,
)
EAGER: Final = "connect.protocol"
_EAGER_REFUSED: Final = (
    f"{EAGER} is eager, so that every round would stop all tasks of the group: remove it, or use sessioned "
    "or compatible"
)
_HEAP_REFUSED: Final = "the heap is set by spec.connect.heapMb: remove -Xmx"


class LogLevel(StrEnum):
    TRACE = "TRACE"
    DEBUG = "DEBUG"
    INFO = "INFO"
    WARN = "WARN"
    ERROR = "ERROR"
    FATAL = "FATAL"
    OFF = "OFF"


def _config(config: Settings) -> Settings:
    for name in config:
        if owner := why_owned(name):
            raise ValueError(f"has {name!r}, which is set by {owner}: remove it from the config")
    if config.get(EAGER) == "eager":
        raise ValueError(_EAGER_REFUSED)
    return config


def _config_schema() -> dict[str, JsonValue]:
    """Settings may be of several types, so the API server can check only the ones that are named here."""

    def has(name: str) -> str:
        return f"has(self.{_cel(name)})"

    refused = [
        *(
            Rule(f"!{has(name)}", f"{name} is set by {owner}: remove it from the config")
            for name, owner in OWNED.items()
        ),
        Rule(f"!{has(EAGER)} || self.{_cel(EAGER)} != 'eager'", _EAGER_REFUSED),
    ]
    return {
        "x-kubernetes-preserve-unknown-fields": True,
        "properties": {
            **{
                name: {"x-kubernetes-int-or-string": True, "description": f"not allowed here: set by {owner}"}
                for name, owner in OWNED.items()
            },
            EAGER: {"x-kubernetes-int-or-string": True, "description": "sessioned or compatible"},
        },
        **all_hold(*refused),
    }


def _cel(name: str) -> str:
    return name.replace(".", "__dot__")


def _no_heap(option: str) -> str:
    if option.startswith("-Xmx"):
        raise ValueError(_HEAP_REFUSED)
    return option


class Topics(Model):
    """The names of a Connect cluster's topics; for an existing cluster, those of its workers."""

    config: Annotated[str, TOPIC] | None = Field(
        default=None, description="topic for connector and task configurations; default GROUP-configs"
    )
    offset: Annotated[str, TOPIC] | None = Field(
        default=None, description="topic for source offsets; default GROUP-offsets"
    )
    status: Annotated[str, TOPIC] | None = Field(
        default=None, description="topic for connector and task statuses; default GROUP-status"
    )


class Metrics(Model):
    """Access to the workers' own metrics."""

    jmx_port: int | None = Field(
        default=None, ge=1024, le=65_535, description="port for JMX, unencrypted; default: none"
    )
    java_agent: Annotated[str, AGENT] | None = Field(
        default=None, description="Java agent in the image with its arguments, such as Prometheus' exporter"
    )
    port: int | None = Field(
        default=None,
        ge=1024,
        le=65_535,
        description="the agent's port, which pods expose under the name metrics",
    )


class Connect(Model):
    """Configuration of stock Kafka Connect workers."""

    config: Annotated[Settings, AfterValidator(_config)] = Field(
        default_factory=dict,
        max_length=1000,
        json_schema_extra=_config_schema(),
        description="worker settings, such as key.converter; settings that the operator owns are refused",
    )
    heap_mb: int = Field(
        default=1024, ge=64, le=1_048_576, description="heap of each worker's JVM, in megabytes"
    )
    jvm_options: Annotated[
        tuple[
            Annotated[
                str,
                JVM_OPTION,
                AfterValidator(_no_heap),
                Rule("!self.startsWith('-Xmx')", _HEAP_REFUSED),
            ],
            ...,
        ],
        Lenient,
        AfterValidator(unique),
    ] = Field(
        default=(),
        max_length=100,
        json_schema_extra={"x-kubernetes-list-type": "set"},
        description="options of each worker's JVM, such as -XX:+UseG1GC",
    )
    plugin_path: Annotated[tuple[Annotated[str, MOUNT_PATH], ...], Lenient, AfterValidator(unique)] = Field(
        default=(),
        max_length=50,
        json_schema_extra={"x-kubernetes-list-type": "set"},
        description="plug-in directories in the image or on a volume of the template",
    )
    log_levels: Mapping[Annotated[str, LOGGER], Annotated[LogLevel, Lenient]] = Field(
        default_factory=dict,
        max_length=100,
        description="log levels by logger, such as {root: INFO, org.apache.kafka.connect: DEBUG}",
    )
    metrics: Metrics = Field(default_factory=Metrics, description="access to the workers' own metrics")
    topics: Topics = Field(
        default_factory=Topics,
        description="the cluster's topics; for an existing cluster, those of its workers",
    )
    command: Annotated[str, MOUNT_PATH] = Field(
        default="/opt/kafka/bin/connect-distributed.sh",
        description=(
            "the command that starts a worker in the image; its argument is the path of the worker's settings"
        ),
    )
    hung_after_ms: int = Field(
        default=0,
        ge=0,
        le=_INT32_MAX,
        description="a worker is replaced when a start or stop takes this long; 0: never",
    )
