"""``cooperator local`` with stock Connect workers: real broker, real daemon, real JVMs."""

import os
from collections.abc import Iterator

import pytest

from connect_worker import write_worker_classes
from cooperator.local.broker import EmbeddedBroker
from cooperator.local.cluster import kill_everything
from local.command_line import Local
from stock_connectors import plugin_path
from support import eventually

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]

PATIENCE_S = 240.0
"""JVMs start beside other tests."""
WORKER = """
apiVersion: cooperator.dev/v1alpha1
kind: Worker
metadata: {name: NAME}
spec:
  replicas: 2
  runtime: connect
  heartbeatIntervalMs: 1000
  sessionTimeoutMs: 6000
  connect:
    heapMb: 160
    pluginPath: [PLUGINS]
    jvmOptions: [-XX:TieredStopAtLevel=1, -XX:+UseSerialGC]
    config:
      plugin.discovery: service_load
      offset.flush.interval.ms: 1000
      offset.storage.partitions: 1
    logLevels: {org.apache.kafka.connect.runtime.distributed: DEBUG}
"""
CONNECTOR = """
apiVersion: cooperator.dev/v1alpha1
kind: Connector
metadata: {name: ticks}
spec:
  workerRef: {name: NAME}
  class: cooperator.stock.SequenceSource
  tasksMax: 4
  config:
    topic: ticks
    journal: JOURNAL
"""


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory, broker: EmbeddedBroker) -> Iterator[Local]:
    """Two stock workers that run four tasks of one connector."""
    write_worker_classes(broker.bootstrap_servers, tmp_path_factory.mktemp("classes"))
    local = Local(tmp_path_factory.mktemp("local"), f"stock-{os.getpid()}")
    try:
        local("up", "--bootstrap-servers", broker.bootstrap_servers)
        journal = tmp_path_factory.mktemp("journal") / "journal.jsonl"
        worker = WORKER.replace("PLUGINS", str(plugin_path()))
        local.apply(worker, CONNECTOR.replace("JOURNAL", str(journal)))
        eventually(local.placed, PATIENCE_S, "all tasks run")
        yield local
    finally:
        kill_everything(local.state)


def test_a_worker_that_is_killed_gets_exactly_its_own_back(running: Local) -> None:
    before, lives = running.placed(), running.lives()
    victim, other = sorted(lives)

    running("kill", victim)

    eventually(lambda: running.lives().get(victim, lives[victim]) != lives[victim], PATIENCE_S, "a new life")
    assert eventually(running.placed, PATIENCE_S, "all tasks run") == before
    assert running.lives()[other] == lives[other]
