"""The bundles of jars and their versions, which are defined only here.

After a change here run ``python -m cooperator.artifacts.lock``.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

KAFKA_VERSION: Final = "4.3.1"
"""The version of the embedded broker, and of the stock Connect workers of the tests."""

CONNECT_3_VERSION: Final = "3.9.1"
"""The older line of stock Connect workers that a group may consist of."""

SPARK_VERSION: Final = "4.1.1"
"""Its Kafka source is published completely (decision 001); equals pyspark in ``pyproject.toml``."""

_LOG4J_VERSION: Final = "2.25.4"
"""The log4j version that Kafka depends on; its slf4j binding must match."""


@dataclass(frozen=True, slots=True, order=True)
class Artifact:
    """Maven coordinates of a jar, or of another file of its release by ``classifier`` and ``extension``."""

    group: str
    name: str
    version: str
    classifier: str = ""
    extension: str = "jar"

    @classmethod
    def parse(cls, coordinates: str) -> "Artifact":
        """Read ``group:artifact:version``; raises ValueError for anything else."""
        group, name, version = coordinates.split(":")
        if not (group and name and version):
            raise ValueError(f"{coordinates!r} is not group:artifact:version")
        return cls(group, name, version)

    @property
    def file_name(self) -> str:
        return f"{self.name}-{self.version}.jar"

    def __str__(self) -> str:
        return f"{self.group}:{self.name}:{self.version}"


@dataclass(frozen=True, slots=True)
class Bundle:
    """Jars that are used together. ``transitive``: includes everything that the roots depend on;
    ``beside_spark``: except what is inside pyspark."""

    roots: tuple[Artifact, ...]
    transitive: bool
    beside_spark: bool = False


_AWS_SDK_VERSION: Final = "2.29.52"
"""The newest release that adds no checksums that only Amazon's stores may support; it has conditional
writes."""


def _aws(name: str) -> Artifact:
    return Artifact("software.amazon.awssdk", name, _AWS_SDK_VERSION)


def _kafka(name: str, version: str = KAFKA_VERSION) -> Artifact:
    return Artifact("org.apache.kafka", name, version)


BUNDLES: Final[Mapping[str, Bundle]] = MappingProxyType(
    {
        "kafka": Bundle(
            roots=(
                _kafka("kafka_2.13"),
                _kafka("kafka-tools"),
                _kafka("connect-runtime"),
                _kafka("connect-file"),
                _kafka("connect-json"),
                _kafka("connect-transforms"),
                _kafka("connect-basic-auth-extension"),
                Artifact("org.apache.logging.log4j", "log4j-slf4j-impl", _LOG4J_VERSION),
            ),
            transitive=True,
        ),
        # Workers of the previous line: rolls to 4.x start from these.
        "connect-3.9": Bundle(
            roots=(
                _kafka("connect-runtime", CONNECT_3_VERSION),
                _kafka("connect-file", CONNECT_3_VERSION),
                _kafka("connect-json", CONNECT_3_VERSION),
                _kafka("connect-transforms", CONNECT_3_VERSION),
                _kafka("connect-basic-auth-extension", CONNECT_3_VERSION),
                Artifact("org.slf4j", "slf4j-reload4j", "1.7.36"),
            ),
            transitive=True,
        ),
        # Kafka's own copying connectors, which benchmarks compare with; beside the jars of "kafka".
        "connect-mirror": Bundle(
            roots=(_kafka("connect-mirror"), _kafka("connect-mirror-client")),
            transitive=False,
        ),
        # Compiles the Java code of benchmarks and tests where there is only a JRE; the newest for Java 17.
        "java-compiler": Bundle(
            roots=(Artifact("org.eclipse.jdt", "ecj", "3.40.0"),),
            transitive=False,
        ),
        # The version of the Hadoop inside pyspark. The SDK comes in parts, since as a whole it is half a GB.
        "spark-s3": Bundle(
            roots=(Artifact("org.apache.hadoop", "hadoop-aws", "3.4.2"),),
            transitive=False,
        ),
        "aws-sdk": Bundle(
            roots=(
                _aws("s3"),
                _aws("s3-transfer-manager"),
                _aws("sts"),
                _aws("apache-client"),
                _aws("netty-nio-client"),
            ),
            transitive=True,
            beside_spark=True,
        ),
        # Spark's tasks copy rows into tables by it; what its POM names besides has annotations only.
        "postgresql": Bundle(
            roots=(Artifact("org.postgresql", "postgresql", "42.7.13"),),
            transitive=False,
        ),
        # Their other dependencies (compression, slf4j, Hadoop, Scala) are inside pyspark already.
        "spark-kafka": Bundle(
            roots=(
                Artifact("org.apache.spark", "spark-sql-kafka-0-10_2.13", SPARK_VERSION),
                Artifact("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", SPARK_VERSION),
                _kafka("kafka-clients", "3.9.1"),
                Artifact("org.apache.commons", "commons-pool2", "2.12.1"),
            ),
            transitive=False,
        ),
    }
)
