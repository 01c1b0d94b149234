"""No process and no temporary file outlives a test run, in whatever way it ends and they were started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.harness import nested_run, runs
from tests.harness.leftovers import describe
from tests.harness.runs import Run, run_of_folder, runs_of_marks
from tests.harness.support import eventually

ROOT = Path(__file__).parents[2]
WAYS = set(nested_run.WAYS)


class NestedRun:
    """A run of ``nested_run``, in an empty directory."""

    def __init__(self, folder: Path, test: str, end: str = "", *arguments: str) -> None:
        self.folder = folder
        self.temporary = folder / "temporary"
        self.temporary.mkdir(exist_ok=True)
        options = ("-q", "-c", os.devnull, "--rootdir", str(folder), "-p", "no:cacheprovider", "-p", "xdist", "--noconftest")
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-m", "pytest", *options, *arguments),
                *("-p", "tests.harness.nested_run", f"{nested_run.__file__}::{test}"),
            ],
            cwd=folder,
            env={
                **os.environ,
                nested_run.END: end,
                "PYTHONPATH": os.pathsep.join(map(str, (ROOT, ROOT / "operator"))),
                "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
                "PYTEST_DEBUG_TEMPROOT": str(folder),
                "TMPDIR": str(self.temporary),
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def await_processes(self) -> None:
        eventually(
            lambda: (self.folder / "ready").exists() or self.process.poll() is not None, 60, "processes stay"
        )

    def output(self) -> str:
        """All of it; it ends with the run, whatever runs on."""
        return self.process.communicate(timeout=60)[0]

    def living(self) -> set[str]:
        """The ways whose processes live."""
        pids = {path.name: int(path.read_text()) for path in (self.folder / "pids").glob("[!.]*")}
        assert set(pids) == WAYS, self.output()
        return {way for way, pid in pids.items() if lives(pid)}


def lives(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


ENDS = {
    "passes": ("passes", None, ()),
    "fails": ("fails", None, ()),
    "SIGINT": ("waits", signal.SIGINT, ()),
    "SIGTERM": ("waits", signal.SIGTERM, ()),
    "SIGKILL": ("waits", signal.SIGKILL, ()),
    "SIGKILL, with workers": ("waits", signal.SIGKILL, ("-n", "1")),
    "SIGKILL of a worker": ("kills its process", None, ("-n", "1", "--max-worker-restart", "0")),
}
"""How the test ends, the signal that its run gets meanwhile, and the run's options."""


@pytest.mark.parametrize("end", ENDS)
def test_nothing_outlives_a_run(end: str, tmp_path: Path) -> None:
    act, number, options = ENDS[end]
    run = NestedRun(tmp_path, "test_processes_in_all_ways", act, *options)
    run.await_processes()
    if number is not None:
        assert run.living() == WAYS
        run.process.send_signal(number)
    output = run.output()

    eventually(lambda: not run.living(), 10, f"all processes end; the run said:\n{output}")
    eventually(lambda: not list(run.temporary.iterdir()), 10, "temporary files go")


@pytest.fixture
def killed_with_its_warden(tmp_path: Path) -> Iterator[NestedRun]:
    run = NestedRun(tmp_path, "test_processes_in_all_ways", "waits")
    run.await_processes()
    (warden,) = (child for child in psutil.Process(run.process.pid).children() if "watch" in child.cmdline())
    warden.kill()
    run.process.kill()
    run.output()
    yield run


def test_the_next_run_reports_what_it_cleaned_up(killed_with_its_warden: NestedRun) -> None:
    assert killed_with_its_warden.living() == WAYS

    output = NestedRun(killed_with_its_warden.folder, "test_nothing").output()

    assert not killed_with_its_warden.living()
    assert "cleaned up after a killed test run: " in output
    assert "processes (" in output
    assert "1 temporary folder" in output
    assert "1 passed" in output


def test_this_run_has_an_id_that_its_processes_inherit() -> None:
    run = Run.parse(os.environ[runs.VARIABLE])
    assert run is not None
    assert run.lives
    wardens = (process for process in psutil.process_iter(["cmdline"]) if "watch" in process.info["cmdline"])
    assert any(str(run.pid) in warden.info["cmdline"] for warden in wardens)


def test_a_process_with_the_number_of_an_ended_one_is_another_run() -> None:
    ours = Run.of_process(os.getpid())
    assert ours is not None
    assert ours.lives
    assert not Run(ours.pid, f"{ours.start}0").lives


def test_a_run_is_read_from_its_id_its_folder_and_its_mark() -> None:
    run = Run(12, "345")
    folder = run.folder(Path("/tmp"))
    assert Run.parse(str(run)) == run
    assert run_of_folder(folder.name) == run
    assert runs_of_marks(f"7f00-7f01 r--s 00000000 fe:00 9   {folder}/mark (deleted)\n") == {run}
    for foreign in ("", "12", "12:", "a:b", "cooperator-run-12"):
        assert Run.parse(foreign) is None
        assert run_of_folder(foreign) is None
        assert runs_of_marks(foreign) == set()


def test_the_line_counts_what_was_left() -> None:
    left = [("process", "kafka.Kafka"), ("process", "runc"), ("process", "runc"), ("bridge", "coop0")]
    assert describe(left) == (
        "cleaned up after a killed test run: 3 processes (kafka.Kafka, runc x2), 1 bridge"
    )
    assert describe([]) == ""
