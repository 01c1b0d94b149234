"""A full disk: whatever writes says so with a remedy, leaves files as they were, and goes on with space.

The disk is a small file system that is really full, up to a number of pages: what is written first may still
have space.
"""

import ast
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

import cooperator.local
from cooperator.crd import Connector, Worker, parse
from cooperator.host.platform import Goal, PlatformError, Wanted
from cooperator.local import processes
from cooperator.local.broker import EmbeddedBroker
from cooperator.local.daemon import host_lock, host_pid, make_token
from cooperator.local.layout import StateDir, StorageError, read_json, write_all, write_json
from cooperator.local.lifecycle import kill_everything
from cooperator.local.members import MemberProcesses, ProcessIncarnation
from cooperator.local.platform import LocalPlatform
from cooperator.local.store import Key, ManifestStore
from tests.harness.small_disk import SmallDisk, small_disk
from tests.harness.support import eventually
from tests.local.command_line import CALM_S, Local

MANIFESTS = "---\n".join(
    f"apiVersion: cooperator.dev/v1alpha1\nkind: {kind}\nmetadata: {{name: {name}}}\nspec: {{{spec}}}\n"
    for kind, name, spec in (
        ("Worker", "lake", "replicas: 2"),
        ("Connector", "a", "workerRef: {name: lake}, class: noop"),
        ("Connector", "b", "workerRef: {name: lake}, class: noop"),
    )
)
RUNNING = (
    *MANIFESTS.replace("replicas: 2", "replicas: 1").split("---\n")[:1],
    MANIFESTS.split("---\n")[1].replace("class: noop", "class: noop, tasksMax: 4, config: {units: 8}"),
)
RESOURCES = parse(MANIFESTS, "manifests.yaml")
LAKE = Key("Worker", "default", "lake")
MOST_PAGES = 12
OF_ANOTHER = "the number of another process"
"""More than any of the operations needs."""
LOCKS = {".lock", "host.lock"}
"""Files that may be made although nothing else can be written; they have no contents of their own."""


@dataclass(frozen=True)
class Operation:
    """``prepare`` is done with space; ``act`` without it, and again with it. ``leaves`` shows the effect."""

    act: Callable[[StateDir], object]
    leaves: Callable[[StateDir], object]
    prepare: Callable[[StateDir], object] = lambda state: None
    is_all_or_nothing: bool = True


def store(state: StateDir) -> ManifestStore:
    return ManifestStore(state, lambda: 0)


def members(state: StateDir) -> MemberProcesses:
    return MemberProcesses(state.worker("default", "lake").members, lambda: 1)


def created(state: StateDir) -> None:
    """A member that runs, made by this or by an earlier call."""
    ours = members(state)
    if all(process.ended for process in ours.observe().values()):
        process = ours.create("lake-0", "r1", lambda incarnation: ["sleep", "600"])
        # Others know it by its mark, which it does not carry at once.
        eventually(lambda: processes.is_marked(process.pid or 0, process.incarnation), what="the mark")


def mark(state: StateDir) -> None:
    members(state).mark("lake-0", member(state).incarnation, "Roll")


def member(state: StateDir) -> ProcessIncarnation:
    return members(state).observe()["lake-0"]


def end_seen(state: StateDir) -> None:
    """Its end is seen by the process that started it, which alone knows the exit code."""
    ours = members(state)
    process = ours.create("lake-0", "r1", lambda incarnation: ["sh", "-c", "exit 3"])
    ENDED[state.root] = ours
    child = ours._children[process.incarnation]
    eventually(lambda: child.poll() is not None, what="it has ended")


ENDED: dict[Path, MemberProcesses] = {}


def observed(state: StateDir) -> None:
    worker = RESOURCES[0]
    assert isinstance(worker, Worker)
    ours = [each for each in RESOURCES if isinstance(each, Connector)]
    platform = LocalPlatform(
        state.worker("default", "lake"),
        "local",
        "127.0.0.1:9",
        lambda *arguments: ["sleep", "600"],
        members(state),
        Wanted(worker, tuple(ours), Goal.RUN),
    )
    try:
        platform.observe({})
    except PlatformError as error:
        # The loop logs it once, and takes its next step.
        raise error.__cause__ or error from None


def locked(state: StateDir) -> None:
    with host_lock(state) as ours:
        assert ours
        assert host_pid(state) == os.getpid()


OPERATIONS: Mapping[str, Operation] = {
    "settings": Operation(
        lambda state: write_json(state.cluster, {"id": "x" * 9_000}), lambda state: read_json(state.cluster)
    ),
    "settings again": Operation(
        lambda state: write_json(state.cluster, {"id": "new"}),
        lambda state: read_json(state.cluster),
        lambda state: write_json(state.cluster, {"id": "old"}),
    ),
    "several files": Operation(
        lambda state: write_all({state.root / name: "y" * 5_000 for name in "abc"}),
        lambda state: [(state.root / name).read_text() for name in "abc"],
    ),
    "token": Operation(make_token, lambda state: make_token(state) == state.host_token.read_text()),
    "lock": Operation(locked, lambda state: True),
    "apply": Operation(
        lambda state: store(state).apply(RESOURCES, "m"),
        lambda state: [Key.of(each) for each in store(state).read().resources],
    ),
    "scale": Operation(
        lambda state: store(state).scale(LAKE, 7),
        lambda state: [worker.spec.replicas for worker in store(state).read().workers],
        lambda state: store(state).apply(RESOURCES, "m"),
    ),
    "bind": Operation(
        lambda state: store(state).read_and_bind(),
        lambda state: sorted(store(state).read().bound.values()),
        lambda state: store(state).apply(RESOURCES, "m"),
        is_all_or_nothing=False,
    ),
    "start a member": Operation(
        created,
        lambda state: (member(state).ended, member(state).pid is not None),
        is_all_or_nothing=False,
    ),
    "mark a member": Operation(mark, lambda state: member(state).marked_for, created),
    "see a member's end": Operation(
        lambda state: ENDED[state.root].observe(), lambda state: member(state).exit_code, end_seen
    ),
    "observe": Operation(observed, lambda state: state.worker("default", "lake").manifest.read_text()),
}


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with small_disk(tmp_path / "disk", 1) as disk:
        yield disk
        for state in disk.root.glob("*/workers"):
            for process in members(StateDir(state.parent)).observe().values():
                processes.kill_all(process.incarnation)


