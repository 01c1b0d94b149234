"""Checkpoints in an S3 store: a real server, a real Spark, and members that die, freeze and wake."""

import json
import os
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import obstore
import pytest

from cooperator.connectors.fence import Fenced, claim
from cooperator.connectors.intents import earlier
from cooperator.connectors.offsets import OffsetsError
from cooperator.connectors.offsets.sinks import file_sink
from cooperator.connectors.offsets.sources import UnitPlace
from cooperator.connectors.options import OptionError
from cooperator.connectors.places import (
    NoPlace,
    Place,
    create,
    directories,
    names,
    place_of,
    put,
    remove_tree,
    sizes,
)
from cooperator.connectors.units import Owner, settle_layout
from cooperator.local.broker import EmbeddedBroker
from cooperator.model import Epoch, TaskId
from cooperator.runtime import RuntimeSettings
from cooperator.runtime.spark import SparkRuntime
from tests.harness.support import eventually, freeze_group
from tests.runtime.heard import Heard
from tests.runtime.s3_server import S3Server
from tests.runtime.sinks import open_sink, opens, race
from tests.runtime.spark_bench import SparkBench, lines_in, member, query_to_files

pytestmark = [pytest.mark.real, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    server = S3Server(tmp_path_factory.mktemp("s3"))
    yield server
    server.stop()


@pytest.fixture
def place(server: S3Server, unique: str, monkeypatch: pytest.MonkeyPatch) -> Place:
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    return place_of(f"s3a://{server.bucket}/{unique}", {}, os.environ)


@pytest.fixture(scope="module")
def stored(
    server: S3Server, broker: EmbeddedBroker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SparkBench]:
    """A runtime whose checkpoints are in the store."""
    root, heard = tmp_path_factory.mktemp("stored"), Heard()
    with pytest.MonkeyPatch.context() as patched:
        for name, value in server.environment.items():
            patched.setenv(name, value)
        settings = RuntimeSettings(
            member="lake-0",
            incarnation="incarnation-1",
            checkpoints=f"s3a://{server.bucket}/{root.name}",
            state_dir=root / "state",
            group_id=root.name,
            bootstrap_servers=broker.bootstrap_servers,
        )
        runtime = SparkRuntime(settings, heard)
        yield SparkBench(runtime, heard, settings)
        assert runtime.close(30)


def place_of_checkpoints(stored: SparkBench) -> Place:
    return place_of(str(stored.settings.checkpoints), {}, os.environ)


def test_one_of_many_concurrent_creators_of_an_object_succeeds(place: Place) -> None:
    for number in range(20):
        entry, barrier = place / "log" / str(number), threading.Barrier(6)
        done: list[bool] = []

        def race(entry: Place = entry, barrier: threading.Barrier = barrier, done: list[bool] = done) -> None:
            barrier.wait()
            done.append(create(entry, threading.current_thread().name.encode()))

        threads = [threading.Thread(target=race) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(done) == [False] * 5 + [True]
    assert sorted(names(place / "log"), key=int) == [str(number) for number in range(20)]


def test_one_of_several_groups_that_start_at_once_gets_the_checkpoints_in_a_store(place: Place) -> None:
    owners = [Owner(f"g{number}", "cluster") for number in range(4)]
    barrier = threading.Barrier(len(owners))

    def settled(owner: Owner) -> bool:
        barrier.wait()
        try:
            return settle_layout(place, "c", owner, {}, ["u-0"]).owner == owner
        except OptionError:
            return False

    with ThreadPoolExecutor(len(owners)) as pool:
        assert sorted(pool.map(settled, owners)) == [False, False, False, True]


def test_objects_of_a_store_are_read_listed_and_removed(place: Place) -> None:
    put(place / "orders" / "layout.json", b"{}")
    put(place / "orders" / "layout.json", b"[]")
    create(place / "orders" / "unit-0" / "fence" / "1", b"")
    assert (place / "orders" / "layout.json").read_text() == "[]"
    assert names(place / "orders") == ["layout.json"]
    assert directories(place / "orders") == ["unit-0"]
    assert names(place / "nothing") == directories(place / "nothing") == []
    assert sizes(place / "orders") == {"layout.json": 2}
    with pytest.raises(FileNotFoundError):
        (place / "nothing").read_text()
    remove_tree(place / "orders")
    assert directories(place) == []


def test_the_last_claim_holds_in_a_store_too(place: Place) -> None:
    first = claim(place / "unit", Epoch(1, 4), 1, "a")
    first.check()
    second = claim(place / "unit", Epoch(1, 5), 1, "b")
    with pytest.raises(Fenced, match=r"s3a://.* is held by .*b"):
        first.check()
    with pytest.raises(Fenced, match="whose epoch is newer"):
        claim(place / "unit", Epoch(1, 3), 9, "c")
    second.check()
    assert names(place / "unit" / "fence") == [second.claim]


def test_an_unusable_store_is_named_with_the_remedy(place: Place, server: S3Server) -> None:
    with pytest.raises(NoPlace, match=r"spec\.checkpointLocation 'hdfs://a/b'.*use /a/directory or s3a://"):
        place_of("hdfs://a/b", {}, {})
    wrong = {**server.environment, "AWS_SECRET_ACCESS_KEY": "hunter3"}
    with pytest.raises(NoPlace, match=r"is not writable.*credentials") as refused:
        place_of(f"s3a://{server.bucket}/elsewhere", {}, wrong)
    assert "hunter" not in str(refused.value)


class Forgetful:
    """A store that ignores ``If-None-Match``."""

    def put(self, key: str, content: bytes, mode: str = "") -> None: ...


def test_a_store_that_overwrites_existing_objects_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("obstore.store.S3Store", lambda *_, **__: Forgetful())
    with pytest.raises(NoPlace, match="cannot fence members; use a store with conditional writes"):
        place_of("s3a://lake/forgetful", {}, {})


def test_entries_of_a_checkpoint_are_created_once_by_the_store(stored: SparkBench) -> None:
    place, session = place_of_checkpoints(stored), stored.runtime.session(threading.Event())
    jvm: Any = session.sparkContext._jvm
    path = jvm.org.apache.hadoop.fs.Path(f"{place}/log")
    conf: Any = session._jsparkSession.sessionState().newHadoopConf()
    files = jvm.dev.cooperator.spark.FencedCheckpointFileManager(path, conf)
    entry = jvm.org.apache.hadoop.fs.Path(f"{place}/log/0")
    first, second = (files.createAtomic(entry, False) for _ in range(2))
    for stream, text in ((first, b"one"), (second, b"two")):
        stream.write(text)
    second.close()
    with pytest.raises(Exception, match=r"FileAlreadyExistsException.*is there already"):
        first.close()
    assert (place / "log" / "0").read_text() == "two"
    abandoned = files.createAtomic(jvm.org.apache.hadoop.fs.Path(f"{place}/log/1"), True)
    abandoned.write(b"half")
    abandoned.cancel()
    assert names(place / "log") == ["0"]

    ours = claim(place / "unit", Epoch(1, 1), 1, "a")
    session.conf.set("cooperator.fence.directory", str(ours.directory))
    session.conf.set("cooperator.fence.claim", ours.claim)
    fenced: Any = session._jsparkSession.sessionState().newHadoopConf()
    files = jvm.dev.cooperator.spark.FencedCheckpointFileManager(path, fenced)
    for number, claimed in enumerate((False, True), start=2):
        entry = jvm.org.apache.hadoop.fs.Path(f"{place}/log/{number}")
        stream = files.createAtomic(entry, False)
        stream.write(b"a batch")
        if claimed:
            claim(place / "unit", Epoch(1, 2), 1, "b")
            with pytest.raises(Exception, match="-b holds the unit, not"):
                stream.close()
        else:
            stream.close()
    assert sorted(names(place / "log")) == ["0", "2"]

    # There, too, a file sink's directory belongs to one checkpoint, and their client reads its batches.
    [owner] = race(session, [f"{place}/out"] * 6)
    log = place / "out" / "_spark_metadata"
    assert (names(log), (log / "owner").read_text().split("\n")[1]) == (["owner"], owner)
    open_sink(session, f"{place}/out", owner).add(0, None)
    assert not opens(session, f"{place}/out", "another", 0, 0)
    unit = UnitPlace("group", "files", "unit-0", place / "unit")
    sink = file_sink(lambda options, unit: f"{place}/out")
    assert (sink.has(None, unit, "", 0), sink.has(None, unit, "", 1)) == (True, False)
    with pytest.raises(OffsetsError, match="move the directory away first"):
        sink.refuse_forgetting(None, unit)


def test_a_directory_of_an_earlier_release_becomes_a_plain_one(place: Place) -> None:
    unit = place / "out" / "lines-0"
    for name in ("part-00000-a-c000.json", "part-00000-left-over-c000.json"):
        put(unit / "day=1" / name, name.encode())
    written = {"path": f"{place}/out/lines-0/day=1/part-00000-a-c000.json", "size": 1}
    put(unit / "_spark_metadata" / "0", f"v1\n{json.dumps(written)}\n".encode())
    assert earlier.has_log(place / "out", "lines-0")
    earlier.make_plain(place / "out", "lines-0")
    assert names(place / "out" / "day=1") == ["lines+0+part-00000-a-c000.json"]
    assert directories(place / "out") == ["day=1"]
    assert not earlier.has_log(place / "out", "lines-0")


def test_a_query_goes_on_from_a_store_when_its_jvm_was_killed(
    stored: SparkBench, tmp_path: Path, unique: str
) -> None:
    output, task = tmp_path / "out", TaskId(unique, 0)
    config = query_to_files(output, unique, stored.settings.bootstrap_servers)
    stored.produce(unique, [f"line {number}" for number in range(150)])
    stored.start(task, config)
    eventually(lambda: lines_in(output).total() > 0, 240, f"it delivers: {stored.heard.traces}")
    os.kill(stored.jvm_pid(), signal.SIGKILL)
    eventually(lambda: stored.heard.of(task)[-1] == ("failed", 1), 60)

    stored.produce(unique, [f"line {number}" for number in range(150, 200)])
    stored.start(task, config)
    stored.wait_started(task)
    eventually(lambda: lines_in(output).total() >= 200, 120, f"the rest: {stored.heard.traces}")
    assert stored.unharmed([task])
    stored.stop(task)
    assert lines_in(output) == Counter({("one", f"line {number}"): 1 for number in range(200)})
    assert directories(place_of_checkpoints(stored) / unique), "the checkpoint is in the store"


@pytest.mark.long("tests/runtime/test_s3.py::test_a_query_goes_on_from_a_store_when_its_jvm_was_killed")
def test_members_killed_and_frozen_in_mid_stream_deliver_once(
    place: Place, broker: EmbeddedBroker, spark: SparkBench, tmp_path: Path, unique: str, server: S3Server
) -> None:
    output = tmp_path / "out"
    member_settings: dict[str, object] = {
        "checkpoints": str(place),
        "group_id": unique,
        "bootstrap_servers": broker.bootstrap_servers,
        "tasks": [["out", 0, query_to_files(output, unique, broker.bootstrap_servers)]],
    }
    spark.produce(unique, [f"first {number}" for number in range(400)])
    log = tmp_path / "member.log"
    for turn in range(2):
        before = lines_in(output).total()
        with member(
            {
                **member_settings,
                "state_dir": str(tmp_path / f"s{turn}"),
                "incarnation": f"incarnation-{turn}",
            },
            log,
        ):
            eventually(lambda before=before: lines_in(output).total() > before, 240, "it delivers")

    frozen = {**member_settings, "state_dir": str(tmp_path / "a"), "incarnation": "a", "epoch": [1, 1]}
    woken = tmp_path / "woken.log"
    with member(frozen, woken) as first:
        eventually(lambda: lines_in(output).total() == 400, 240, "all is delivered")
        freeze_group(first)
        successor = {**member_settings, "state_dir": str(tmp_path / "b"), "incarnation": "b", "epoch": [1, 2]}
        with member(successor, log) as second:
            spark.produce(unique, [f"second {number}" for number in range(60)])
            eventually(lambda: lines_in(output).total() == 460, 240, "the successor delivers")
            # Its successor is frozen: the fence alone keeps the woken member from writing.
            freeze_group(second)
            spark.produce(unique, [f"third {number}" for number in range(60)])
            os.killpg(first, signal.SIGCONT)
            # Spark's log refuses a batch that the successor has written; otherwise the fence does.
            eventually(lambda: "failed out-0" in woken.read_text(), 240, "what woke is refused")
            refusal = woken.read_text()
            by_the_log = ("CONCURRENT_STREAM_LOG_UPDATE", "Multiple streaming queries are concurrently using")
            words = (*by_the_log, "holds the unit, not")
            # The text comes last in the report, so that pytest does not cut it.
            assert any(word in refusal for word in words), refusal[refusal.index("failed out-0") :]
            assert lines_in(output).total() == 460
            os.killpg(second, signal.SIGCONT)
            eventually(lambda: lines_in(output).total() >= 520, 240, "everything is there")
    wanted = {
        ("one", f"{word} {number}"): 1
        for word, count in (("first", 400), ("second", 60), ("third", 60))
        for number in range(count)
    }
    assert lines_in(output) == wanted
    said = log.read_text() + woken.read_text()
    said += "".join(file.read_text(errors="replace") for file in tmp_path.rglob("jvm.*"))
    assert "hunter2" not in said, "credentials are not logged"
    entries = [entry["path"] for page in obstore.list(server.store(), f"{unique}/out/") for entry in page]
    assert any("/commits/" in entry for entry in entries), "the checkpoint is in the store"
    assert not (tmp_path / "checkpoints").exists()


@pytest.mark.parametrize(
    "spelling", ["{path}", "file:{path}", "file://{path}", "s3a://{bucket}/{unique}/out"]
)
def test_offsets_are_not_forgotten_while_a_directory_has_files_however_it_is_spelled(
    place: Place, server: S3Server, tmp_path: Path, unique: str, spelling: str
) -> None:
    output = spelling.format(path=tmp_path, bucket=server.bucket, unique=unique)
    sink = file_sink(lambda options, unit: output)
    unit = UnitPlace("group", "copy", "a-0", tmp_path / "checkpoint", {})
    sink.refuse_forgetting(None, unit)
    assert sink.at(None, unit)("query", 3) is False
    root = place / "out" if output.startswith("s3a:") else tmp_path
    put(root / "_spark_metadata" / "3", b"v1\n")
    assert sink.at(None, unit)("query", 3) is True
    with pytest.raises(OffsetsError, match="its first batches would be skipped"):
        sink.refuse_forgetting(None, unit)


def test_offsets_are_not_forgotten_where_nobody_can_look(tmp_path: Path) -> None:
    sink = file_sink(lambda options, unit: "hdfs://names/out")
    unit = UnitPlace("group", "copy", "a-0", tmp_path, {})
    with pytest.raises(OffsetsError, match=r"hdfs://names/out cannot be read from here.*reset with --to"):
        sink.refuse_forgetting(None, unit)
    with pytest.raises(OffsetsError, match="resume the connector until the batch is done"):
        sink.at(None, unit)("query", 3)
