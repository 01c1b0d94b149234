"""The generic connector on a real Spark: formats of Spark and of Python, with and without SQL."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cooperator.connectors import validate
from cooperator.connectors.output import committed_files
from cooperator.model import TaskId
from tests.harness.support import eventually
from tests.runtime.spark_bench import SparkBench
from tests.runtime.test_data_sources import declare


def pipeline(source: str, sink: str, **options: str) -> dict[str, str]:
    """Options, with ``__`` in place of dots."""
    config = {"connector.class": "spark", "source.format": source, "sink.format": sink}
    return {**config, "trigger.interval.ms": "100", **{k.replace("__", "."): v for k, v in options.items()}}


def rows_in(directory: Path) -> list[dict[str, Any]]:
    """The rows that the file sink has committed."""
    import pyarrow.parquet as pq

    if not (directory / "_spark_metadata").exists():
        return []
    return [row for file in committed_files(directory) for row in pq.read_table(file).to_pylist()]


def start(spark: SparkBench, name: str, config: dict[str, str], units: int = 1) -> TaskId:
    task = TaskId(name, 0)
    spark.start(task, {**config, "task.units": ",".join(f"unit-{number}" for number in range(units))})
    spark.wait_started(task)
    return task


@pytest.mark.long(
    "tests/runtime/test_offsets.py::test_a_query_of_the_class_spark_is_moved_by_the_offsets_of_its_source"
)
@pytest.mark.real
def test_rate_to_parquet_continues_where_it_stopped(spark: SparkBench, tmp_path: Path, unique: str) -> None:
    out = tmp_path / "out"
    config = pipeline("rate", "parquet", source__options__rowsPerSecond="100", sink__options__path=str(out))
    for _ in range(2):
        before = len(rows_in(out))
        task = start(spark, unique, config)
        eventually(lambda before=before: len(rows_in(out)) > before, 60)
        spark.stop(task)
    values = sorted(row["value"] for row in rows_in(out))
    assert values == list(range(len(values))), "a value is missing or doubled"


@pytest.mark.real
def test_json_files_go_through_sql_to_one_directory_for_each_unit(
    spark: SparkBench, tmp_path: Path, unique: str
) -> None:
    overrides = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        lines = [json.dumps({"id": number, "of": name}) for number in range(10)]
        (tmp_path / name / "data.json").write_text("\n".join(lines))
        paths = {"source.options.path": f"{tmp_path}/{name}", "sink.options.path": f"{tmp_path}/out-{name}"}
        overrides.append(paths)
    config = pipeline(
        "json",
        "parquet",
        source__schema="id LONG, of STRING",
        transform__sql="SELECT id * 2 AS double, of FROM input WHERE id >= 4",
        units=json.dumps(overrides),
        tasks__max="1",
    )
    tasks = spark.start_connector(unique, config, 2)
    for name in ("a", "b"):
        out = tmp_path / f"out-{name}"
        eventually(lambda out=out: len(rows_in(out)) >= 6, 60)
        assert Counter((row["double"], row["of"]) for row in rows_in(out)) == Counter(
            (2 * number, name) for number in range(4, 10)
        )
    spark.stop(*tasks)


@pytest.fixture
def by_value() -> Iterator[None]:
    """Spark's Python processes cannot import a test's data sources, so they are pickled by value."""
    from pyspark import cloudpickle

    from tests.runtime import data_sources

    cloudpickle.register_pickle_by_value(data_sources)
    yield
    cloudpickle.unregister_pickle_by_value(data_sources)


@pytest.fixture
def declared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An installed package that declares the test's data sources."""
    classes = "tests.runtime.data_sources"
    declare(tmp_path / "site", monkeypatch, f"counting = {classes}:Counting\nlines = {classes}:Lines")


