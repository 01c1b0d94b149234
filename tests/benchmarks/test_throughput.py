"""Computations of the benchmark of throughput: processor time of trees, records, ratios and verdicts."""

import io
import json
import os
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from fastavro import schemaless_reader

from benchmarks.pipelines import records
from benchmarks.pipelines.job import Job
from benchmarks.pipelines.meter import Key, Node, Tree, tree_s
from benchmarks.pipelines.records import Rows, number_due
from benchmarks.pipelines.report import BOUNDS, disturbed, document, judged, ratio, table
from benchmarks.throughput import parsed

ROOT: Key = (1, 0.0)
CHILD: Key = (2, 0.0)
GRANDCHILD: Key = (3, 0.0)


@pytest.mark.parametrize(
    ("nodes", "seconds"),
    [
        ({ROOT: Node(None, 5.0), CHILD: Node(ROOT, 2.0)}, 7.0),
        # A child too short-lived to be seen.
        ({ROOT: Node(None, 5.0, reaped_s=1.0)}, 6.0),
        # A child that was seen before it ended counts once, with what its parent got for it.
        ({ROOT: Node(None, 5.0, reaped_s=2.5), CHILD: Node(ROOT, 2.0, living=False)}, 7.5),
        # Its parent got nothing for it, or has not yet.
        ({ROOT: Node(None, 5.0), CHILD: Node(ROOT, 2.0, living=False)}, 7.0),
        # A grandchild that outlives its parent is not in what the root got.
        (
            {
                ROOT: Node(None, 5.0, reaped_s=2.0),
                CHILD: Node(ROOT, 2.0, living=False),
                GRANDCHILD: Node(CHILD, 3.0),
            },
            10.0,
        ),
        (
            {
                ROOT: Node(None, 5.0, reaped_s=5.0),
                CHILD: Node(ROOT, 2.0, reaped_s=3.0, living=False),
                GRANDCHILD: Node(CHILD, 3.0, living=False),
            },
            10.0,
        ),
    ],
)
def test_ended_processes_count_once(nodes: Mapping[Key, Node], seconds: float) -> None:
    assert tree_s(nodes) == seconds


def test_a_real_child_that_has_ended_still_counts() -> None:
    burn = "import time; end = time.process_time() + 0.5\nwhile time.process_time() < end: pass"
    program = (
        f"import subprocess, sys, time; subprocess.run([sys.executable, '-c', {burn!r}]); time.sleep(60)"
    )
    parent = subprocess.Popen([sys.executable, "-c", program])
    try:
        tree = Tree(lambda: [parent.pid])
        deadline = time.monotonic() + 60
        while tree.sample()[0] < 0.5 and time.monotonic() < deadline:
            time.sleep(0.05)
        children_gone = time.monotonic() + 1
        while time.monotonic() < children_gone:
            assert 0.5 <= tree.sample()[0] < 5
            time.sleep(0.05)
    finally:
        parent.kill()
        parent.wait()


