"""Configuration of the members' Spark."""

from typing import Annotated, Final

from pydantic import AfterValidator, Field

from cooperator.crd.base import Lenient, Model
from cooperator.crd.pod import unique
from cooperator.crd.rules import Form
from cooperator.crd.values import Settings

_PART: Final = r"[A-Za-z0-9_.-]+"
PACKAGE: Final = Form(
    f"{_PART}:{_PART}:{_PART}",
    "write group:artifact:version, such as org.apache.spark:spark-avro_2.13:4.1.1",
    300,
)
JAR: Final = Form(
    r"/[^ \t\r\n,:]*\.jar",
    "use the full path of a .jar file that every member has; put libraries of Maven Central into packages",
    1024,
)


PACKAGES_IN_CONF: Final = (
    "spark.jars.packages would be fetched at every start of a member: use spark.packages instead"
)


KUBERNETES: Final = "k8s://"
"""Prefix of ``spark.master`` when executors are pods."""
_DEPLOY_MODE: Final = "spark.submit.deployMode"


def _possible(conf: Settings) -> Settings:
    if "spark.jars.packages" in conf:
        raise ValueError(PACKAGES_IN_CONF)
    if (mode := conf.get(_DEPLOY_MODE, "client")) != "client":
        raise ValueError(
            f"{_DEPLOY_MODE} is {mode!r}, but a member is itself the driver of its queries: remove it"
        )
    return conf


class Spark(Model):
    """Configuration of the members' Spark."""

    # The API server has no rule for it: it cannot check a map whose values may be of any type.
    conf: Annotated[Settings, AfterValidator(_possible)] = Field(
        default_factory=dict,
        max_length=1000,
        description=(
            "Spark settings, such as spark.sql.session.timeZone: UTC; they take precedence over heapMb"
        ),
    )
    heap_mb: int = Field(
        default=1024, ge=256, le=1_048_576, description="heap of each member's JVM, in megabytes"
    )
    packages: Annotated[tuple[Annotated[str, PACKAGE], ...], Lenient, AfterValidator(unique)] = Field(
        default=(),
        max_length=50,
        json_schema_extra={"x-kubernetes-list-type": "set"},
        description=(
            "Java libraries from Maven Central, as group:artifact:version, fetched with their dependencies"
        ),
    )
    jars: Annotated[tuple[Annotated[str, JAR], ...], Lenient, AfterValidator(unique)] = Field(
        default=(),
        max_length=50,
        json_schema_extra={"x-kubernetes-list-type": "set"},
        description="paths of jar files that exist on every member",
    )

    @property
    def on_kubernetes(self) -> bool:
        """Whether members make their executors as pods."""
        return self.conf.get("spark.master", "").startswith(KUBERNETES)

    @property
    def shapes_executors(self) -> bool:
        """Whether the user defines the executors' pods, so that their view of volumes is unknown here."""
        return any(
            name == "spark.kubernetes.executor.podTemplateFile"
            or name.startswith("spark.kubernetes.executor.volumes.")
            for name in self.conf
        )
