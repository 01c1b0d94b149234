"""Writes the class archive that members' JVMs start with."""

import tempfile
import threading
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from cooperator.artifacts import spark_jars, write_archive
from cooperator.runtime.api import RuntimeSettings
from cooperator.runtime.class_path import jars_of
from cooperator.runtime.session import ARCHIVE, SparkHost

_EXIT_S: Final = 300.0
_CONNECTORS: Final = ("spark-sql-kafka-", "spark-token-provider-kafka-", "cooperator-spark")
_LINES: Final = 100


def write_classes(packages: tuple[str, ...], *, store: bool, progress: Callable[[str], None]) -> Path:
    """Writes the archive for members with these packages; see ``cooperator.artifacts.classes``.

    With ``store`` their checkpoints are in a store. Runs Spark once, unless the archive exists. Raises
    ``ArtifactError``.
    """
    with tempfile.TemporaryDirectory() as scratch:
        settings = RuntimeSettings(
            member="classes",
            incarnation="classes",
            checkpoints="s3a://classes/none" if store else Path(scratch, "checkpoints"),
            state_dir=Path(scratch, "state"),
            spark_packages=packages,
        )
        jars = jars_of(settings)

        def run(arguments: tuple[str, ...]) -> None:
            progress("run Spark once, so that members start with the classes it has loaded")
            host = SparkHost(settings, java_options=arguments)
            try:
                _load(host.session(threading.Event()), jars, Path(scratch))
            finally:
                host.close(_EXIT_S)

        return write_archive(ARCHIVE, (*jars, *spark_jars()), run)


def _load(session: Any, jars: tuple[Path, ...], scratch: Path) -> None:
    """Runs a small query from files to files, and loads the connectors' classes; no broker is needed."""
    (scratch / "in").mkdir()
    (scratch / "in" / "lines").write_text("".join(f'{{"number": {number}}}\n' for number in range(_LINES)))
    stream = session.readStream.format("text").load(str(scratch / "in"))
    query = (
        stream.selectExpr("CAST(get_json_object(value, '$.number') AS LONG) AS number", "value")
        .writeStream.format("parquet")
        .option("checkpointLocation", str(scratch / "query"))
        .option("path", str(scratch / "out"))
        .start()
    )
    query.processAllAvailable()
    query.stop()
    java = session.sparkContext._jvm.java
    loader = java.lang.Thread.currentThread().getContextClassLoader()
    for jar in jars:
        if jar.name.startswith(_CONNECTORS):
            for name in zipfile.ZipFile(jar).namelist():
                if name.endswith(".class") and "module-info" not in name:
                    java.lang.Class.forName(name.removesuffix(".class").replace("/", "."), False, loader)
    _open_clients(session.sparkContext._jvm)


def _open_clients(jvm: Any) -> None:
    """Creates and closes Kafka's clients, which loads most of their classes; they connect to nothing."""
    settings = jvm.java.util.Properties()
    for name, value in {
        "bootstrap.servers": "127.0.0.1:9",
        "key.deserializer": "org.apache.kafka.common.serialization.ByteArrayDeserializer",
        "value.deserializer": "org.apache.kafka.common.serialization.ByteArrayDeserializer",
        "key.serializer": "org.apache.kafka.common.serialization.ByteArraySerializer",
        "value.serializer": "org.apache.kafka.common.serialization.ByteArraySerializer",
        "group.id": "classes",
        "transactional.id": "classes",
    }.items():
        settings.setProperty(name, value)
    at_once = jvm.java.time.Duration.ZERO
    kafka = jvm.org.apache.kafka.clients
    kafka.consumer.KafkaConsumer(settings).close(at_once)
    kafka.producer.KafkaProducer(settings).close(at_once)
    kafka.admin.AdminClient.create(settings).close(at_once)
