"""The parts of the main job: its input, its judgement of what came out and of what happened to the tasks."""

import re
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from io import StringIO
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console

from cooperator.crd import parse
from cooperator.demo.check import SinkCounter, compare, content_of_lake, content_of_sources
from cooperator.demo.job import ARCHIVE_TASKS, SOURCE_TASKS, manifests
from cooperator.demo.live import DemoView, Show
from cooperator.demo.run import run_demo
from cooperator.demo.sources import collect, read_lines
from cooperator.demo.watch import DemoHistory, DemoKill, judge
from cooperator.local.layout import StateDir
from cooperator.local.members import read_incarnations
from cooperator.local.processes import marked
from cooperator.local.store import ManifestStore
from cooperator.model import Epoch, TaskId, TaskState, TaskStatus

Row = tuple[str, str]


# --- input ---


def test_the_input_is_real_text_and_the_same_each_time(tmp_path: Path) -> None:
    first = collect(tmp_path / "a", lines=2_000, files=20)
    second = collect(tmp_path / "b", lines=2_000, files=20)
    names = sorted(p.relative_to(first.root) for p in first.root.rglob("*") if p.is_file())
    assert (first.files, first.lines, first.bytes) == (second.files, second.lines, second.bytes)
    assert first.files == len(names) >= 20
    assert first.lines == content_of_sources(first.root).count >= 2_000
    assert not [name for name in names if any(part.startswith((".", "_")) for part in name.parts)]


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"a\nb\n", ["a", "b"]),
        (b"a\nb", ["a", "b"]),
        (b"a\r\nb\rc\n", ["a", "b", "c"]),
        (b"\n\na\x0cb\xe2\x80\xa8c\n", ["", "", "a\x0cb\u2028c"]),
        (b"\xef\xbb\xbfa\n", ["a"]),
    ],
)
def test_lines_end_where_spark_ends_them(tmp_path: Path, data: bytes, lines: list[str]) -> None:
    (tmp_path / "file").write_bytes(data)
    assert read_lines(tmp_path / "file") == lines


def test_the_job_is_made_of_manifests_that_apply(tmp_path: Path) -> None:
    resources = parse(manifests(tmp_path / "sources", 1_600, tmp_path / "lake", 60_000), "job.yaml")
    ManifestStore(StateDir(tmp_path), lambda: 0).apply(resources, "job.yaml")
    assert SOURCE_TASKS + ARCHIVE_TASKS >= 12


# --- what came out ---


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    root = tmp_path / "sources"
    (root / "pkg").mkdir(parents=True)
    (root / "pkg" / "a.py").write_text("import os\n\nprint('ä')\n")
    (root / "b.txt").write_text("same\nsame\n")
    return root


ROWS: list[Row] = [
    ("pkg/a.py", "import os"),
    ("pkg/a.py", ""),
    ("pkg/a.py", "print('ä')"),
    ("b.txt", "same"),
    ("b.txt", "same"),
]


def write_lake(root: Path, *batches: list[Row]) -> Path:
    """A plain directory, with one file that is not visible yet."""
    staged = root / "_cooperator" / "staging"
    staged.mkdir(parents=True)
    for number, rows in enumerate(batches):
        _parquet(root / f"lines+0+{number:020}.parquet", rows)
    _parquet(staged / "part-00000-c000.parquet.staged", ROWS)
    return root


def _parquet(file: Path, rows: list[Row]) -> None:
    columns = {
        "path": [p for p, _ in rows],
        "line": [li for _, li in rows],
        "length": [len(li) for _, li in rows],
    }
    pq.write_table(pa.table(columns), file)


def test_every_row_once_is_right_in_any_order(sources: Path, tmp_path: Path) -> None:
    lake = write_lake(tmp_path / "lake", ROWS[3:], list(reversed(ROWS[:3])))
    came_out, lengths = content_of_lake(lake)
    verdict = compare(content_of_sources(sources), came_out, lengths)
    assert verdict.exact
    assert came_out.digest == content_of_sources(sources).digest
    assert SinkCounter(lake).count() == 5