@pytest.mark.real
@pytest.mark.usefixtures("by_value", "declared")
def test_python_data_sources_are_read_and_written(spark: SparkBench, tmp_path: Path, unique: str) -> None:
    out, lines = tmp_path / "out", tmp_path / "lines"
    reading = pipeline(
        "counting",
        "parquet",
        data__sources="counting",
        source__options__count="25",
        sink__options__path=str(out),
    )
    writing = pipeline(
        "parquet",
        "lines",
        data__sources="lines",
        source__schema="number INT",
        source__options__path=str(out),
        sink__options__path=str(lines),
        transform__sql="SELECT number + 1 AS next FROM input",
    )
    first = start(spark, f"{unique}-in", reading)
    eventually(lambda: len(rows_in(out)) >= 25, 90)
    assert sorted(row["number"] for row in rows_in(out)) == list(range(25))
    second = start(spark, f"{unique}-out", writing)
    eventually(lambda: lines.exists() and len(lines.read_text().splitlines()) >= 25, 90)
    written = [json.loads(line)["next"] for line in lines.read_text().splitlines()]
    assert sorted(written) == list(range(1, 26))
    spark.stop(first, second)


@pytest.mark.real
def test_a_refusal_of_spark_at_the_start_is_reported_by_its_root_cause(
    spark: SparkBench, tmp_path: Path, unique: str
) -> None:
    (tmp_path / "file").write_text("no directory")
    unknown = (
        "option '{}' = '{}': is not a format that Spark has here; did you mean '{}'? Otherwise add its "
        "package to spec.spark.packages, or its name to data.sources"
    )
    below, out = tmp_path / "file" / "below", tmp_path / "out"
    problems = {
        # Py4J's error, "while calling o42.start".
        "a": (
            pipeline("rate", "parquet", sink__options__path=str(below)),
            "org.apache.hadoop.fs.ParentNotDirectoryException: Parent path is not a directory: "
            f"file:{tmp_path}/file",
        ),
        "b": (
            pipeline("rate", "parqet", sink__options__path=str(out)),
            unknown.format("sink.format", "parqet", "parquet"),
        ),
        "c": (
            pipeline("ratte", "parquet", sink__options__path=str(out)),
            unknown.format("source.format", "ratte", "rate"),
        ),
    }
    reasons = {"a": "", "b": "InvalidOption", "c": "InvalidOption"}
    for name, (config, error) in problems.items():
        task = TaskId(f"{unique}-{name}", 0)
        spark.start(task, {**config, "task.units": "unit-0"})
        eventually(lambda task=task: spark.heard.of(task)[-1:] == [("failed", 1)], 60)
        assert spark.heard.traces[task, 1].splitlines()[0] == error
        assert spark.heard.reasons[task, 1] == reasons[name], "only what cannot pass has a reason"


@pytest.mark.real
@pytest.mark.parametrize(
    ("more", "reason", "said"),
    [
        (
            {"partition.by": "nothing"},
            "InvalidOption",
            "option 'partition.by' = 'nothing': does not name a column of the rows; use one of "
            "timestamp, value",
        ),
        (
            {"transform.sql": "SELECT value, count(*) AS n FROM input GROUP BY value"},
            "InvalidQuery",
            "STREAMING_OUTPUT_MODE",
        ),
        (
            {"source.format": "json", "source.options.path": "/tmp"},
            "InvalidOption",
            "option 'source.schema': is required by the format json; write the columns as DDL",
        ),
        (
            {
                "source.format": "kafka",
                "source.options.subscribe": "a",
                "source.options.kafka.bootstrap.servers": "127.0.0.1:1",
                "source.options.kafka.key.deserializer": "x",
            },
            "InvalidOption",
            "'source.options.kafka.key.deserializer' = 'x': may load classes",
        ),
    ],
)
def test_a_setting_that_the_rows_do_not_support_is_a_permanent_failure(
    spark: SparkBench, tmp_path: Path, unique: str, more: dict[str, str], reason: str, said: str
) -> None:
    task = TaskId(unique, 0)
    config = pipeline("rate", "parquet", sink__options__path=str(tmp_path / "out"))
    spark.start(task, {**config, **more, "task.units": "unit-0"})
    eventually(lambda: spark.heard.of(task)[-1:] == [("failed", 1)], 60)
    assert said in spark.heard.traces[task, 1]
    assert spark.heard.reasons[task, 1] == reason, spark.heard.traces[task, 1]


