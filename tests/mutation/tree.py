"""Clones of the commit in which tests run, with an interpreter of their own.

The interpreter's site-packages have a ``.pth`` that puts the clone's ``operator`` before the installed one,
so each process that a test starts by ``sys.executable`` runs the clone's code, whatever its environment is.
"""

import ctypes
import os
import shutil
import signal
import subprocess
import sysconfig
import time
import venv
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.util import cache_from_source
from json import loads
from pathlib import Path

import psutil

HERE = Path(__file__).parent
SUBREAPER, DEATH_SIGNAL = 36, 1
"""Options of prctl(2)."""
COLLECTION_S = 180.0
FACTOR, EXTRA_S = 5, 120.0
"""A test hangs when it takes longer than ``FACTOR`` times its recorded duration, plus ``EXTRA_S``: it
may have to set up what another test had set up when it was recorded."""


@dataclass
class Outcome:
    """The result of one run of pytest. ``failed`` is the test that failed, hung or ended its process."""

    passed: list[str]
    failed: str | None
    why: str = ""


def adopt_orphans() -> None:
    """Become the parent of descendants whose parent ends, and end with all of them at a signal."""
    ctypes.CDLL(None).prctl(SUBREAPER, 1, 0, 0, 0)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _end_with_descendants)


def serve_a_parent() -> None:
    """The same, for a worker, which ends with its parent."""
    adopt_orphans()
    ctypes.CDLL(None).prctl(DEATH_SIGNAL, signal.SIGTERM, 0, 0, 0)


def _end_with_descendants(number: int, frame: object) -> None:
    """Not by an exception: a pool's worker reports each, and goes on with its next task."""
    end_descendants()
    os._exit(128 + number)


def end_descendants() -> None:
    """Kill all that descend from this process, also what an adopted one has just started."""
    while descendants := psutil.Process().children(recursive=True):
        for process in descendants:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(descendants, timeout=5)


