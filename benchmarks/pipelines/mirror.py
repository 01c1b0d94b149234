"""A stock Connect worker with MirrorSource, Kafka's own connector from topics to topics, at least once."""

import json
import os
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any, Final

from benchmarks.pipelines.job import COPY_PREFIX, ContenderFailed, Job, Processes, Running
from cooperator.artifacts import find_java, resolve
from cooperator.connect.properties import properties_text
from cooperator.local.settings import free_port

_DIRECT: Final = urllib.request.build_opener(urllib.request.ProxyHandler({}))
_MAIN: Final = "org.apache.kafka.connect.cli.ConnectDistributed"
_BYTES: Final = "org.apache.kafka.connect.converters.ByteArrayConverter"
_START_S: Final = 240.0
_ASK_S: Final = 60.0
_JVM: Final = (
    # The defaults of bin/connect-distributed.sh and bin/kafka-run-class.sh.
    *("-Xms256M", "-Xmx2G", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20"),
    *(
        "-XX:InitiatingHeapOccupancyPercent=35",
        "-XX:+ExplicitGCInvokesConcurrent",
        "-Djava.awt.headless=true",
    ),
)
_LOG4J: Final = """status = error
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = [%d] %p %X{connector.context}%m (%c:%L)%n
rootLogger.level = info
rootLogger.appenderRef.out.ref = out
logger.config.name = org.apache.kafka.common.config.AbstractConfig
logger.config.level = warn
"""


class Mirror:
    """``tasks`` is ``tasks.max``."""

    name = "MirrorSource"
    guarantee = "at least once"

    def __init__(self, tasks: int) -> None:
        self._tasks = tasks

    def start(self, job: Job) -> Running:
        if job.sink != "kafka" or job.converter != "bytes":
            raise ValueError("MirrorSource only copies bytes from topics to topics")
        worker = _Worker(job)
        try:
            worker.create(job, self._tasks)
        except BaseException:
            worker.stop()
            raise
        return worker


class _Worker(Processes):
    def __init__(self, job: Job) -> None:
        self._url = f"http://127.0.0.1:{free_port()}"
        settings = job.directory / "worker.properties"
        settings.write_text(properties_text(_worker_settings(job, self._url)))
        logging = job.directory / "log4j2.properties"
        logging.write_text(_LOG4J)
        class_path = os.pathsep.join(map(str, (*resolve("kafka"), *resolve("connect-mirror"))))
        command = [str(find_java()), *_JVM, f"-Dlog4j2.configurationFile={logging}", _MAIN, str(settings)]
        super().__init__(command, job.directory / "connect.log", {"CLASSPATH": class_path})

    def create(self, job: Job, tasks: int) -> None:
        """Create the connector as soon as the worker takes it."""
        body = {"name": "mirror", "config": _connector_config(job, tasks)}
        deadline = time.monotonic() + _START_S
        while True:
            self.check()
            try:
                self._ask("connectors", body)
                return
            except urllib.error.HTTPError as error:
                # While it starts, it answers that there is no such path, or that it is not ready.
                if error.code == 400:
                    raise ContenderFailed(error.read().decode(errors="replace")) from None
            except OSError:
                pass
            if time.monotonic() > deadline:
                raise ContenderFailed(f"the worker takes no connector within {_START_S:g} s")
            time.sleep(0.5)

    def check(self) -> None:
        super().check()
        try:
            statuses = self._ask("connectors?expand=status")
        except OSError:
            return  # It starts, or rebalances; that it ended is seen above.
        for name, about in statuses.items():
            status = about["status"]
            for item in (status["connector"], *status["tasks"]):
                if item["state"] == "FAILED":
                    raise ContenderFailed(f"{name}: {item.get('trace', '')}")

    def _ask(self, path: str, value: object = None) -> Any:
        data = None if value is None else json.dumps(value).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"{self._url}/{path}", data, headers)
        with _DIRECT.open(request, timeout=_ASK_S) as answer:
            return json.load(answer)


def _worker_settings(job: Job, url: str) -> Mapping[str, str]:
    """Everything else has Connect's defaults."""
    group = f"mirror-{job.topic}"
    return {
        "bootstrap.servers": job.bootstrap_servers,
        "group.id": group,
        "listeners": url,
        "plugin.discovery": "service_load",
        "key.converter": _BYTES,
        "value.converter": _BYTES,
        **{f"{kind}.storage.topic": f"{group}-{kind}" for kind in ("config", "offset", "status")},
        **{f"{kind}.storage.replication.factor": "1" for kind in ("config", "offset", "status")},
    }


def _connector_config(job: Job, tasks: int) -> Mapping[str, str]:
    return {
        "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
        "tasks.max": str(tasks),
        "source.cluster.alias": COPY_PREFIX,
        "target.cluster.alias": "target",
        "source.cluster.bootstrap.servers": job.bootstrap_servers,
        "target.cluster.bootstrap.servers": job.bootstrap_servers,
        "topics": job.topic,
        "source.consumer.isolation.level": "read_committed",
        "key.converter": _BYTES,
        "value.converter": _BYTES,
        "replication.factor": "1",
        "offset-syncs.topic.replication.factor": "1",
        # The broker has no authorizer to copy rules of.
        "sync.topic.acls.enabled": "false",
    }
