"""The display of the running demo: a live picture on a terminal, lines elsewhere."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final, Self

from rich.columns import Columns
from rich.console import Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from cooperator.model.text import counted
from cooperator.terminal.console import Screen
from cooperator.terminal.tables import name_of, task_words

_COLOURS: Final = {
    "RUNNING": "green",
    "Running": "green",
    "HELD": "yellow",
    "Pending": "yellow",
    "Warming": "yellow",
    "UNASSIGNED": "dim",
    "STARTING": "yellow",
    "FAILED": "red",
    "Ended": "red",
}
_LINE_EVERY_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class DemoView:
    """One moment of the demo.

    ``view`` is the daemon's (see ``view``), empty before it answers. ``rows`` is (committed in the lake,
    expected). ``seconds`` counts from the beginning. ``story`` lists the events, newest last.
    """

    view: Mapping[str, Any] = field(default_factory=dict)
    rows: tuple[int, int] = (0, 0)
    seconds: float = 0.0
    story: Sequence[str] = ()

    @property
    def tasks(self) -> Sequence[Mapping[str, Any]]:
        tasks: Sequence[Mapping[str, Any]] = self.view.get("tasks", ())
        return tasks

    @property
    def members(self) -> Sequence[Mapping[str, Any]]:
        members: Sequence[Mapping[str, Any]] = self.view.get("members", ())
        return members

    @property
    def joined(self) -> int:
        """Number of members in the group."""
        return sum(member["phase"] in ("Running", "Warming", "Stalled") for member in self.members)

    @property
    def warm(self) -> int:
        """Number of members whose runtime is up."""
        return sum(member["phase"] == "Running" for member in self.members)

    def count(self, state: str) -> int:
        return sum(task["state"] == state for task in self.tasks)


class Show:
    """Renders frames until the context ends."""

    def __init__(self, console: Screen) -> None:
        self._console = console
        self._live = (
            Live(console=console, refresh_per_second=4, transient=True) if console.is_terminal else None
        )
        self._shown = 0
        self._line_at = float("-inf")

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, shown: DemoView) -> None:
        for event in shown.story[self._shown :]:
            self._console.print(Text(f"{_clock(shown.seconds)} {event}", style="bold"), soft_wrap=True)
        self._shown = len(shown.story)
        if self._live is not None:
            self._live.update(picture(shown))
        elif shown.seconds - self._line_at >= _LINE_EVERY_S:
            self._line_at = shown.seconds
            self._console.print(line(shown), soft_wrap=True)


def line(shown: DemoView) -> str:
    """Renders one view as one line."""
    committed, expected = shown.rows
    words = [counted(shown.joined, "member"), f"{shown.count('RUNNING')} of {len(shown.tasks)} tasks run"]
    held = [task for task in shown.tasks if task["state"] == "HELD"]
    if held:
        words.append(f"{len(held)} held for {held[0]['held_for']}, {_left(held[0], shown)}")
    words.append(f"{committed:,} of {expected:,} rows in the lake")
    return f"{_clock(shown.seconds)} {', '.join(words)}"


def picture(shown: DemoView) -> RenderableType:
    committed, expected = shown.rows
    bar = Columns(
        [
            Text(f"{_clock(shown.seconds)}  rows in the lake: {committed:,} of {expected:,} "),
            ProgressBar(total=max(expected, 1), completed=committed, width=30),
        ]
    )
    return Group(Text(), bar, Text(), _members(shown), Text(), _tasks(shown), Text(), _rebalances(shown))


def _members(shown: DemoView) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for header in ("MEMBER", "PHASE", "PROCESS", "RUNS"):
        table.add_column(header, no_wrap=True)
    for member in shown.members:
        runs = [task["name"] for task in shown.tasks if task["member"] == member["name"]]
        table.add_row(
            member["name"], _coloured(member["phase"]), str(member["pid"] or ""), ", ".join(sorted(runs))
        )
    return table


def _tasks(shown: DemoView) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for header in ("TASK", "STATE", "MEMBER", "PROGRESS"):
        table.add_column(header, no_wrap=True)
    for task in shown.tasks:
        state = _coloured(task["state"])
        if task["state"] == "HELD":
            state.append(f" for {task['held_for']}, {_left(task, shown)}")
        words = task_words(task, shown.view["at_ms"])[:100]
        table.add_row(task["name"], state, task["member"] or "", Text(words))
    return table


def _rebalances(shown: DemoView) -> Text:
    rounds = [round_ for group in shown.view.get("groups", ()) for round_ in group.get("rebalances", ())]
    lines = ["last rebalances:"]
    for last in rounds[-3:]:
        lines.append(
            f"  {name_of(last)}: {last['assigned']} assigned, {last['revoked']} revoked, "
            f"{last['moved']} moved, {last['held']} held ({last['cause']})"
        )
    return Text("\n".join(lines), style="dim")


def _coloured(state: str) -> Text:
    return Text(state, style=_COLOURS.get(state, ""))


def _left(task: Mapping[str, Any], shown: DemoView) -> str:
    left_s = max(0, (task["held_until_ms"] - shown.view["at_ms"]) // 1000)
    return f"{left_s} s left"


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"