class Tree:
    """A clone at ``path``, made when it is not there yet."""

    def __init__(self, source: Path, path: Path) -> None:
        self.path = path
        home = path / ".venv"
        self.python = home / "bin" / "python"
        self._packages = Path(sysconfig.get_path("purelib", "venv", vars={"base": str(home)}))
        commit = _git(source, "rev-parse", "HEAD")
        if not self.python.exists():
            shutil.rmtree(path, ignore_errors=True)
            subprocess.run(["git", "clone", "--quiet", source, path], check=True)
            self._make_interpreter()
        if _git(path, "rev-parse", "HEAD") != commit:
            raise SystemExit(f"{path} has another commit than {source}: use a new folder for --work")
        # A mutant stays when a worker is killed.
        for file in _git(path, "diff", "--name-only").splitlines():
            _git(path, "checkout", "--", file)
            _compiled(path / file).unlink(missing_ok=True)

    def _make_interpreter(self) -> None:
        venv.EnvBuilder(symlinks=True).create(self.python.parents[1])
        for module in ("probe", "plugin"):
            shutil.copy(HERE / f"{module}.py", self._packages / f"mutation_{module}.py")
        installed = sysconfig.get_path("purelib")
        start = f"{self.path / 'operator'}\nimport site; site.addsitedir({installed!r})\n"
        (self._packages / "tree.pth").write_text(start)
        for program in Path(sysconfig.get_path("scripts")).iterdir():
            copy = self.python.with_name(program.name)
            if program.is_file() and not copy.exists():
                self._copy_program(program, copy)

    def _copy_program(self, program: Path, copy: Path) -> None:
        """Scripts in Python begin with the path of the interpreter that they were installed for."""
        with program.open("rb") as file:
            if file.read(2) != b"#!" or b"python" not in file.readline():
                copy.symlink_to(program)
                return
            copy.write_bytes(b"#!" + os.fsencode(self.python) + b"\n" + file.read())
            copy.chmod(0o755)

    @contextmanager
    def with_source(self, file: str, source: str) -> Iterator[None]:
        """The tree with another content of ``file``. Compiled code would be taken for that of either one."""
        path = self.path / file
        original = path.read_text()
        compiled = _compiled(path)
        try:
            path.write_text(source)
            compiled.unlink(missing_ok=True)
            yield
        finally:
            path.write_text(original)
            compiled.unlink(missing_ok=True)

    def record(self, tests: Sequence[str], folder: Path, words: Sequence[str]) -> int:
        """Run tests, given by ids, files and folders, which are not recorded in ``folder`` yet."""
        start = f"import mutation_probe; mutation_probe.install({str(folder)!r}, {str(self.path)!r})\n"
        (self._packages / "tree_probes.pth").write_text(start)
        try:
            log = self.path.with_suffix(".log")
            return self._start([*words, "--mutation-lines", str(folder)], log, tests).wait()
        finally:
            end_descendants()

    def _start(self, words: Sequence[str], log: Path, nodes: Sequence[str]) -> "subprocess.Popen[bytes]":
        listed = log.with_suffix(".tests")
        listed.write_text("".join(f"{node}\n" for node in nodes))
        files = dict.fromkeys(node.partition("::")[0] for node in nodes)
        command = [str(self.python), "-m", "pytest", "-q", "-p", "mutation_plugin", "-p", "no:cacheprovider"]
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        environment |= {"PATH": f"{self.python.parent}{os.pathsep}{os.environ['PATH']}"}
        with log.open("wb") as output:
            return subprocess.Popen(
                [*command, *words, "--mutation-tests", str(listed), *files],
                cwd=self.path,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )

    def run(self, tests: Mapping[str, float], words: Sequence[str] = ()) -> Outcome:
        """Run tests, given with their usual seconds, until one fails or hangs."""
        log = self.path.with_suffix(".log")
        outcomes = log.with_suffix(".outcomes")
        outcomes.unlink(missing_ok=True)
        process = self._start([*words, "-x", "--mutation-outcomes", str(outcomes)], log, list(tests))
        try:
            hangs = self._hangs(process, tests, outcomes)
        finally:
            end_descendants()
        return _outcome(tests, _events(outcomes), process.wait(), hangs)

    def _hangs(self, process: "subprocess.Popen[bytes]", tests: Mapping[str, float], outcomes: Path) -> bool:
        """Wait for the end of pytest, and return whether a test takes too long for that."""
        until, size = time.monotonic() + COLLECTION_S, 0
        while process.poll() is None:
            if time.monotonic() > until:
                return True
            time.sleep(0.05)
            events = _events(outcomes)
            if len(events) != size:
                size, (event, test) = len(events), events[-1]
                bound = FACTOR * tests.get(test, 0) + EXTRA_S if event == "started" else COLLECTION_S
                until = time.monotonic() + bound
        return False


def _outcome(tests: Mapping[str, float], events: list[tuple[str, str]], code: int, hangs: bool) -> Outcome:
    passed = [test for event, test in events if event in ("passed", "skipped")]
    first = next(iter(tests))
    failed = next((test for event, test in events if event == "failed"), None)
    if failed is not None:
        # A file fails when it cannot be collected.
        return Outcome(passed, next((test for test in tests if test.startswith(failed)), first), "failed")
    if hangs or code not in (0, 5):
        # The last test that began, unless pytest came to none.
        suspect = next((test for event, test in events[-1:] if event == "started"), first)
        return Outcome(passed, suspect, "hung" if hangs else f"ended pytest ({code})")
    return Outcome(passed, None)


def _compiled(path: Path) -> Path:
    return Path(cache_from_source(str(path)))


def _events(path: Path) -> list[tuple[str, str]]:
    with suppress(FileNotFoundError):
        records = [loads(line) for line in path.read_text().splitlines()]
        return [(record["event"], record["test"]) for record in records]
    return []


def _git(folder: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()