@pytest.mark.parametrize(
    ("rows", "missing", "doubled"),
    [
        (ROWS[:-1], 1, 0),
        ([*ROWS, ROWS[0]], 0, 1),
        ([*ROWS[:-1], ("b.txt", "sane")], 1, 1),
        ([*ROWS[:-1], ("pkg/a.py", "same")], 1, 1),
        ([], 5, 0),
    ],
)
def test_one_wrong_row_is_found(
    sources: Path, tmp_path: Path, rows: list[Row], missing: int, doubled: int
) -> None:
    verdict = compare(content_of_sources(sources), *content_of_lake(write_lake(tmp_path / "lake", rows)))
    assert (verdict.missing, verdict.doubled, verdict.exact) == (missing, doubled, False)


def test_a_wrong_computed_column_is_found(sources: Path, tmp_path: Path) -> None:
    came_out, lengths = content_of_lake(write_lake(tmp_path / "lake", ROWS))
    assert not compare(content_of_sources(sources), came_out, lengths + 1).exact


# --- what happened to the tasks ---

A, B, C = (TaskId("lake", number) for number in range(3))
RUNNING, STOPPING, UNASSIGNED = TaskState.RUNNING, TaskState.STOPPING, TaskState.UNASSIGNED


class Records:
    """The status log as a conversation; a second passes with each record."""

    def __init__(self) -> None:
        self.history = DemoHistory()
        self.now_ms = 0

    def says(self, worker: str, task: TaskId, state: TaskState, generation: int, progress: str = "") -> None:
        self.now_ms += 1_000
        epoch = Epoch(1, generation)
        self.history.take(TaskStatus(task, state, worker, epoch, self.now_ms, progress=progress))

    def kill(self, member: str, *tasks: TaskId) -> DemoKill:
        self.now_ms += 1_000
        return DemoKill(member, self.now_ms, frozenset(tasks))


@pytest.fixture
def records() -> Records:
    records = Records()
    records.says("m0", A, RUNNING, 2)
    records.says("m1", B, RUNNING, 2)
    records.says("m1", C, RUNNING, 2)
    return records


def test_the_killed_member_s_tasks_start_once_more_and_that_is_no_fault(records: Records) -> None:
    kill = records.kill("m1", B, C)
    records.says("m0", A, RUNNING, 2, "goes on")
    records.says("m1", B, RUNNING, 5)
    records.says("m1", C, RUNNING, 5)
    findings = judge(records.history, kill)
    assert (findings.needless, findings.moved, findings.unstarted) == (0, 0, 0)
    assert findings.idle_ms == (2_000, 3_000)
    assert findings.idle_task_seconds == 5.0


def test_another_member_s_task_that_stops_and_starts_is_a_fault(records: Records) -> None:
    kill = records.kill("m1", B, C)
    records.says("m0", A, STOPPING, 2)
    records.says("m0", A, UNASSIGNED, 2)
    for task in (A, B, C):
        records.says("m0" if task is A else "m1", task, RUNNING, 5)
    assert judge(records.history, kill).needless == 1


def test_a_restart_within_one_assignment_is_seen(records: Records) -> None:
    records.says("m0", A, STOPPING, 2)
    records.says("m0", A, RUNNING, 2)
    assert judge(records.history, None).needless == 1


def test_a_task_that_moves_is_counted_and_was_not_needed(records: Records) -> None:
    records.says("m0", A, UNASSIGNED, 2)
    records.says("m1", A, RUNNING, 3)
    findings = judge(records.history, None)
    assert (findings.moved, findings.needless) == (1, 1)


def test_a_task_that_never_starts_again_is_said(records: Records) -> None:
    kill = records.kill("m1", B, C)
    records.says("m1", B, RUNNING, 5)
    findings = judge(records.history, kill)
    assert (findings.unstarted, findings.idle_ms) == (1, (1_000,))


def test_a_task_of_the_killed_member_may_restart_once_only(records: Records) -> None:
    kill = records.kill("m1", B, C)
    for generation in (5, 6):
        records.says("m1", B, RUNNING, generation)
    records.says("m1", C, RUNNING, 5)
    assert judge(records.history, kill).needless == 1


