"""The Spark of a process: one at a time, and a new one when the old one has ended."""

from dataclasses import replace
from threading import Event
from typing import Any

import psutil
import pytest

from cooperator.runtime import RuntimeSettings
from cooperator.runtime.spark import SparkRuntime
from runtime.heard import Heard
from support import eventually


@pytest.mark.real
def test_an_application_that_a_cluster_has_ended_is_replaced(settings: RuntimeSettings, heard: Heard) -> None:
    """As a master does that removes it: the context stops, its JVM lives on."""
    runtime = SparkRuntime(replace(settings, heap_mb=512), heard)
    first: Any = runtime.session(Event()).sparkContext
    process = psutil.Process(first._gateway.proc.pid)
    assert runtime.session(Event()).sparkContext is first
    first._jsc.sc().stop()

    second = runtime.session(Event())
    assert second.range(3).count() == 3
    eventually(lambda: not process.is_running() or process.status() == psutil.STATUS_ZOMBIE, 30)
    assert runtime.close(30)