def contents(root: Path) -> dict[str, bytes]:
    files = (path for path in root.rglob("*") if path.is_file() and path.name not in LOCKS)
    return {str(path.relative_to(root)): path.read_bytes() for path in files}


@pytest.mark.parametrize("name", OPERATIONS)
def test_without_space_it_says_so_and_with_space_it_goes_on(disk: SmallDisk, name: str) -> None:
    operation = OPERATIONS[name]
    refusals = 0
    for free_pages in range(MOST_PAGES + 1):
        state = StateDir(disk.root / f"state-{free_pages}")
        state.root.mkdir()
        operation.prepare(state)
        before = contents(state.root)
        disk.fill(free_pages)
        refusal = refused(operation, state)
        if refusal:
            refusals += 1
            assert str(state.root) in refusal
            assert "No space left on device: free space on its file system, and try again" in refusal
            after = contents(state.root)
            assert not [path for path in after if path.endswith(".part")]
            assert after == before or not operation.is_all_or_nothing
        disk.free()
        operation.act(state)
        assert operation.leaves(state) == expected(disk, operation), "as if there had always been space"
    assert 0 < refusals <= MOST_PAGES, "it was refused without space, and not with enough of it"


def refused(operation: Operation, state: StateDir) -> str:
    try:
        operation.act(state)
    except StorageError as error:
        return str(error)
    return ""


def expected(disk: SmallDisk, operation: Operation) -> object:
    state = StateDir(disk.root / "unlimited")
    if not state.root.exists():
        state.root.mkdir()
        operation.prepare(state)
        operation.act(state)
    return operation.leaves(state)


@pytest.mark.real
def test_a_cluster_on_a_full_disk_says_so_and_goes_on_once_there_is_space(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 256) as disk:
        local = Local(disk.root, "lake")
        try:
            disk.fill()
            said = local("up", code=1)
            assert "No space left on device: free space on its file system" in said
            assert "Traceback" not in said
            disk.free()

            local("up")
            local.apply("---\n".join(RUNNING))
            before = local.settled()

            disk.fill()
            broker = EmbeddedBroker(local.state.broker, detached=True)
            broker.kill()
            eventually(lambda: "the broker does not run" in local("get", "workers"), CALM_S)
            assert "No space left on device" in local("get", "workers")
            disk.fill()
            assert "No space left on device" in local("scale", "worker", "lake", "--replicas", "2", code=1)
            assert not broker._pid_file.exists(), "nothing is half-written"

            disk.free()
            eventually(lambda: broker.pid is not None, CALM_S, "the broker is started again")
            assert local.settled() == before
            eventually(lambda: "the broker does not run" not in local("get", "workers"), CALM_S)

            disk.fill()
            assert "members are killed instead of being asked to end" in local("down")
            assert broker.pid is None
            disk.free()
            local("up")
            assert local.settled() == before
        finally:
            disk.free()
            kill_everything(local.state)


@pytest.mark.real
@pytest.mark.parametrize("left", ["", "not a number\n", OF_ANOTHER, None])
def test_a_broker_whose_number_was_not_written_down_is_found(tmp_path: Path, left: str | None) -> None:
    broker = EmbeddedBroker(tmp_path / "broker", detached=True)
    broker.start()
    pid = broker.pid
    try:
        if left is None:
            broker._pid_file.unlink()
        else:
            broker._pid_file.write_text(f"{os.getpid()}\n" if left == OF_ANOTHER else left)
        later = EmbeddedBroker(tmp_path / "broker", detached=True)
        assert later.pid is None
        later.start()
        assert later.pid == pid
        assert broker._pid_file.read_text() == f"{pid}\n"
        broker._pid_file.write_text(left or "")
    finally:
        EmbeddedBroker(tmp_path / "broker", detached=True).stop()
    # The main thread may have ended before the others, until which nobody can reap it.
    eventually(lambda: broker.pid is None, what="the broker has ended")


def test_files_of_the_local_mode_are_only_written_where_a_full_disk_is_expected() -> None:
    """Each call that may need space is in ``layout``, or inside ``with writing(…)``."""
    found: list[str] = []
    for path in Path(cooperator.local.__file__).parent.glob("*.py"):
        if path.name != "layout.py":
            found += [f"{path.name}:{line}" for line in _unguarded(ast.parse(path.read_text()), False)]
    assert found == []


def _unguarded(node: ast.AST, is_guarded: bool) -> Iterator[int]:
    if isinstance(node, ast.With):
        is_guarded = is_guarded or any("writing(" in ast.unparse(item.context_expr) for item in node.items)
    if isinstance(node, ast.Call) and not is_guarded and _writes(node):
        yield node.lineno
    for child in ast.iter_child_nodes(node):
        yield from _unguarded(child, is_guarded)


def _writes(call: ast.Call) -> bool:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    modes = [each.value for each in call.args if isinstance(each, ast.Constant)]
    opens = name == "open" and any(str(mode).rstrip("b+t") in ("w", "a", "x") for mode in modes)
    return opens or name in ("write_text", "write_bytes", "mkdir", "touch", "truncate")
