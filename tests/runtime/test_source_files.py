"""Text files as they are read by ``files-to-kafka``: every line once, in the order of its file."""

import gzip
import os
import re
from pathlib import Path

import pytest

from cooperator.connectors.offset_operations import alter, listed
from cooperator.connectors.offsets import Entry, OffsetsError
from cooperator.model import TaskId
from tests.harness.support import eventually
from tests.runtime.spark_bench import SparkBench
from tests.runtime.test_offsets import run_task, subject

pytestmark = pytest.mark.real

LONG = b"".join(b"%d %s\n" % (number, b"x" * (number % 50)) for number in range(200))
TEXTS = {
    "dir/crlf.txt": b"a\r\nb\r\n\r\nlast",
    "empty.txt": b"",
    "bom.txt": b"\xef\xbb\xbffirst\nsecond\n",
    "long.txt": LONG,
    "packed.txt.gz": LONG,
    "a;b c+%25é.txt": b"odd\nname\n",
    "invalid.txt": b"\xff\xfe ok\n",
}
NOT_READ = (".hidden.txt", "_hidden.txt", "_dir/file.txt", "copying.txt._COPYING_", "other.log")


def lines(content: bytes) -> list[bytes]:
    """The lines by Hadoop's rules."""
    found = re.split(rb"\r\n|\n|\r", content.removeprefix(b"\xef\xbb\xbf"))
    return found[:-1] if not found[-1] else found


def put(root: Path, name: str, content: bytes) -> None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)


def by_file(spark: SparkBench, topic: str) -> dict[str, list[bytes]]:
    found: dict[str, list[bytes]] = {}
    for key, value in spark.records(topic):
        found.setdefault((key or b"").decode(), []).append(value or b"")
    return found


def config_of(root: Path, topic: str, **options: str) -> dict[str, str]:
    return {
        "connector.class": "files-to-kafka",
        "path": str(root),
        "topic": topic,
        "units": "2",
        "record.value": "line",
        "trigger.interval.ms": "100",
        "task.units": "bucket-0-of-2,bucket-1-of-2",
        **{name.replace("_", "."): value for name, value in options.items()},
    }


def test_lines_arrive_once_and_in_order_although_batches_end_within_files(
    spark: SparkBench, tmp_path: Path, unique: str
) -> None:
    root, task = tmp_path / "in", TaskId(unique, 0)
    for name, content in TEXTS.items():
        put(root, name, content)
    for name in NOT_READ:
        put(root, name, b"hidden\n")
    spark.create_topic(unique, 1)
    config = config_of(root, unique, glob="*.txt*", max_bytes_per_trigger="700")
    wanted = {name: lines(content) for name, content in TEXTS.items() if content}
    run_task(spark, task, config, lambda: by_file(spark, unique) == wanted)
    read = listed(subject(spark, unique, config))
    assert sorted(entry.partition["path"] for entry in read) == sorted(TEXTS)


def test_a_file_is_one_record_where_that_is_wanted(spark: SparkBench, tmp_path: Path, unique: str) -> None:
    root, task = tmp_path / "in", TaskId(unique, 0)
    for name in ("dir/crlf.txt", "long.txt", "packed.txt.gz"):
        put(root, name, TEXTS[name])
    spark.create_topic(unique, 1)
    config = config_of(root, unique, format="wholetext", recursive="false", max_bytes_per_trigger="50")
    wanted = {name: [TEXTS[name]] for name in ("long.txt", "packed.txt.gz")}
    run_task(spark, task, config, lambda: by_file(spark, unique) == wanted)


def test_a_file_that_changes_after_a_part_of_it_was_read_is_named_until_its_offset_is_altered(
    spark: SparkBench, tmp_path: Path, unique: str
) -> None:
    root, task = tmp_path / "in", TaskId(unique, 0)
    put(root, "long.txt", LONG)
    spark.create_topic(unique, 1)
    # A record that Kafka does not take stops the task in the middle of the file.
    content = LONG + b"y" * 3_000 + b"\nend\n"
    put(root, "long.txt", content)
    config = config_of(root, unique, max_bytes_per_trigger="900", message_max_bytes="2000")
    about = subject(spark, unique, config)

    def waits_with(text: str) -> None:
        spark.start(task, config)
        eventually(lambda: text in str(spark.heard.progress_of(task).get("waits")), 90, text)
        spark.stop(task)

    waits_with("with key long.txt exceeds option 'message.max.bytes'")
    [entry] = listed(about)
    assert entry.offset is not None
    assert 0 < entry.offset["bytes"] < len(content)
    assert alter(about, [entry], dry_run=False) == [], "it is left as it is"
    assert listed(about) == [entry]
    other = Entry(entry.partition, {**entry.offset, "bytes": 1})
    with pytest.raises(OffsetsError, match=r'write \{"modified_ms": <number of at least 0>\}'):
        alter(about, [other], dry_run=True)

    os.utime(root / "long.txt", (1, 1))
    waits_with("long.txt has changed after its first")
    before = len(spark.records(unique))
    assert 0 < before < 200
    (root / "long.txt").unlink()
    waits_with("long.txt has vanished after its first")
    alter(about, [Entry(entry.partition, {"modified_ms": 0})], dry_run=False)
    put(root, "later.txt", b"later\n")
    run_task(spark, task, config, lambda: "later.txt" in by_file(spark, unique))
    assert len(spark.records(unique)) == before + 1