# --- what is shown ---

VIEW = {
    "at_ms": 1_000_000,
    "members": [
        {"name": "lake-0", "phase": "Running", "pid": 11},
        {"name": "lake-1", "phase": "Pending", "pid": 12},
    ],
    "tasks": [
        {"name": "lake", "state": "RUNNING", "member": "lake-0", "progress": "", "trace": ""},
        {
            "name": "lake-0",
            "state": "RUNNING",
            "member": "lake-0",
            "at_ms": 995_000,
            "progress": '{"rows_in": 1234, "rows_per_s": 5}',
            "trace": "",
        },
        {
            "name": "lake-1",
            "state": "HELD",
            "member": None,
            "held_for": "lake-1",
            "held_until_ms": 1_041_000,
            "progress": "",
            "trace": "",
        },
        {"name": "lake-2", "state": "FAILED", "member": "lake-0", "progress": "", "trace": "[red] no\nmore"},
    ],
    "groups": [
        {
            "rebalances": [
                {"generation": 4, "assigned": 3, "revoked": 0, "moved": 0, "held": 1, "cause": "[x] changed"}
            ]
        }
    ],
}


def rendered(views: list[DemoView], terminal: bool) -> str:
    console = Console(force_terminal=terminal, width=100, file=StringIO(), color_system=None)
    with Show(console) as show:
        for view in views:
            show.show(view)
    file = console.file
    assert isinstance(file, StringIO)
    return file.getvalue()


def test_without_a_terminal_a_line_now_and_then_and_every_event_once() -> None:
    views = [
        DemoView(VIEW, (10, 100), 1.0),
        DemoView(VIEW, (10, 100), 2.0, ["kill -9 [12]"]),
        DemoView(VIEW, (20_000, 100_000), 66.0, ["kill -9 [12]"]),
    ]
    assert rendered(views, terminal=False).splitlines() == [
        "0:01 1 member, 2 of 4 tasks run, 1 held for lake-1, 41 s left, 10 of 100 rows in the lake",
        "0:02 kill -9 [12]",
        "1:06 1 member, 2 of 4 tasks run, 1 held for lake-1, 41 s left, 20,000 of 100,000 rows in the lake",
    ]


def test_on_a_terminal_the_picture_has_members_tasks_holds_and_rebalances() -> None:
    shown = rendered([DemoView(VIEW, (10, 100), 1.0)], terminal=True)
    for text in (
        "rows in the lake: 10 of 100",
        "HELD for lake-1, 41 s left",
        "1,234 rows, 5/s",
        "[red] no",
        "generation 4: 3 assigned, 0 revoked, 0 moved, 1 held ([x] changed)",
        "lake-1  Pending",
    ):
        assert text in shown


def test_before_the_daemon_answers_there_is_nothing_to_show_and_no_error() -> None:
    assert "0 of 0 tasks run" in rendered([DemoView()], terminal=False)
    assert "MEMBER" in rendered([DemoView()], terminal=True)


# --- all of it ---


@pytest.mark.real
@pytest.mark.timeout(900)
def test_the_main_job_with_a_member_killed_in_mid_stream(tmp_path: Path) -> None:
    """Small, and the same in everything else: real broker, real Spark, 14 tasks. A second member is enough
    to see that nobody else's tasks are touched; each costs a JVM."""
    screen = Console(file=StringIO(), width=200)
    assert isinstance(screen.file, StringIO)
    code = run_demo(tmp_path / "demo", Silent(), screen, files=40, lines=4_000, members=2)
    shown = screen.file.getvalue()
    assert code == 0, shown
    assert "exactly its own tasks again" in shown
    assert re.search(r"needless restarts +0\n", shown)
    assert not [
        incarnation
        for incarnation in read_incarnations(tmp_path / "demo/workers/default.lake/members")
        if marked(incarnation.incarnation)
    ]


class Silent:
    def step(self, text: str) -> AbstractContextManager[Callable[[str], None]]:
        return nullcontext(lambda detail: None)

    def say(self, text: str) -> None: ...
