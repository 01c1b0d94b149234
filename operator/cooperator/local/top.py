"""``cooperator local top``: members, tasks, rebalances, live. The picture is pure, the command shows it."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any, Final

import typer
from rich.console import Console as RichConsole
from rich.console import Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from cooperator.host.progress import report_of, reported, total
from cooperator.local.console import Console
from cooperator.local.daemon import HostAway, ask_host
from cooperator.local.options import DEFAULT_STATE, StateOption, errors_said, existing_state
from cooperator.local.tables import Row, age, task_words, until

_COLOURS: Final = {
    "RUNNING": "green",
    "Running": "green",
    "HELD": "yellow",
    "RESTARTING": "yellow",
    "STARTING": "yellow",
    "STOPPING": "yellow",
    "Pending": "yellow",
    "Warming": "yellow",
    "Draining": "yellow",
    "PAUSED": "dim",
    "UNASSIGNED": "dim",
    "FAILED": "red",
    "Ended": "red",
    "Stalled": "red",
}
_FIRST: Final = ("FAILED", "HELD", "RESTARTING", "UNASSIGNED", "STOPPING", "STARTING")
"""What somebody should look at stands above what runs, since a terminal ends somewhere."""
_REBALANCES: Final = 5
_WIDE: Final = 400


def top(
    once: Annotated[bool, typer.Option("--once", help="Print one picture and end.")] = False,
    interval_s: Annotated[
        float, typer.Option("--interval", help="Seconds between two looks.", min=0.2, max=3600)
    ] = 1.0,
    state: StateOption = DEFAULT_STATE,
) -> None:
    """Watch members, tasks, holds, failures and rebalances. Ends with Ctrl-C, and leaves no trace."""
    with errors_said(Console()):
        directory = existing_state(state)

        def look() -> Mapping[str, Any]:
            try:
                return ask_host(directory)
            except HostAway as error:
                raise NotAnswering("the daemon does not answer") from error

        try:
            show(look, once, interval_s)
        except NotAnswering as error:
            raise HostAway from error


class NotAnswering(Exception):
    """Nobody tells how things are now; the text says who."""


def show(look: Callable[[], Mapping[str, Any]], once: bool, interval_s: float) -> None:
    """Show what ``look`` gives (see ``picture``), once, or again and again on a terminal.

    Raises NotAnswering of the first look; later ones are shown above the last picture.
    """
    view = look()
    screen = RichConsole(highlight=False)
    if not screen.is_terminal:
        # Nothing ends at its 80th column there.
        screen.width = _WIDE
    if once or not screen.is_terminal:
        screen.print(picture(view), soft_wrap=True)
        return
    try:
        # The terminal's other screen: what was there before is back at the end.
        with Live(console=screen, screen=True, auto_refresh=False) as live:
            live.update(picture(view), refresh=True)
            while True:
                time.sleep(interval_s)
                trouble = ""
                try:
                    view = look()
                except NotAnswering as error:
                    trouble = f"{error}: as of {age(view['at_ms'], _now_ms())} ago"
                live.update(picture(view, trouble), refresh=True)
    except KeyboardInterrupt:
        raise typer.Exit(130) from None


def picture(view: Mapping[str, Any], trouble: str = "") -> RenderableType:
    """``view``: of the daemon (see ``view.state_view``); times are told as of its ``at_ms``."""
    now_ms: int = view["at_ms"]
    parts: list[RenderableType] = [_summary(view)]
    if trouble:
        parts.append(Text(trouble, style="red"))
    parts += [Text(), _members(view["members"], now_ms), Text(), _rebalances(view["groups"], now_ms)]
    return Group(*parts, Text(), _tasks(view["tasks"], now_ms))


def _summary(view: Mapping[str, Any]) -> Text:
    tasks: Sequence[Row] = view["tasks"]
    members = [member["phase"] for member in view["members"]]
    words = [
        time.strftime("%H:%M:%S", time.localtime(view["at_ms"] / 1000)),
        f"{members.count('Running')} of {len(members)} members run",
    ]
    states = [task["state"] for task in tasks]
    words.append(f"{states.count('RUNNING')} of {len(states)} tasks run")
    words += [f"{states.count(state)} {state}" for state in dict.fromkeys(_FIRST) if state in states]
    reports = [report for task in tasks if (report := _report(task))]
    if any("rows_per_s" in report for report in reports):
        words.append(f"{sum(report.get('rows_per_s', 0) for report in reports):,.0f} rows/s")
    lag = total(reported(task).lag for task in tasks)
    if lag is not None:
        words.append(f"{lag:,} behind")
    return Text(", ".join(words), style="bold")


def _members(members: Iterable[Row], now_ms: int) -> Table:
    table = _table("MEMBER", "WORKER", "PHASE", "TASKS", "RESTARTS", "AGE", "MESSAGE")
    for member in members:
        table.add_row(
            member["name"],
            member["worker"],
            _coloured(member["phase"]),
            str(member["tasks"]),
            str(member["restarts"]),
            age(member.get("started_ms"), now_ms),
            Text(member.get("message", "")),
        )
    return table


def _tasks(tasks: Iterable[Row], now_ms: int) -> Table:
    table = _table("TASK", "WORKER", "STATE", "MEMBER", "ROWS/S", "LAG", "REPORTED", "WHAT")
    rank = {state: number for number, state in enumerate(_FIRST)}
    for task in sorted(tasks, key=lambda t: rank.get(t["state"], len(rank))):
        report = _report(task)
        what = task_words(task, now_ms)
        if task["state"] == "HELD":
            what = f"for {task['held_for']}, {until(task['held_until_ms'], now_ms)} ({task['held_reason']})"
        elif task.get("reason"):
            what = f"{task['reason']}: {what}"
        table.add_row(
            task["name"],
            task["worker"],
            _coloured(task["state"]),
            task["member"] or "",
            f"{report['rows_per_s']:,.0f}" if "rows_per_s" in report else "",
            "" if (lag := reported(task).lag) is None else f"{lag:,}",
            age(task.get("at_ms") or None, now_ms),
            Text(what),
        )
    return table


def _rebalances(groups: Iterable[Row], now_ms: int) -> Table:
    table = _table("REBALANCE", "WORKER", "AGO", "ASSIGNED", "REVOKED", "MOVED", "HELD", "WHY")
    rounds = [(group["worker"], one) for group in groups for one in group.get("rebalances", ())]
    rounds.sort(key=lambda pair: -int(pair[1]["at_ms"]))
    for worker, one in rounds[:_REBALANCES]:
        table.add_row(
            str(one["generation"]),
            worker,
            age(one["at_ms"], now_ms),
            *(str(one.get(name, "")) for name in ("assigned", "revoked", "moved", "held")),
            Text(one["cause"]),
        )
    return table


def _table(*headers: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for header in headers:
        table.add_column(header, no_wrap=True)
    return table


def _report(task: Row) -> Mapping[str, Any]:
    """The progress of a task that runs; empty when it tells none."""
    return report_of(task) if task["state"] == "RUNNING" else {}


def _coloured(state: str) -> Text:
    return Text(state, style=_COLOURS.get(state, ""))


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
