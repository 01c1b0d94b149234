"""A live view of members, tasks and rebalances, for the commands ``top``. ``picture`` is pure."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import typer
from rich.console import Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from cooperator.host.progress import reported, total
from cooperator.model.visible import visible_line
from cooperator.terminal.console import Screen
from cooperator.terminal.tables import Row, age, is_old, task_words, until

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
"""These states need attention: they come first, since a terminal's height is limited."""
_REBALANCES: Final = 5
_WIDE: Final = 400


class NotAnswering(Exception):
    """The current state is not available; the text names the process that does not answer."""


def show(look: Callable[[], Mapping[str, Any]], once: bool, interval_s: float) -> None:
    """Shows what ``look`` returns (see ``picture``), once, or repeatedly on a terminal.

    Raises ``NotAnswering`` for the first look; later ones are shown above the last picture.
    """
    view = look()
    screen = Screen()
    if not screen.is_terminal:
        # Without a terminal, lines do not end at the 80th column.
        screen.width = _WIDE
    if once or not screen.is_terminal:
        screen.print(picture(view), soft_wrap=True)
        return
    try:
        # The alternate screen restores the terminal's contents at the end.
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
    """Renders ``view``, the daemon's (see ``view.state_view``); ages are relative to its ``at_ms``."""
    now_ms: int = view["at_ms"]
    parts: list[RenderableType] = [_summary(view)]
    if trouble:
        parts.append(_text(trouble, "red"))
    parts += [Text(), _members(view["members"], now_ms), Text(), _rebalances(view["groups"], now_ms)]
    return Group(*parts, Text(), _tasks(view["tasks"], now_ms))


def _summary(view: Mapping[str, Any]) -> Text:
    tasks: Sequence[Row] = view["tasks"]
    statuses: list[Row] = [worker.get("status") or {} for worker in view["workers"]]
    counts: list[Row] = [status.get("tasks") or {} for status in statuses]
    members = sum(worker["spec"]["replicas"] for worker in view["workers"])
    words = [
        time.strftime("%H:%M:%S", time.localtime(view["at_ms"] / 1000)),
        f"{_sum(statuses, 'readyReplicas')} of {members} members run",
        f"{_sum(counts, 'running')} of {_sum(counts, 'desired')} tasks run",
    ]
    states = [task["state"] for task in tasks if task["task"] >= 0]
    for state in dict.fromkeys(_FIRST):
        # A Connector's status lists its first hundred tasks; these two are counted over all.
        counted = _sum(counts, state.lower()) if state in ("FAILED", "HELD") else states.count(state)
        words += [f"{counted} {state}"] if counted not in (0, "?") else []
    now_ms: int = view["at_ms"]
    reports = [reported(task, now_ms) for task in tasks]
    unlisted: Sequence[Row] = view.get("unlisted", ())
    rates = (*(r.rows_per_second for r in reports), *(more.get("rows_per_second") for more in unlisted))
    rate, expired = total(rates), sum(r.is_expired for r in reports)
    if rate is not None:
        words.append(f"{rate:,} rows/s")
    if expired:
        words.append(f"{expired} {'rate' if expired == 1 else 'rates'} unknown")
    lag = total((*(report.lag for report in reports), *(more.get("lag") for more in unlisted)))
    if lag is not None:
        words.append(f"{lag:,} behind{_oldest(tasks, now_ms)}")
    return Text(", ".join(words), style="bold")


def _sum(rows: Iterable[Row], name: str) -> int | str:
    """Returns the sum over all rows; ``?`` if one lacks the number."""
    found = [row.get(name) for row in rows]
    return "?" if None in found else sum(filter(None, found))


def _oldest(tasks: Iterable[Row], now_ms: int) -> str:
    """Returns the age of the oldest lag in the sum, if it is old."""
    since_ms = [
        task.get("at_ms") or 0 for task in tasks if reported(task, now_ms).lag and is_old(task, now_ms)
    ]
    if not since_ms:
        return ""
    return f" (some as of {age(min(since_ms), now_ms)} ago)" if min(since_ms) else " (some of unknown age)"


def _members(members: Iterable[Row], now_ms: int) -> Table:
    table = _table("MEMBER", "WORKER", "PHASE", "TASKS", "RESTARTS", "AGE", "MESSAGE")
    for member in members:
        table.add_row(
            _text(member["name"]),
            _text(member["worker"]),
            _coloured(member["phase"]),
            str(member["tasks"]),
            str(member["restarts"]),
            age(member.get("started_ms"), now_ms),
            _text(member.get("message", "")),
        )
    return table


def _tasks(tasks: Iterable[Row], now_ms: int) -> Table:
    table = _table("TASK", "WORKER", "STATE", "MEMBER", "ROWS/S", "LAG", "REPORTED", "WHAT")
    rank = {state: number for number, state in enumerate(_FIRST)}
    for task in sorted(tasks, key=lambda t: rank.get(t["state"], len(rank))):
        report = reported(task, now_ms)
        what = task_words(task, now_ms)
        if task["state"] == "HELD":
            what = f"for {task['held_for']}, {until(task['held_until_ms'], now_ms)} ({task['held_reason']})"
        elif task.get("reason"):
            what = f"{task['reason']}: {what}"
        table.add_row(
            _text(task["name"]),
            _text(task["worker"]),
            _coloured(task["state"]),
            _text(task["member"] or ""),
            "?" if report.is_expired else _number(report.rows_per_second),
            _number(report.lag),
            age(task.get("at_ms") or None, now_ms),
            _text(what),
        )
    return table


def _rebalances(groups: Iterable[Row], now_ms: int) -> Table:
    table = _table("REBALANCE", "WORKER", "AGO", "ASSIGNED", "REVOKED", "MOVED", "HELD", "WHY")
    rounds = [(group["worker"], one) for group in groups for one in group.get("rebalances", ())]
    rounds.sort(key=lambda pair: -int(pair[1]["at_ms"]))
    for worker, one in rounds[:_REBALANCES]:
        table.add_row(
            str(one.get("epoch") or one["generation"]),
            _text(worker),
            age(one["at_ms"], now_ms),
            *(str(one.get(name, "")) for name in ("assigned", "revoked", "moved", "held")),
            _text(one["cause"]),
        )
    return table


def _table(*headers: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for header in headers:
        table.add_column(header, no_wrap=True)
    return table


def _number(value: int | None) -> str:
    return "" if value is None else f"{value:,}"


def _coloured(state: str) -> Text:
    return _text(state, _COLOURS.get(state, ""))


def _text(text: str, style: str = "") -> Text:
    """One line; it is escaped before its width is measured."""
    return Text(visible_line(text), style=style)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
