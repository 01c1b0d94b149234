"""The loop of a task with real Spark, Kafka and an S3 server: rows go from topics into plain files, once."""

import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from threading import Event
from typing import Any

import obstore
import pyarrow.dataset
import pyarrow.parquet
import pytest

from cooperator.connectors.intents.batches import FileBatches
from cooperator.connectors.intents.s3_store import S3Store
from cooperator.connectors.intents.spark_stager import FileFormat, SparkStager
from cooperator.connectors.intents.stores import FileStore, LocalStore
from cooperator.connectors.intents.units import FileUnits
from cooperator.connectors.microbatch.claims import Claim
from cooperator.connectors.microbatch.ends import EndWatcher
from cooperator.connectors.microbatch.loop import TaskLoop
from cooperator.connectors.microbatch.ranges import Grouping, Limits, Partition
from cooperator.connectors.microbatch.spark_batches import BatchSource, SparkEnds, session_of_task
from cooperator.connectors.places import store_place
from cooperator.local.broker import EmbeddedBroker
from cooperator.model import Epoch
from cooperator.runtime import RuntimeSettings
from cooperator.runtime.session import SparkHost
from tests.harness.plain_files import read_plainly
from tests.harness.support import eventually
from tests.microbatch.cluster import Cluster
from tests.microbatch.fakes import from_zero
from tests.microbatch.tasks import LoopThread
from tests.runtime.s3_server import S3Server

