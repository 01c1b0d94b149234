"""Runs the demo: text of the installed packages flows through Kafka into a lake of parquet files.

Three members run the job, and one of them is killed in mid-stream; in the end the output is compared with the
input.
"""

import shutil
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from cooperator.crd import Resource, Worker, parse
from cooperator.demo import job
from cooperator.demo.check import (
    Content,
    DemoVerdict,
    SinkCounter,
    compare,
    content_of_lake,
    content_of_sources,
)
from cooperator.demo.guard import nothing_left
from cooperator.demo.live import DemoView, Show
from cooperator.demo.sources import collect
from cooperator.demo.watch import DemoHistory, DemoKill, Findings, judge
from cooperator.local import processes
from cooperator.local.daemon import HostAway, ask_host
from cooperator.local.layout import StateDir
from cooperator.local.lifecycle import ProgressOutput, bring_down, bring_up, kill_everything
from cooperator.local.store import ManifestStore
from cooperator.logs import LogsConfig, open_logs
from cooperator.model import TaskId
from cooperator.model.extras import Extra, require
from cooperator.terminal.console import Screen

FILES: Final = 1_600
LINES: Final = 250_000
HOLD_MS: Final = 60_000
_LOOK_S: Final = 0.5
_KILL_AT: Final = 0.3
_STALL_S: Final = 150.0
"""If no row arrives for this long, something is wrong, and waiting longer would not help."""
_LINGER_S: Final = 6.0
"""Longer than a trigger: a row that is written twice would show up by then."""
_BACK_S: Final = 2 * HOLD_MS / 1000
"""All rows may be there before the killed member is back, or its tasks are elsewhere."""


class DemoFailed(Exception):
    """The job did not finish; the text has the last observations."""


@dataclass(slots=True)
class DemoRun:
    """The state of the running demo."""

    began: float
    expected: Content
    history: DemoHistory
    lake: SinkCounter
    story: list[str] = field(default_factory=list)
    kill: DemoKill | None = None
    killed_at: float = 0.0
    held_from: float | None = None
    held_to: float | None = None
    last: dict[str, Any] = field(default_factory=dict)
    rows: int = 0

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.began


