"""Spark outside of a member: a standalone cluster, and a Spark Connect server, from pyspark's own jars."""

import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import Any

import psutil
import pyspark

from cooperator.artifacts import find_java, java_home, resolve
from cooperator.local.settings import free_port
from cooperator.runtime import RuntimeSettings
from cooperator.runtime.class_path import packaged
from cooperator.runtime.session import SparkHost
from tests.harness.support import eventually

HOME = Path(pyspark.__file__).parent


class _Java:
    """One process; its output goes to ``log``."""

    def __init__(self, log: Path, class_path: Sequence[Path], *arguments: str) -> None:
        self.log = log
        java = find_java()
        jars = os.pathsep.join(map(str, (*class_path, HOME / "jars" / "*")))
        small = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
        environment = {**os.environ, "SPARK_HOME": str(HOME), "JAVA_HOME": str(java_home(java))}
        environment |= {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_SCALA_VERSION": "2.13"}
        opened = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED]
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                [str(java), *small, *opened, "-cp", jars, *arguments],
                env=environment,
                cwd=log.parent,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def says(self, text: str) -> bool:
        assert self.process.poll() is None, self.log.read_text()[-2000:]
        return text in self.log.read_text()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


_OPENED = (
    *("java.lang", "java.lang.invoke", "java.lang.reflect", "java.io", "java.net", "java.nio", "java.util"),
    *("java.util.concurrent", "java.util.concurrent.atomic", "sun.nio.ch", "sun.nio.cs", "sun.util.calendar"),
)


class StandaloneCluster:
    """A master, and a worker with so many cores, each with room for an executor of 512 MB."""

    def __init__(self, directory: Path, cores: int = 2) -> None:
        port = free_port()
        self.url = f"spark://127.0.0.1:{port}"
        deploy = "org.apache.spark.deploy"
        here = ("--host", "127.0.0.1", "--webui-port", "0")
        self._master = _Java(
            directory / "master.log", (), f"{deploy}.master.Master", *here, "--port", str(port)
        )
        eventually(lambda: self._master.says("New state: ALIVE"), 120)
        memory = f"{512 * cores}m"
        size = ("--cores", str(cores), "--memory", memory, "--work-dir", str(directory / "work"))
        self._worker = _Java(directory / "worker.log", (), f"{deploy}.worker.Worker", *here, *size, self.url)
        eventually(lambda: self._worker.says("Successfully registered with master"), 120)

    def conf(self, count: int) -> dict[str, str]:
        """Spark's settings of a member with so many executors, each with one core."""
        return {
            "spark.master": self.url,
            "spark.cores.max": str(count),
            "spark.executor.memory": "512m",
            "spark.executor.cores": "1",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
        }

    def pids(self) -> list[int]:
        """Master and worker; executors are children of the worker."""
        return [each.process.pid for each in (self._master, self._worker)]

    def close(self) -> None:
        self._worker.kill()
        self._master.kill()


class ConnectServer:
    """``ours`` adds the jar with the fence."""

    def __init__(self, directory: Path, *, ours: bool = True) -> None:
        port = free_port()
        self.url = f"sc://127.0.0.1:{port}"
        jars = [*resolve("spark-kafka"), *([packaged("jars/cooperator-spark.jar")] if ours else [])]
        settings = {
            "spark.connect.grpc.binding.port": str(port),
            "spark.driver.host": "127.0.0.1",
            "spark.ui.enabled": "false",
            "spark.sql.shuffle.partitions": "2",
            "spark.driver.memory": "768m",
        }
        self._server = _Java(
            directory / "connect.log",
            jars,
            "org.apache.spark.deploy.SparkSubmit",
            *("--master", "local[4]", "--class", "org.apache.spark.sql.connect.service.SparkConnectServer"),
            *(word for name, value in settings.items() for word in ("--conf", f"{name}={value}")),
            *("--driver-class-path", os.pathsep.join(map(str, jars))),
            "spark-internal",
        )
        eventually(lambda: self._server.says("Spark Connect server started at"), 180)

    def close(self) -> None:
        self._server.kill()


@contextmanager
def two_executors(root: Path) -> Iterator[Any]:
    """A session on a standalone cluster, whose two executors have one core each."""
    servers = StandaloneCluster(root)
    settings = RuntimeSettings(
        "lake-0",
        "incarnation-1",
        checkpoints=root / "c",
        state_dir=root / "state",
        spark_conf=servers.conf(2),
    )
    host = SparkHost(settings)
    session = host.session(Event())
    eventually(lambda: len(executors()) == 2, 120)
    yield session
    host.close(30)
    servers.close()


def executors() -> list[psutil.Process]:
    """The executors of this process's clusters."""
    return [each for each in psutil.Process().children(recursive=True) if _is_executor(each)]


def _is_executor(process: psutil.Process) -> bool:
    try:
        return "CoarseGrainedExecutorBackend" in " ".join(process.cmdline())
    except psutil.Error:
        return False  # it has ended