pytestmark = [
    pytest.mark.real,
    pytest.mark.timeout(600),
]


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A session that can reach an S3 server."""
    root = tmp_path_factory.mktemp("spark")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in S3Server.KEYS.items():
            patch.setenv(name, value)
        settings = RuntimeSettings("lake-0", "i-1", checkpoints="s3a://lake/none", state_dir=root / "state")
        host = SparkHost(settings)
        yield host.session(Event())
        host.close(30)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, session: Any) -> Iterator[S3Server]:
    server = S3Server(tmp_path_factory.mktemp("s3"))
    settings = {"endpoint": f"http://127.0.0.1:{server.port}", "path.style.access": "true"}
    for name, value in settings.items():
        session.sparkContext._jsc.hadoopConfiguration().set(f"fs.s3a.{name}", value)
    yield server
    server.stop()


@pytest.fixture(scope="module")
def cluster(broker: EmbeddedBroker) -> Cluster:
    return Cluster(broker.bootstrap_servers)


def text(rows: Any) -> Any:
    return rows.selectExpr("CAST(value AS STRING) AS value", "partition", "offset")


class Task(LoopThread):
    """An attempt at some partitions. ``freeze`` stops its next publication until ``wake``."""

    def __init__(
        self,
        session: Any,
        cluster: Cluster,
        store: FileStore,
        units: Sequence[Partition],
        attempt: int,
        transform: Callable[[Any], Any] = text,
        *,
        partition_by: Sequence[str] = (),
        file_format: str = "parquet",
    ) -> None:
        super().__init__()
        stopped = threading.Event()
        names = {unit: str(unit) for unit in units}
        self.units = FileUnits(Claim(Epoch(1, attempt), 1, "m-0"), names, lambda unit: store, stopped)
        source = BatchSource(cluster.java, pool=f"{units[0].topic}-{attempt}")
        own = session_of_task(session)
        self.stager = SparkStager(own, source, transform, FileFormat(file_format, partition_by))
        self.watcher = EndWatcher(SparkEnds(session, cluster.java))
        self.loop = TaskLoop(
            units=units,
            ownership=self.units,
            batches=FileBatches(self.units, self.stager),
            ends=self.watcher.subscribe(units, 100),
            limits=Limits(1_000, 100_000),
            grouping=Grouping(1),
            first_offsets=from_zero,
            say=self.said.append,
            stopped=stopped,
        )

    def reaches(self, places: Sequence[Partition], offset: int) -> None:
        def at() -> bool:
            return all(self.loop.counts.of(place).next == offset for place in places)

        eventually(at, 90, f"{self.error} {self.said} {self.loop.counts}")


def rows(root: Path) -> list[str]:
    """The values that a plain reader finds, sorted."""
    return sorted(read_plainly(root)["value"].to_pylist())


def expected(places: Sequence[Partition], *counts: int) -> list[str]:
    return sorted(f"{place}:{n}" for place in places for count in counts for n in range(count))


@pytest.mark.long(
    "tests/runtime/test_kafka_to_files.py::test_full_files_appear_at_once_and_the_rest_after_the_interval"
)
def test_rows_of_all_units_are_in_plain_files_once(
    session: Any, cluster: Cluster, unique: str, tmp_path: Path
) -> None:
    places = cluster.create(unique, 3)
    cluster.fill(places, 2_500)
    with Task(session, cluster, LocalStore(tmp_path), places, 1) as task:
        task.reaches(places, 2_500)
        assert rows(tmp_path) == expected(places, 2_500)
        assert task.loop.counts.rows == 7_500
        names = [path.name for path in tmp_path.glob("*.parquet")]
        assert len(names) == 9, "a file has at most 1,000 records, the limit of a unit"
        assert any(name.startswith(f"{unique}+2+00000000000000002000.1-1-1-") for name in names)
    with Task(
        session, cluster, LocalStore(tmp_path), places[:2], 2, partition_by=["part"], transform=parted
    ) as task:
        cluster.fill(places[:2], 10)
        task.reaches(places[:2], 2_510)
    assert len(list(tmp_path.glob("part=odd/*.parquet"))) == 2
    plain = session.read.option("recursiveFileLookup", "true").parquet(str(tmp_path))
    assert plain.count() == 7_520, "Spark reads the directory as any other"


def test_the_records_of_a_unit_are_counted_and_no_markers(
    session: Any, cluster: Cluster, unique: str, tmp_path: Path
) -> None:
    places = cluster.create(unique, 2)
    for number in range(3):
        cluster.transact(places[0], [b"%d" % number, b"again"])
    cluster.fill(places[1:], 5)

    def of_the_first(records: Any) -> Any:
        return text(records).where("partition = 0")

    with Task(session, cluster, LocalStore(tmp_path), places, 1, of_the_first) as task:
        eventually(lambda: [task.loop.counts.of(place).next for place in places] == [9, 5], 90)
    assert [task.loop.counts.of(place).records for place in places] == [6, 5]
    assert task.loop.counts.rows == 6


def parted(records: Any) -> Any:
    return text(records).selectExpr("*", "if(offset % 2 = 0, 'even', 'odd') AS part")


@pytest.mark.long(
    "tests/intents/test_killed.py::test_processes_that_were_frozen_at_any_point_wake_and_change_nothing"
)
def test_a_zombie_that_wakes_in_mid_cut_changes_nothing(
    session: Any, cluster: Cluster, unique: str, tmp_path: Path
) -> None:
    places = cluster.create(unique, 2)
    cluster.fill(places, 50)
    frozen, woken = threading.Event(), threading.Event()

    class Freezing(LocalStore):
        def publish(self, file: Any) -> None:
            frozen.set()
            assert woken.wait(120)
            super().publish(file)

    zombie = Task(session, cluster, Freezing(tmp_path), places, 1)
    with zombie:
        assert frozen.wait(90)
        with Task(session, cluster, LocalStore(tmp_path), places, 2) as successor:
            successor.reaches(places, 50)
            assert rows(tmp_path) == expected(places, 50)
            compacted = tmp_path / "compacted.parquet"
            table = read_plainly(tmp_path)
            for path in tmp_path.glob("*.parquet"):
                path.unlink()
            pyarrow.parquet.write_table(table, compacted)
            woken.set()
            cluster.fill(places, 30)
            successor.reaches(places, 80)
            eventually(lambda: zombie.error is not None, 60)
            assert "newer than this one" in str(zombie.error)
        assert rows(tmp_path) == expected(places, 50, 30)


@pytest.mark.long(
    "tests/runtime/test_kafka_to_files.py::test_a_configuration_that_cannot_work_is_refused_with_its_option"
)
def test_sql_that_moves_rows_is_refused(session: Any, cluster: Cluster, unique: str, tmp_path: Path) -> None:
    [place] = cluster.create(unique, 1)

    def counted(records: Any) -> Any:
        return records.groupBy("topic").count()

    with pytest.raises(ValueError, match="must keep each record where it was read"):
        Task(session, cluster, LocalStore(tmp_path), [place], 1, counted)


def objects(server: S3Server, folder: str) -> dict[str, bytes]:
    """Files that a reader finds by names, in hidden directories, too."""
    store = server.store()
    paths = [entry["path"] for page in obstore.list(store, f"{folder}/") for entry in page]
    return {path: bytes(store.get(path).bytes()) for path in paths if path.endswith(".parquet")}


def values(found: dict[str, bytes]) -> list[str]:
    tables = [pyarrow.parquet.read_table(pyarrow.BufferReader(content)) for content in found.values()]
    return sorted(value for table in tables for value in table["value"].to_pylist())


@pytest.mark.long(
    "tests/intents/test_s3.py::test_a_successor_finishes_a_cut_and_a_woken_attempt_brings_no_object_back"
)
def test_a_store_without_renames_shows_each_file_once(
    session: Any, cluster: Cluster, unique: str, server: S3Server
) -> None:
    places = cluster.create(unique, 2)
    cluster.fill(places, 40)
    root = store_place(f"s3a://{server.bucket}/{unique}", {}, server.environment, "path")
    frozen, woken = threading.Event(), threading.Event()

    class Freezing(S3Store):
        def publish(self, file: Any) -> None:
            frozen.set()
            assert woken.wait(120)
            super().publish(file)

    with Task(session, cluster, Freezing(session, root), places, 1) as zombie:
        assert frozen.wait(90), f"{zombie.error} {zombie.said}"
        assert objects(server, unique) == {}, "staged files have another ending"
        with Task(session, cluster, S3Store(session, root), places, 2, parted, partition_by=["part"]) as next:
            next.reaches(places, 40)
            found = objects(server, unique)
            assert values(found) == expected(places, 40)
            for path in found:
                server.store().delete(path)
            server.store().put(f"{unique}/compacted.parquet", pack(found))
            woken.set()
            cluster.fill(places, 25)
            next.reaches(places, 65)
            eventually(lambda: zombie.error is not None, 60)
            assert "newer than this one" in str(zombie.error)
        assert values(objects(server, unique)) == expected(places, 40, 25)
    names = [entry["path"] for page in obstore.list(server.store(), f"{unique}/") for entry in page]
    assert not [name for name in names if "/staging/" in name]


def pack(found: dict[str, bytes]) -> bytes:
    tables = [pyarrow.parquet.read_table(pyarrow.BufferReader(content)) for content in found.values()]
    sink = pyarrow.BufferOutputStream()
    pyarrow.parquet.write_table(pyarrow.concat_tables(tables), sink)
    return sink.getvalue().to_pybytes()
