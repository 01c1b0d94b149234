"""Real rows through a real broker and real Spark on members that die, drain and lose their broker.

The sink must have every line exactly once.
"""

import json
import time
from collections import Counter
from pathlib import Path

import pytest

from cooperator.connectors.output import read_units
from cooperator.leader.lease_confirmation import Candidates
from cooperator.leader.service import LeaderService
from cooperator.local.broker import EmbeddedBroker
from tests.harness.member_group import MemberGroup, MemberProcess
from tests.harness.support import eventually

pytestmark = [pytest.mark.real, pytest.mark.timeout(1200)]

WORKERS = ("s-0", "s-1")
FILES, LINES = 120, 50
PATIENCE_S = 300
"""The timeout of every wait, in seconds; a busy machine needs it."""


def write_files(root: Path, first: int, last: int) -> None:
    root.mkdir(exist_ok=True)
    for number in range(first, last):
        lines = (f"line {line} of file {number}" for line in range(LINES))
        part = root.parent / f"part-{number}"
        part.write_text("\n".join(lines) + "\n")
        part.replace(root / f"file-{number:04}.txt")


def connectors(group: MemberGroup) -> dict[str, dict[str, str]]:
    source, sink = group.directory / "in", group.directory / "out"
    return {
        "sources": {
            "connector.class": "files-to-kafka",
            "tasks.max": "2",
            "path": str(source),
            "topic": f"{group.group_id}-lines",
            "topic.partitions": "2",
            "units": "2",
            "max.files.per.trigger": "5",
            "trigger.interval.ms": "1000",
        },
        "archive": {
            "connector.class": "kafka-to-files",
            "tasks.max": "2",
            "topics": f"{group.group_id}-lines",
            "path": str(sink),
            "trigger.interval.ms": "1000",
            "rotate.interval.ms": "1000",
            "sql": "SELECT key, get_json_object(value, '$.line') AS line FROM input",
        },
    }


def archived(group: MemberGroup) -> Counter[tuple[str, str]]:
    """The occurrences of each (file, line) in visible files."""
    table = read_units(group.directory / "out")
    if not table.num_rows:
        return Counter()
    return Counter(zip(table["key"].to_pylist(), table["line"].to_pylist(), strict=True))


def expected(files: int) -> Counter[tuple[str, str]]:
    return Counter(
        (f"file-{number:04}.txt", f"line {line} of file {number}")
        for number in range(files)
        for line in range(LINES)
    )


def rows(group: MemberGroup) -> int:
    return sum(archived(group).values())


def spark_member(group: MemberGroup, identity: str) -> MemberProcess:
    return group.member(identity, runtime="spark", heap_mb="512")


def running(group: MemberGroup) -> LeaderService:
    write_files(group.directory / "in", 0, FILES // 2)
    leader = group.leader(connectors(group), WORKERS)
    for worker in WORKERS:
        spark_member(group, worker)
    return leader


def states(leader: LeaderService) -> dict[str, str]:
    return {task["name"]: task["state"] for task in leader.status().get("tasks", ())}


def generation(leader: LeaderService) -> int:
    """The number of tasks that have reported progress."""
    return sum(bool(json.loads(task["progress"] or "{}")) for task in leader.status()["tasks"])


def assert_exact(group: MemberGroup, files: int) -> None:
    eventually(lambda: rows(group) >= files * LINES, PATIENCE_S, f"{files * LINES} rows are in the sink")
    difference = archived(group)
    difference.subtract(expected(files))
    wrong = {key: count for key, count in difference.items() if count}
    assert not wrong, f"{len(wrong)} rows are missing or doubled, such as {next(iter(wrong.items()))}"


@pytest.mark.long("tests/guarantees/test_guarantees.py::test_the_sink_contains_the_input")
def test_members_killed_in_mid_stream_lose_and_double_no_row(group: MemberGroup) -> None:
    leader = running(group)
    eventually(lambda: rows(group) > 0, PATIENCE_S, "rows flow")
    for count, victim in enumerate(("s-0", "s-1", "s-0"), start=1):
        before = rows(group)
        member = next(m for m in reversed(group.members) if m.identity == victim)
        member.kill()
        group.facts(leader, WORKERS)
        spark_member(group, victim)
        first = FILES // 2 + (count - 1) * FILES // 6
        write_files(group.directory / "in", first, first + FILES // 6)
        eventually(lambda before=before: rows(group) > before, PATIENCE_S, f"rows flow after kill {count}")
    assert_exact(group, FILES)
    eventually(lambda: set(states(leader).values()) == {"RUNNING"}, PATIENCE_S, f"all run: {states(leader)}")


@pytest.mark.long("tests/runtime/test_pipelines.py::test_a_broker_that_is_away_for_a_while_stops_no_task")
def test_a_drain_and_an_outage_of_two_minutes_in_mid_stream(
    group: MemberGroup, broker: EmbeddedBroker
) -> None:
    leader = running(group)
    eventually(lambda: rows(group) > 0, PATIENCE_S, "rows flow")
    eventually(lambda: leader.status()["settled"], PATIENCE_S, "all tasks run")

    eventually(lambda: generation(leader) >= 4, 30, "four tasks tell their progress")
    epochs = {task["name"]: task["epoch"] for task in leader.status()["tasks"]}
    starts = group.starts()
    broker.stop()
    down_at = time.monotonic()

    def is_over() -> bool:
        # The host knows its pods meanwhile.
        leader.set_candidates(Candidates(frozenset(WORKERS), int(time.monotonic() * 1000)))
        return time.monotonic() - down_at >= 120

    eventually(is_over, 130, "the outage has lasted two minutes")
    broker.start()
    write_files(group.directory / "in", FILES // 2, FILES * 3 // 4)
    assert_exact(group, FILES * 3 // 4)
    eventually(lambda: leader.status()["settled"], PATIENCE_S, "the group is at rest again")
    after = {task["name"]: task["epoch"] for task in leader.status()["tasks"]}
    assert after == epochs, "a task was reassigned"
    assert group.starts() == starts, "a task was restarted"

    leaver = next(m for m in group.members if m.identity == "s-0")
    leaver.terminate()
    group.facts(leader, ("s-1",), leaving=frozenset({"s-0"}))
    write_files(group.directory / "in", FILES * 3 // 4, FILES)
    assert leaver.child.wait(PATIENCE_S) == 0
    assert_exact(group, FILES)
    assert {task["member"] for task in leader.status()["tasks"]} == {"s-1"}
