"""Cooperator as users run it on one machine: ``cooperator local``, a Worker with one member, a Connector.

The member's processes are measured (Python, JVM, Python workers), not the daemon, which does the operator's
work.
"""

import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

import yaml

from benchmarks.pipelines.job import ROOT, ContenderFailed, Job, Running, last_words
from benchmarks.pipelines.records import VALUE_DDL
from cooperator.local.daemon import HostAway, ask_host, host_pid
from cooperator.local.layout import StateDir
from cooperator.local.lifecycle import kill_everything
from cooperator.local.members import read_incarnations

_CONNECTOR: Final = "copy"
_CLASSES: Final = {"kafka": "kafka-to-kafka", "files": "kafka-to-files", "postgres": "kafka-to-postgres"}
_PASSWORD: Final = "COOPERATOR_BENCH_PASSWORD"
_COMMAND_S: Final = 300.0
_CHECK_S: Final = 5.0


class Ours:
    """``config`` are options beside the defaults, ``tasks`` is ``tasksMax``, ``spark`` are its settings."""

    guarantee = "exactly once"

    def __init__(
        self,
        name: str = "cooperator",
        tasks: int = 1,
        config: Mapping[str, str] | None = None,
        spark: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self._tasks = tasks
        self._config = dict(config or {})
        self._spark = dict(spark or {})

    def start(self, job: Job) -> Running:
        running = LocalMember(job)
        try:
            running.begin(job, self._tasks, self._config, self._spark)
        except BaseException:
            running.stop()
            raise
        return running


class LocalMember:
    """A ``cooperator local`` with one member; implements ``Running``."""

    def __init__(self, job: Job) -> None:
        self._state = StateDir((job.directory / "state").absolute())
        self._log = job.directory / "local.log"
        self._members = self._state.worker("default", _worker(job)).members
        self._checked = time.monotonic()
        self._environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join((str(ROOT / "operator"), os.environ.get("PYTHONPATH", ""))),
            _PASSWORD: job.database.get("password", ""),
        }

    def begin(self, job: Job, tasks: int, config: Mapping[str, str], spark: Mapping[str, str]) -> None:
        manifests = job.directory / "manifests.yaml"
        manifests.write_text(yaml.safe_dump_all(resources(job, tasks, config, spark)))
        self._run("up", "--bootstrap-servers", job.bootstrap_servers)
        self._run("apply", "-f", str(manifests))

    def roots(self) -> Sequence[int]:
        members = read_incarnations(self._members)
        return [process.pid for process in members if process.pid and not process.ended]

    def beside(self) -> Sequence[int]:
        pid = host_pid(self._state)
        return [] if pid is None else [pid]

    def check(self) -> None:
        if time.monotonic() < self._checked + _CHECK_S:
            return
        self._checked = time.monotonic()
        try:
            view = ask_host(self._state)
        except HostAway:
            return
        for task in view["tasks"]:
            if task["state"] == "FAILED":
                raise ContenderFailed(f"{task['task']}: {task.get('trace') or task}")
        if view["problems"]:
            raise ContenderFailed("; ".join(view["problems"]))

    def go(self) -> None: ...

    def stop(self) -> None:
        try:
            self._run("down")
        except ContenderFailed as error:
            sys.stderr.write(f"{error}\n")
        kill_everything(self._state)

    def _run(self, *arguments: str) -> None:
        command = [sys.executable, "-m", "cooperator.cli", "local", *arguments]
        command += ["--state-dir", str(self._state.root)]
        with self._log.open("ab") as output:
            try:
                code = subprocess.run(
                    command,
                    env=self._environment,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    timeout=_COMMAND_S,
                    check=False,
                ).returncode
            except subprocess.TimeoutExpired:
                code = -1
        if code:
            raise ContenderFailed(f"{' '.join(command[2:])} returned {code}: {last_words(self._log)}")


def _worker(job: Job) -> str:
    """A Worker's name makes its group, and a group belongs to one state directory: each turn has its own."""
    return f"bench-{job.topic}"


def resources(
    job: Job, tasks: int, config: Mapping[str, str], spark: Mapping[str, str]
) -> list[dict[str, Any]]:
    """The Worker and the Connector. Options that they leave out have their defaults."""
    allowed = {"envAllowed": [_PASSWORD]} if job.sink == "postgres" else {}
    worker = {"replicas": 1, "runtime": "spark", **allowed}
    if spark:
        worker["spark"] = {"conf": dict(spark)}
    connector = {
        "workerRef": {"name": _worker(job)},
        "class": _CLASSES[job.sink],
        "tasksMax": tasks,
        "config": {**config_of(job), **config},
    }
    api = "cooperator.dev/v1alpha1"
    return [
        {"apiVersion": api, "kind": "Worker", "metadata": {"name": _worker(job)}, "spec": worker},
        {"apiVersion": api, "kind": "Connector", "metadata": {"name": _CONNECTOR}, "spec": connector},
    ]


def config_of(job: Job) -> dict[str, str]:
    """The Connector's options."""
    config = {"topics": job.topic, "trigger.interval.ms": str(job.trigger_ms)}
    config["key.converter"] = "string" if job.sink == "postgres" else "bytes"
    config["value.converter"] = _value_converter(job)
    if job.converter.endswith("json"):
        config["value.schema"] = VALUE_DDL
    if job.converter == "flawed json":
        config |= {"errors.tolerance": "all", "errors.deadletterqueue.topic.name": job.target}
    if job.converter == "avro":
        config["schema.registry.url"] = job.registry_url
    if job.sink == "kafka":
        config["topic"] = job.target
        if job.converter != "bytes":
            config["transform.sql"] = "SELECT key, to_json(value) AS value FROM input"
    elif job.sink == "files":
        config["path"] = str(job.output)
    else:
        database = job.database
        config |= {
            "connection.url": f"jdbc:postgresql://{database['host']}:{database['port']}/{database['dbname']}",
            "connection.user": database["user"],
            "connection.password": f"${{env:{_PASSWORD}}}",
            "table.name.format": job.target,
            "transform.sql": "SELECT key, value, partition AS part, offset AS off FROM input",
        }
    return config


def _value_converter(job: Job) -> str:
    if job.sink == "postgres" and job.converter == "bytes":
        return "string"
    return job.converter.removeprefix("flawed ")
