"""No process and no temporary file outlives a test run, in whatever way it ends and they were started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.harness import nested_run, runs
from tests.harness.leftovers import describe
from tests.harness.runs import RunProcess
from tests.harness.support import eventually

ROOT = Path(__file__).parents[2]
WAYS = set(nested_run.WAYS)


class NestedRun:
    """A run of ``nested_run``, in an empty directory: a run of its own, not a part of this one."""

    def __init__(self, folder: Path, test: str, end: str = "", *arguments: str) -> None:
        self.folder = folder
        self.temporary = folder / "temporary"
        self.temporary.mkdir(exist_ok=True)
        apart = ("-c", os.devnull, "--rootdir", str(folder), "--noconftest", "-p", "no:cacheprovider")
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-m", "pytest", "-q", *apart, "-p", "xdist", *arguments),
                *("-p", "tests.harness.nested_run", f"{nested_run.__file__}::{test}"),
            ],
            cwd=folder,
            env={
                **{name: value for name, value in os.environ.items() if name != runs.VARIABLE},
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
"""Each way: the end of the test, the signal that its run gets meanwhile, and the run's options."""


@pytest.mark.parametrize("end", ENDS)
def test_nothing_outlives_a_run(end: str, tmp_path: Path) -> None:
    act, number, options = ENDS[end]
    run = NestedRun(tmp_path, "test_processes_in_all_ways", act, *options)
    run.await_processes()
    if number is not None:
        assert run.living() == WAYS
        run.process.send_signal(number)
    output = run.output()

    eventually(lambda: not run.living(), 30, f"all processes end; the run said:\n{output}")
    eventually(lambda: not list(run.temporary.iterdir()), 30, "temporary files go")


@pytest.fixture
def killed_with_its_warden(tmp_path: Path) -> NestedRun:
    run = NestedRun(tmp_path, "test_processes_in_all_ways", "waits")
    run.await_processes()
    (warden,) = (child for child in psutil.Process(run.process.pid).children() if "watch" in child.cmdline())
    warden.kill()
    run.process.kill()
    run.process.wait()
    return run


def test_the_next_run_reports_what_it_cleaned_up(killed_with_its_warden: NestedRun) -> None:
    assert killed_with_its_warden.living() == WAYS

    output = NestedRun(killed_with_its_warden.folder, "test_nothing").output()

    assert not killed_with_its_warden.living()
    assert killed_with_its_warden.output() == ""
    assert "cleaned up after a killed test run: " in output
    # The warden of another run on this machine may have ended the processes first; the folder is this test's.
    assert "1 temporary folder" in output
    assert "1 passed" in output


def test_this_run_has_a_warden() -> None:
    first, *others = runs.of_ids(os.environ[runs.VARIABLE])
    assert all(process.lives for process in (first, *others))
    assert os.getpid() in {process.pid for process in (first, *others)}
    commands = [process.info["cmdline"] for process in psutil.process_iter(["cmdline"])]
    assert any(command and command[-2:] == ["watch", str(first.pid)] for command in commands)


def test_a_process_with_the_number_of_an_ended_one_is_another_one() -> None:
    ours = RunProcess.find(os.getpid())
    assert ours is not None
    assert ours.lives
    assert not RunProcess(ours.pid, f"{ours.start}0").lives


def test_a_killed_process_has_ended_before_its_parent_has_noticed() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        found = RunProcess.find(child.pid)
        assert found is not None
        child.kill()
        eventually(lambda: not found.lives, 10, "it has ended")
        assert RunProcess.find(child.pid) is None


def test_processes_are_known_by_ids_marks_and_folders(tmp_path: Path) -> None:
    first, second = RunProcess(12, "345"), RunProcess(67, "89")
    folder = tmp_path / first.folder
    folder.mkdir()
    (folder / first.mark).touch()
    (folder / "temporary").mkdir()
    assert runs.of_ids(f"{first.id} {second.id}") == (first, second)
    assert runs.of_folder(folder) == first
    assert runs.marked_in(folder) == (first,)
    assert runs.of_maps(f"7f-80 r--s 00 fe:00 9   {folder / second.mark} (deleted)\n") == (second,)
    for foreign in ("", "12", "12:", "a:b:c", "cooperator-run-12", f"x{first.folder}", "/tmp/mark-1-2"):
        assert runs.of_ids(foreign) == runs.of_maps(foreign) == ()
        assert runs.of_folder(Path(foreign)) is None


def test_the_line_counts_what_was_left() -> None:
    left = [("process", "kafka.Kafka"), ("process", "runc"), ("process", "runc"), ("bridge", "coop0")]
    assert describe(left) == (
        "cleaned up after a killed test run: 3 processes (kafka.Kafka, runc x2), 1 bridge"
    )
    assert describe([]) == ""
