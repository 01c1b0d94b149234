"""Files are split into buckets by name: the Java filter and its Python equivalent agree, and Spark uses
it."""

import os
import shutil
import zipfile
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from threading import Event
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import cooperator.runtime
from cooperator.connectors.base import UnitContext
from cooperator.connectors.files import bucket_of, visible_files
from cooperator.connectors.files_source import FilesToKafkaOptions
from cooperator.connectors.files_to_kafka import FilesToKafka
from cooperator.connectors.options import parse
from cooperator.model import TaskId
from tests.runtime.spark_bench import SparkBench

JAVA = Path(cooperator.runtime.__file__).parent / "java"

NAMES = [
    "plain.txt",
    "with space.txt",
    "a+b%20c.txt",
    "é/ü.txt",
    "x=1/part",
    *(f"many/{number}/file" for number in range(20)),
    *(f"flat/{number}.txt" for number in range(20)),
]
HIDDEN = [".hidden", "_hidden.txt", "_dir/file", ".dir/file", "copying._COPYING_"]


@pytest.fixture(scope="module")
def build() -> ModuleType:
    spec = spec_from_file_location("build", JAVA / "build.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@given(path=st.text(min_size=1), buckets=st.integers(1, 1000))
def test_every_path_has_one_bucket(path: str, buckets: int) -> None:
    encodable = path.encode("utf-8", "replace").decode()
    assert 0 <= bucket_of(encodable, buckets) < buckets


def test_buckets_never_change() -> None:
    """Units are made of buckets: another function would read every file again."""
    assert [bucket_of(path, 8) for path in ("a", "a/b.txt", "é")] == [3, 3, 6]


def test_the_jar_was_built_from_these_sources(build: ModuleType) -> None:
    with zipfile.ZipFile(build.JAR) as jar:
        manifest = jar.read("META-INF/MANIFEST.MF").decode()
    assert f"Sources: {build.digest()[:56]}\r\n" in manifest, "run operator/cooperator/runtime/java/build.py"


@pytest.mark.long("tests/runtime/test_buckets.py::test_the_jar_was_built_from_these_sources")
@pytest.mark.skipif(shutil.which("javac") is None, reason="a Java runtime is all that is needed to run")
def test_the_jar_has_the_compiled_sources(build: ModuleType, tmp_path: Path) -> None:
    """The comparison is by bytes if the jar was built with this compiler, otherwise by classes."""
    compiler = build.compile_to(tmp_path)
    classes = tmp_path.rglob("*.class")
    compiled = {file.relative_to(tmp_path).as_posix(): file.read_bytes() for file in classes}
    with zipfile.ZipFile(build.JAR) as jar:
        held = {name: jar.read(name) for name in jar.namelist() if name.endswith(".class")}
        same_compiler = f"Compiler: {compiler}\r\n" in jar.read("META-INF/MANIFEST.MF").decode()
    assert held.keys() == compiled.keys()
    assert not same_compiler or held == compiled


def touch(root: Path, names: list[str]) -> None:
    for name in names:
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("x\n")


class Collected:
    """One query per bucket, which reads the available files and ends."""

    def __init__(self, spark: SparkBench, root: Path, scratch: Path, buckets: int) -> None:
        self._session = spark.runtime.session(Event()).newSession()
        # Large listings run as distributed jobs, which need a serializable filter: here all listings count as
        # large.
        self._session.conf.set("spark.sql.sources.parallelPartitionDiscovery.threshold", "8")
        self._scratch = scratch
        self._buckets = buckets
        config = {"connector.class": "files-to-kafka", "path": str(root), "topic": "t"}
        self._options = parse(FilesToKafkaOptions, {**config, "bootstrap.servers": "k"})

    def read(self) -> list[list[str]]:
        """The paths that each bucket's query finds now, after those that it has found before."""
        found: list[list[str]] = [[] for _ in range(self._buckets)]
        for query in [self._start(bucket, paths) for bucket, paths in enumerate(found)]:
            query.awaitTermination()
        return [sorted(paths) for paths in found]

    def _start(self, bucket: int, found: list[str]) -> Any:
        context = UnitContext(
            group_id="g",
            task=TaskId("c", 0),
            unit=f"bucket-{bucket}-of-{self._buckets}",
            owner="m/i/1",
            checkpoint=self._scratch / str(bucket),
            cancelled=Event(),
            session=lambda: self._session,
            say=lambda text: None,
        )

        def keep(batch: Any, batch_id: int) -> None:
            found.extend(row.key.decode() for row in batch.select("key").collect())

        stream = FilesToKafka().reader(self._session, self._options, context)
        writer = stream.writeStream.foreachBatch(keep).option("checkpointLocation", str(context.checkpoint))
        return writer.trigger(availableNow=True).start()


@pytest.mark.real
def test_each_file_is_read_by_the_unit_of_its_bucket_and_no_other(spark: SparkBench, tmp_path: Path) -> None:
    """This includes files added later with older timestamps, and files added before a restart."""
    root = tmp_path / "with space +%"
    touch(root, NAMES + HIDDEN)
    assert sorted(str(file.relative_to(root)) for file in visible_files(root)) == sorted(NAMES)
    collected = Collected(spark, root, tmp_path / "checkpoints", 3)
    for bucket, paths in enumerate(collected.read()):
        assert paths == sorted(name for name in NAMES if bucket_of(name, 3) == bucket)
    later = [f"later/{number}" for number in range(12)]
    touch(root, later)
    for name in later:
        os.utime(root / name, (86_400, 86_400))
    for bucket, paths in enumerate(collected.read()):
        assert paths == sorted(name for name in later if bucket_of(name, 3) == bucket)
