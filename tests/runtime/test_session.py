"""A process has one Spark at a time, and a new one after the old one has ended."""

from dataclasses import replace
from threading import Event
from typing import Any

import psutil
import pytest

from cooperator.runtime import RuntimeSettings
from cooperator.runtime.spark import SparkRuntime
from cooperator.runtime.warm import write_classes
from tests.harness.support import eventually
from tests.runtime.heard import Heard


@pytest.mark.real
def test_an_application_that_a_cluster_has_ended_is_replaced(settings: RuntimeSettings, heard: Heard) -> None:
    """A master that removes an application does this: the context stops, its JVM lives on."""
    runtime = SparkRuntime(replace(settings, heap_mb=512), heard)
    assert runtime.warm_up()
    eventually(lambda: heard.warmth == ["warm"], 120, "a session reports that it is up")
    first: Any = runtime.session(Event()).sparkContext
    process = psutil.Process(first._gateway.proc.pid)
    assert runtime.session(Event()).sparkContext is first
    first._jsc.sc().stop()

    second = runtime.session(Event())
    assert second.range(3).count() == 3
    eventually(lambda: not process.is_running() or process.status() == psutil.STATUS_ZOMBIE, 30)
    assert runtime.close(30)


@pytest.mark.real
@pytest.mark.long("tests/runtime/test_session.py::test_an_application_that_a_cluster_has_ended_is_replaced")
def test_a_session_replaced_by_another_in_the_process_is_recreated(
    settings: RuntimeSettings, heard: Heard
) -> None:
    first, other = (
        SparkRuntime(replace(settings, heap_mb=512, state_dir=settings.state_dir / name), heard)
        for name in ("first", "other")
    )
    assert first.session(Event()).range(2).count() == 2
    assert other.session(Event()).range(3).count() == 3
    assert other.close(30)
    assert first.session(Event()).newSession().range(4).count() == 4
    assert first.close(30)


@pytest.mark.real
@pytest.mark.long(
    "tests/artifacts/test_classes.py::test_a_jvm_with_the_same_jars_takes_its_classes_from_the_archive"
)
def test_its_jvm_starts_with_the_classes_that_were_archived(settings: RuntimeSettings, heard: Heard) -> None:
    archive = write_classes((), store=False, progress=print)
    runtime = SparkRuntime(replace(settings, heap_mb=512), heard)
    gateway: Any = runtime.session(Event()).sparkContext._gateway
    mapped = {area.path for area in psutil.Process(gateway.proc.pid).memory_maps()}
    assert str(archive) in mapped
    assert runtime.close(30)


def test_a_session_that_cannot_start_reports_it_and_retries(settings: RuntimeSettings, heard: Heard) -> None:
    broken = replace(settings, spark_conf={"spark.app.name": "${env:NOBODY_MAY_NAME_IT}"})
    runtime = SparkRuntime(broken, heard, retry_s=0.1)
    assert runtime.warm_up()
    eventually(lambda: heard.warmth[:2] == ["failed", "failed"], 30)
    assert runtime.close(30)


def test_a_spark_connect_server_needs_no_time_of_a_member(settings: RuntimeSettings, heard: Heard) -> None:
    runtime = SparkRuntime(replace(settings, spark_conf={"spark.master": "sc://server:15002"}), heard)
    assert not runtime.warm_up()
    assert runtime.close(30)
    assert heard.warmth == []
