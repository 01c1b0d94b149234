"""Real rows through a real broker and real Spark on members that die, drain and lose their broker.

What is compared is what is in the sink: every line once, none missing.
"""

import json
import time
from collections import Counter
from pathlib import Path

import pytest

from cooperator.leader.service import LeaderService
from cooperator.local.broker import EmbeddedBroker
from cooperator.runtime.output import read_units, unit_directories
from stage import MemberProcess, Stage
from support import at_a_desk, eventually

pytestmark = [pytest.mark.real, pytest.mark.timeout(1200)]

WORKERS = ("s-0", "s-1")
FILES, LINES = 120, 50
PATIENCE_S = 300
"""How long anything is waited for: the machine may be busy with more than this."""


def write_files(root: Path, first: int, last: int) -> None:
    root.mkdir(exist_ok=True)
    for number in range(first, last):
        lines = (f"line {line} of file {number}" for line in range(LINES))
        part = root.parent / f"part-{number}"
        part.write_text("\n".join(lines) + "\n")
        part.replace(root / f"file-{number:04}.txt")


def connectors(stage: Stage) -> dict[str, dict[str, str]]:
    source, sink = stage.directory / "in", stage.directory / "out"
    return {
        "sources": {
            "connector.class": "files-to-kafka",
            "tasks.max": "2",
            "path": str(source),
            "topic": f"{stage.group_id}-lines",
            "topic.partitions": "2",
            "units": "2",
            "max.files.per.trigger": "5",
            "trigger.interval.ms": "1000",
        },
        "archive": {
            "connector.class": "kafka-to-files",
            "tasks.max": "2",
            "topics": f"{stage.group_id}-lines",
            "path": str(sink),
            "trigger.interval.ms": "1000",
            "sql": "SELECT key, get_json_object(value, '$.line') AS line FROM input",
        },
    }


def archived(stage: Stage) -> Counter[tuple[str, str]]:
    """(file, line) to how often it is in the sink, by what its metadata says is committed."""
    out = stage.directory / "out"
    if not unit_directories(out):
        return Counter()
    table = read_units(out)
    if not table.num_rows:
        return Counter()
    return Counter(zip(table["key"].to_pylist(), table["line"].to_pylist(), strict=True))


def expected(files: int) -> Counter[tuple[str, str]]:
    return Counter(
        (f"file-{number:04}.txt", f"line {line} of file {number}")
        for number in range(files)
        for line in range(LINES)
    )


def rows(stage: Stage) -> int:
    return sum(archived(stage).values())


def spark_member(stage: Stage, identity: str) -> MemberProcess:
    return stage.member(identity, runtime="spark", heap_mb="512")


def running(stage: Stage) -> LeaderService:
    write_files(stage.directory / "in", 0, FILES // 2)
    leader = stage.leader(connectors(stage), WORKERS)
    for worker in WORKERS:
        spark_member(stage, worker)
    return leader


def states(leader: LeaderService) -> dict[str, str]:
    return {task["name"]: task["state"] for task in leader.status().get("tasks", ())}


def told(leader: LeaderService) -> int:
    """How many tasks have told their progress."""
    return sum(bool(json.loads(task["progress"] or "{}")) for task in leader.status()["tasks"])


def assert_exact(stage: Stage, files: int) -> None:
    eventually(lambda: rows(stage) >= files * LINES, PATIENCE_S, f"{files * LINES} rows are in the sink")
    difference = archived(stage)
    difference.subtract(expected(files))
    wrong = {key: count for key, count in difference.items() if count}
    assert not wrong, f"{len(wrong)} rows are missing or doubled, such as {next(iter(wrong.items()))}"


@at_a_desk("env -u CI pytest tests/integration/test_spark.py")
def test_members_killed_in_mid_stream_lose_and_double_no_row(stage: Stage) -> None:
    leader = running(stage)
    eventually(lambda: rows(stage) > 0, PATIENCE_S, "rows flow")
    for count, victim in enumerate(("s-0", "s-1", "s-0"), start=1):
        before = rows(stage)
        member = next(m for m in reversed(stage.members) if m.identity == victim)
        member.kill()
        stage.facts(leader, WORKERS)
        spark_member(stage, victim)
        first = FILES // 2 + (count - 1) * FILES // 6
        write_files(stage.directory / "in", first, first + FILES // 6)
        eventually(lambda before=before: rows(stage) > before, PATIENCE_S, f"rows flow after kill {count}")
    assert_exact(stage, FILES)
    eventually(lambda: set(states(leader).values()) == {"RUNNING"}, PATIENCE_S, f"all run: {states(leader)}")


@at_a_desk("env -u CI pytest tests/integration/test_spark.py")
def test_a_drain_and_an_outage_of_two_minutes_in_mid_stream(stage: Stage, broker: EmbeddedBroker) -> None:
    leader = running(stage)
    eventually(lambda: rows(stage) > 0, PATIENCE_S, "rows flow")
    eventually(lambda: leader.status()["settled"], PATIENCE_S, "all tasks run")

    eventually(lambda: told(leader) >= 4, 30, "four tasks tell their progress")
    epochs = {task["name"]: task["epoch"] for task in leader.status()["tasks"]}
    starts = stage.starts()
    broker.stop()
    down_at = time.monotonic()
    eventually(lambda: time.monotonic() - down_at >= 120, 130, "the outage has lasted two minutes")
    broker.start()
    write_files(stage.directory / "in", FILES // 2, FILES * 3 // 4)
    assert_exact(stage, FILES * 3 // 4)
    eventually(lambda: leader.status()["settled"], PATIENCE_S, "the group is at rest again")
    after = {task["name"]: task["epoch"] for task in leader.status()["tasks"]}
    assert after == epochs, "a task was assigned anew"
    assert stage.starts() == starts, "a task was started again"

    leaver = next(m for m in stage.members if m.identity == "s-0")
    leaver.terminate()
    stage.facts(leader, ("s-1",), leaving=frozenset({"s-0"}))
    write_files(stage.directory / "in", FILES * 3 // 4, FILES)
    assert leaver.child.wait(PATIENCE_S) == 0
    assert_exact(stage, FILES)
    assert {task["member"] for task in leader.status()["tasks"]} == {"s-1"}