def test_the_path_of_any_format_is_a_path_and_other_options_may_be_anything() -> None:
    config = pipeline("counting", "lines", source__options__table="items/all", sink__options__table="items")
    assert validate("spark", {**config, "data.sources": "a,b-c"}) == []
    [problem] = validate("spark", pipeline("counting", "lines", source__options__path="items/all"))
    assert "is relative; write an absolute path" in str(problem)
    references = pipeline("json", "json", source__options__path="${env:IN}", sink__options__path="${env:OUT}")
    assert validate("spark", references) == []


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        (
            {"sink.options.path": ""},
            "option 'sink.format' = 'parquet': requires a directory; set sink.options.path",
        ),
        (
            {"units": '[{"source.options.path": "/a"}, {}]'},
            "write to the same directory; override sink.options.path for each unit: "
            "rows of two units in one directory are lost",
        ),
        ({"units": "[1]"}, "is not a list of objects; write a JSON list of objects, such as"),
        ({"units": '[{"sink.format": "csv"}]'}, "overrides options other than those of source and sink"),
        ({"units": "["}, "is not valid JSON; write"),
        ({"units": "[]"}, "option 'units' = '[]': is empty; use a JSON list"),
        (
            {"source.format": "kafka"},
            "option 'source.options.subscribe': names no topic; set source.options.subscribe, or "
            "source.options.subscribePattern, or source.options.assign, for each unit",
        ),
        (
            {"source.format": "kafka", "source.options.subscribe": "a", "source.options.Assign": "{}"},
            "= 'a': names topics by assign and subscribe; set",
        ),
        (
            {
                "source.format": "kafka",
                "units": '[{"source.options.topics": "a", "sink.options.path": "/a"}]',
            },
            "option 'units' = ",
        ),
        ({"sink.output.mode": "update"}, "is not possible for files; use append"),
        (
            {"data.sources": "os:system"},
            "option 'data.sources' = 'os:system': is not a list of declared names; write names of the entry "
            "points of cooperator.data_sources, separated by commas",
        ),
        ({"source.option.path": "/a"}, "is not an option of this class; did you mean"),
        ({"source.options.*": "x"}, "option 'source.options.*' = 'x': should be a valid dictionary; use"),
        (
            {"sink.options.path": "./out"},
            "option 'sink.options.path' = './out': is relative; write an absolute path, or a URI such as "
            "s3a://bucket/path: members run in different directories",
        ),
        ({"source.options.path": "in/*.json"}, "option 'source.options.path' = 'in/*.json': is relative"),
        (
            {"source.options.sourceArchiveDir": "done"},
            "option 'source.options.sourceArchiveDir' = 'done': is relative",
        ),
        ({"units": '[{"source.options.path": "/a", "sink.options.path": "b"}]'}, ": is relative; write"),
        (
            {"units": '[{"sink.options.path": "/b"}, {"sink.options.path": "file:///a/../b/"}]'},
            "write to the same directory",
        ),
        (
            {"sink.options.CheckpointLocation": "/mine"},
            "option 'sink.options.CheckpointLocation' = '/mine': has checkpointlocation, which the "
            "Worker sets; remove it, and set spec.checkpointLocation of the Worker",
        ),
        (
            {"sink.format": "delta", "partition.by": "a"},
            "option 'partition.by' = 'a': only applies to file sinks",
        ),
    ],
)
def test_invalid_pipelines_are_refused_with_a_remedy(changes: dict[str, str], problem: str) -> None:
    good = pipeline("json", "parquet", sink__options__path="/out")
    assert validate("spark", good) == []
    problems = [str(one) for one in validate("spark", {**good, **changes})]
    assert any(problem in one for one in problems), problems