def test_a_child_that_is_measured_apart_does_not_count_twice() -> None:
    burn = "import time; end = time.process_time() + 1\nwhile time.process_time() < end: pass\ntime.sleep(60)"
    program = (
        "import subprocess, sys; child = subprocess.Popen([sys.executable, '-c', sys.argv[1]]);"
        "print(child.pid, flush=True); child.wait()"
    )
    with subprocess.Popen([sys.executable, "-c", program, burn], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        apart: list[int] = []
        try:
            ours, theirs = Tree(lambda: [parent.pid], lambda: apart), Tree(lambda: [child])
            assert ours.sample()[1] > theirs.sample()[1], "the child is known as one of the parent's first"
            apart.append(child)
            deadline = time.monotonic() + 60
            while theirs.sample()[0] < 1 and time.monotonic() < deadline:
                time.sleep(0.05)
            assert ours.sample()[0] < 0.5
        finally:
            os.kill(child, signal.SIGKILL)


@pytest.mark.parametrize("size_bytes", [100, 500, 10_000])
@pytest.mark.parametrize("number", [0, 7, 999_999])
def test_a_row_has_the_wanted_size_and_is_the_same_in_each_format(size_bytes: int, number: int) -> None:
    rows = Rows(size_bytes)
    row = json.loads(rows.values("t")(number))
    assert len(rows.values("t")(number)) == size_bytes
    assert row["id"] == number
    assert json.loads(Rows(size_bytes, "json-schema").values("t")(number))["payload"] == row


def test_avro_is_framed_as_confluents_serializers_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("confluent_kafka.schema_registry.SchemaRegistryClient.register_schema", lambda *_: 17)
    value = Rows(100, "avro", "http://registry").values("t")(3)
    assert struct.unpack_from(">bI", value) == (0, 17)
    assert schemaless_reader(io.BytesIO(value[5:]), records._AVRO) == json.loads(Rows(100).text(3))


def test_the_number_of_due_records_is_exact() -> None:
    assert [number_due(1_000, elapsed_ns) for elapsed_ns in (-5, 0, 1, 1_000_000, 1_000_001)] == [
        0,
        0,
        1,
        1,
        2,
    ]


def test_a_job_is_read_as_it_was_written(tmp_path: Path) -> None:
    job = Job(tmp_path, "127.0.0.1:9092", "lot1", 8, "postgres", database={"port": "5432"})
    assert Job.read(job.write()) == job


def turn(contender: str, **result: Any) -> dict[str, Any]:
    return {"case": "c", "contender": contender, "result": {"others_cores": 0.0, **result}}


def turns(**figures: Sequence[float]) -> dict[str, list[dict[str, Any]]]:
    return {
        name: [turn(name, rows_per_cpu_s=figure) for figure in values] for name, values in figures.items()
    }


def test_ratios_are_of_medians() -> None:
    [bound] = BOUNDS["kafka"]
    found = turns(MirrorSource=[100.0, 90.0, 200.0], cooperator=[85.0, 1.0, 300.0])
    assert ratio(found, "cooperator", bound) == 0.85
    assert judged(found, "cooperator", [bound]) == "met (≥ 0.8, goal 1.2)"
    assert judged(found, "MirrorSource", [bound]) == ""
    assert judged(turns(cooperator=[1.0]), "cooperator", [bound]) == ""


def test_a_median_that_is_endless_misses_its_bound() -> None:
    found = {"cooperator": [turn("cooperator", median_ms=None, p99_ms=None, cores=0.5)]}
    assert judged(found, "cooperator", BOUNDS["delay"]).count("**missed**") == 2


def test_each_converter_is_compared_with_bytes_of_the_same_contender() -> None:
    _, bound = BOUNDS["converters"]
    found = {
        "Spark, bytes": [turn("Spark, bytes", rows_per_cpu_s=10.0)],
        "cooperator, bytes": [turn("cooperator, bytes", rows_per_cpu_s=4.0)],
        "cooperator, avro": [turn("cooperator, avro", rows_per_cpu_s=1.0)],
    }
    assert ratio(found, "cooperator, avro", bound) == 0.25
    assert judged(found, "cooperator, avro", [bound]) == "**missed** (≥ 0.5, goal 0.7)"


def test_the_page_shows_each_run_its_failures_and_whether_others_were_at_work() -> None:
    result = {
        "start_s": 9.0,
        "wall_s": 10.0,
        "rows_per_s": 1_000,
        "rows_per_cpu_s": 900,
        "cpu_s_per_million": 1_111.1,
        "resident_mb": 500.0,
    }
    run: dict[str, Any] = {
        "scenario": "kafka",
        "command": "python -m benchmarks.throughput kafka",
        "started": "2026-01-01T00:00:00+00:00",
        "machine": {"processor": "p", "cores": 2, "memory_gib": 4},
        "versions": {"java": "17", "spark": "4", "kafka": "4", "python": "3"},
        "turns": [
            turn("cooperator", **result),
            {"case": "c", "contender": "MirrorSource", "error": "it ended | so"},
        ],
    }
    rows = table(run).splitlines()
    assert {row.count("|") for row in rows} == {rows[0].count("|")}
    assert "was disturbed" not in document({"kafka": run})
    run["turns"].append(turn("Spark", **{**result, "others_cores": 1.0}))
    assert len(disturbed(run["turns"])) == 1
    assert "during 1 of 3 turns" in document({"kafka": run})


def test_options_given_beside_short_win() -> None:
    options = parsed(["kafka", "--short", "--records", "7"])
    assert (options.records, options.repetitions, options.sizes) == (7, 1, [500])
    assert parsed(["kafka"]).records == 1_000_000
