"""Fifty kills in a row under continuous load, each of them of a member at work, lose and double no record."""

import os
import random
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cooperator.local.broker import EmbeddedBroker
from tests.guarantees.pipeline import Kafka, Pipeline, Place
from tests.guarantees.pipelines import AppendToTable, KafkaToFiles, KafkaToKafka
from tests.guarantees.pipelines_group import PATIENCE_S, WORKERS, Disk, PipelinesGroup
from tests.harness.member_group import MemberGroup
from tests.harness.support import eventually
from tests.runtime.postgres import Postgres

KILLS = 50
KINDS = ("python", "jvm", "group")
SEED = 50
_RECORDS, _PAUSE_S = 5, 0.5

pytestmark = [
    pytest.mark.real,
    pytest.mark.timeout(5_400),
    # The table of guarantees has one kill of each kind for each class.
    pytest.mark.long("tests/guarantees/test_guarantees.py::test_the_sink_contains_the_input"),
]


@contextmanager
def under_load(pipeline: Pipeline) -> Iterator[None]:
    """Records come all the time, from a thread of their own."""
    ending = threading.Event()
    failed: list[Exception] = []

    def feed() -> None:
        while not ending.wait(_PAUSE_S):
            try:
                pipeline.feed(_RECORDS)
            except Exception as error:
                failed.append(error)
                return

    thread = threading.Thread(target=feed, name="feeder")
    thread.start()
    try:
        yield
    finally:
        ending.set()
        thread.join()
    assert not failed, failed


def kill(pipelines_group: PipelinesGroup, identity: str, kind: str) -> None:
    """Kills the member or its JVM; a member is started again once nothing of it is left."""
    member = pipelines_group.member(identity)
    match kind:
        case "python":
            os.kill(member.child.pid, signal.SIGKILL)
            member.wait_ended()
        case "group":
            member.kill()
        case "jvm":
            os.kill(member.jvm(), signal.SIGKILL)
            return
    pipelines_group.proven()
    pipelines_group.start(identity)


@pytest.mark.parametrize("row", [KafkaToKafka, KafkaToFiles, AppendToTable], ids=lambda row: row.slug())
def test_each_record_is_there_once_after_fifty_kills_of_members_at_work(
    row: type[Pipeline], broker: EmbeddedBroker, tmp_path: Path, unique: str
) -> None:
    disk, postgres, chance = Disk(tmp_path / "disk"), Postgres(), random.Random(SEED)
    postgres.start()
    (tmp_path / "sources").mkdir()
    pipeline = row(Place(Kafka(broker.bootstrap_servers), postgres, unique, tmp_path / "sources", tmp_path))
    group = MemberGroup(broker.bootstrap_servers, tmp_path, unique)
    pipelines_group = PipelinesGroup(group, broker, disk, [pipeline])
    kills = [KINDS[number % len(KINDS)] for number in range(KILLS)]
    chance.shuffle(kills)
    arrived = 0

    def at_work() -> list[str]:
        """The members that run tasks, once rows have arrived since the last kill."""
        there = pipeline.found().total()
        assert there > arrived, f"{there} rows are there, as at the last kill"
        return [
            worker
            for worker in WORKERS
            if pipelines_group.running_at(worker) and pipelines_group.member(worker).has_jvm()
        ]

    try:
        pipelines_group.begin()
        with under_load(pipeline):
            for number, kind in enumerate(kills):
                victim = chance.choice(
                    eventually(at_work, PATIENCE_S, f"rows arrive after {number} kills with seed {SEED}")
                )
                arrived = pipeline.found().total()
                kill(pipelines_group, victim, kind)
        eventually(pipeline.complete, PATIENCE_S, f"{pipeline.fed} records are there")
        assert pipeline.wrong() == {}
        pipelines_group.settled()
        assert pipeline.wrong() == {}
    finally:
        group.close()
        disk.close()
        postgres.close()