def run_demo(
    directory: Path,
    console: ProgressOutput,
    screen: Screen,
    files: int = FILES,
    lines: int = LINES,
    members: int = job.MEMBERS,
) -> int:
    """Runs the job in ``directory`` (emptied first) on at least ``files`` files and ``lines`` lines.

    Returns 0 when everything was right, else 1. Leaves no process behind. Raises ``DemoFailed`` when the job
    does not finish, and the errors of ``bring_up``.
    """
    require(Extra.SPARK, "`cooperator demo`")
    state = StateDir(directory.absolute())
    if state.root.exists():
        kill_everything(state)
        shutil.rmtree(state.root)
    began = time.monotonic()
    sources, lake = state.root / "sources", state.root / "lake"
    with console.step("input: text of the installed packages") as detail:
        selection = collect(sources, lines, files)
        expected = content_of_sources(sources)
        detail(f"{selection.files:,} files, {expected.count:,} lines, {selection.bytes / 1e6:.1f} MB")
    with nothing_left(state):
        bring_up(state, None, console)
        manifest = state.root / "job.yaml"
        manifest.write_text(job.manifests(sources, selection.files, lake, HOLD_MS, members))
        store = ManifestStore(state, lambda: time.time_ns() // 1_000_000)
        resources = parse(manifest.read_text(), manifest.name)
        # Tasks that run before all members are warm may move once afterwards; the demo is to show only the
        # kill.
        _apply(store, [each for each in resources if isinstance(each, Worker)], manifest.name, console)
        with console.step("members join"):
            _await_members(state, members)
        _apply(store, [each for each in resources if not isinstance(each, Worker)], manifest.name, console)
        run = DemoRun(began, expected, DemoHistory(), SinkCounter(lake))
        with _status_records(state, run.history.take), Show(screen) as show:
            _watch(run, state, show)
        bring_down(state, console)
    with console.step("compare the output with the input"):
        came_out, lengths = content_of_lake(lake)
        verdict = compare(expected, came_out, lengths)
    findings = judge(run.history, run.kill)
    _report(run, came_out, verdict, findings, screen)
    screen.print(
        f"\nThe lake: {lake}\nThe manifests: {manifest}\nIt took {run.seconds:.0f} s.", soft_wrap=True
    )
    right = verdict.exact and not findings.needless and not findings.unstarted and run.kill is not None
    return 0 if right else 1


def _apply(store: ManifestStore, resources: Sequence[Resource], source: str, console: ProgressOutput) -> None:
    for key, change in store.apply(resources, source):
        console.say(f"{key} {change.value}")


def _await_members(state: StateDir, members: int) -> None:
    deadline, shown = time.monotonic() + _STALL_S, DemoView()
    while shown.warm < members:
        if time.monotonic() > deadline:
            raise DemoFailed(
                f"the members have not joined with Spark running within {_STALL_S:.0f} s:\n{_failures(shown)}"
            )
        time.sleep(_LOOK_S)
        with suppress(HostAway):
            shown = DemoView(ask_host(state))


def _watch(run: DemoRun, state: StateDir, show: Show) -> None:
    """Observes and reports until every row is in the lake, and kills one member on the way."""
    arrived, arrived_at, complete_at = -1, time.monotonic(), None
    while True:
        try:
            run.last = ask_host(state)
        except HostAway:
            run.story.append("the host daemon does not answer")
        run.rows = run.lake.count()
        shown = DemoView(run.last, (run.rows, run.expected.count), run.seconds, run.story)
        _tell(run, shown)
        show.show(shown)
        now = time.monotonic()
        if run.rows != arrived:
            arrived, arrived_at = run.rows, now
        elif now - arrived_at > _STALL_S:
            raise DemoFailed(f"no row has arrived for {_STALL_S:.0f} s; last seen:\n{_failures(shown)}")
        if run.kill is None and run.rows >= _KILL_AT * run.expected.count and _all_run(shown):
            run.kill, run.killed_at = _kill(run, shown), time.monotonic()
        if run.rows >= run.expected.count:
            complete_at = complete_at or now
            is_back = run.kill is None or (run.held_to is not None and _all_run(shown))
            if now - complete_at > (_LINGER_S if is_back else _BACK_S):
                return
        time.sleep(_LOOK_S)


def _tell(run: DemoRun, shown: DemoView) -> None:
    """Adds new events of the view to the story."""
    story = run.story
    if not story and _all_run(shown):
        story.append(f"{len(shown.members)} members run {len(shown.tasks)} connectors and tasks")
    if run.kill is None:
        return
    held = [task for task in shown.tasks if task["state"] == "HELD"]
    if held and run.held_from is None:
        run.held_from = time.monotonic()
        story.append(f"{len(held)} tasks are held for {held[0]['held_for']}; other members are not affected")
    if run.held_from is not None and run.held_to is None and not held:
        run.held_to = time.monotonic()
        mine = {TaskId(t["connector"], t["task"]) for t in shown.tasks if t["member"] == run.kill.member}
        what = "exactly its own tasks" if mine == run.kill.tasks else f"{len(mine)} tasks"
        after_s = run.held_to - run.killed_at
        story.append(f"{run.kill.member} is back after {after_s:.0f} s and has {what} again")


def _kill(run: DemoRun, shown: DemoView) -> DemoKill:
    """Kills the member that runs the most, by kill -9."""
    runs = {
        member["name"]: frozenset(
            TaskId(t["connector"], t["task"]) for t in shown.tasks if t["member"] == member["name"]
        )
        for member in shown.members
    }
    victim = max(shown.members, key=lambda member: len(runs[member["name"]]))
    processes.signal_group(victim["pid"], victim["incarnation"], signal.SIGKILL)
    name = victim["name"]
    run.story.append(f"kill -9 {victim['pid']}: {name} dies with {len(runs[name])} tasks in mid-stream")
    return DemoKill(name, time.time_ns() // 1_000_000, runs[name])


def _all_run(shown: DemoView) -> bool:
    wanted = job.SOURCE_TASKS + job.ARCHIVE_TASKS + 2
    return len(shown.tasks) == wanted == shown.count("RUNNING")


def _failures(shown: DemoView) -> str:
    lines = [f"{t['name']}: {t['state']} on {t['member']} {t['trace'][:2000]}" for t in shown.tasks]
    lines += [f"{m['name']}: {m['phase']} {m['message']}" for m in shown.members]
    for group in shown.view.get("groups", ()):
        lines += [f"{c['type']}={c['status']}: {c['message']}" for c in group.get("conditions", ())]
    return "\n".join(lines)


@contextmanager
def _status_records(state: StateDir, take: Callable[[Any], None]) -> Iterator[None]:
    """Calls ``take`` with every status record of the members."""
    group_id = f"cooperator-default.{job.WORKER}"
    logs = open_logs(LogsConfig(ask_host(state)["bootstrap_servers"], group_id))
    logs.status.on_change(take)
    try:
        yield
    finally:
        logs.close()


def _report(run: DemoRun, lake: Content, verdict: DemoVerdict, findings: Findings, screen: Screen) -> None:
    counters = run.last["groups"][0].get("counters", {}) if run.last.get("groups") else {}
    rows = {
        "rows in": f"{run.expected.count:,}  (content {run.expected.digest})",
        "rows out": f"{lake.count:,}  (content {lake.digest})",
        "missing, doubled": f"{verdict.missing}, {verdict.doubled}",
        "computed columns": "right" if verdict.derived_right else "WRONG",
        "rebalances": str(counters.get("rebalances", "?")),
        "tasks moved": str(findings.moved),
        "needless restarts": str(findings.needless),
        **_hold(run, findings),
    }
    if findings.unstarted:
        rows["tasks not restarted"] = str(findings.unstarted)
    screen.print()
    for name, value in rows.items():
        screen.print(f"  {name:<30} {value}")


def _hold(run: DemoRun, findings: Findings) -> dict[str, str]:
    if run.kill is None or run.held_to is None:
        return {"held": "nothing"}
    lost = len(run.kill.tasks)
    held_s = run.held_to - run.killed_at
    return {
        "held": f"{lost} tasks of {run.kill.member} for {held_s:.1f} s, from its death to its return",
        "unassigned task-seconds": f"{lost * held_s:.1f}",
        "task-seconds without progress": f"{findings.idle_task_seconds:.1f}  (until Spark ran them again)",
    }
