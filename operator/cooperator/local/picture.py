"""``cooperator local picture``: tasks by time, coloured by member, as SVG; needs the extra ``pictures``."""

import time
from collections.abc import Sequence
from datetime import UTC
from pathlib import Path
from typing import Annotated, Final

import typer

from cooperator.local.daemon import ask_host
from cooperator.local.history import history_of
from cooperator.local.layout import ClusterError
from cooperator.local.options import (
    DEFAULT_STATE,
    NamespaceOption,
    StateOption,
    errors_said,
    existing_state,
)
from cooperator.logs import LogHistory
from cooperator.model.extras import Extra, require
from cooperator.model.text import counted
from cooperator.terminal.console import Console, write
from cooperator.terminal.timeline import Stretch, StretchKind, stretches

_COLOURS: Final = ("#4c72b0", "#dd8452", "#55a868", "#8172b3", "#937860", "#da8bc3", "#8c8c8c", "#64b5cd")
_FAILED: Final = "#c44e52"
_DAY_MS: Final = 86_400_000
"""Matplotlib's time axes count days since the epoch."""

FileOption = Annotated[Path, typer.Option("--output", "-o", help="The SVG file to write.", dir_okay=False)]
MinutesOption = Annotated[float, typer.Option(help="Maximum time span.", min=0.01)]
UntilOption = Annotated[
    float | None, typer.Option(help="End of the time span, in seconds since the epoch; default: now.")
]


def picture(
    worker: Annotated[str, typer.Argument(help="the Worker's name")],
    file: FileOption,
    minutes: MinutesOption = 60.0,
    until: UntilOption = None,
    state: StateOption = DEFAULT_STATE,
    namespace: NamespaceOption = "default",
) -> None:
    """Draw which member ran which task when, with holds and failures, as far back as the logs reach."""
    with errors_said(Console()):
        view = ask_host(existing_state(state))
        history = history_of(view, namespace, worker)
        to_ms = int(time.time() * 1000 if until is None else until * 1000)
        write_picture(history, file, minutes, to_ms)


def write_picture(history: LogHistory, file: Path, minutes: float, to_ms: int) -> None:
    """Draws the minutes before ``to_ms`` (since the epoch) and prints a summary. Raises ``ClusterError``."""
    from_ms = to_ms - int(minutes * 60_000)
    drawn = stretches(history.statuses, history.memories, from_ms, to_ms)
    if not drawn:
        raise ClusterError(
            f"the logs say nothing of the {minutes:g} minutes before then: choose more --minutes"
        )
    # The picture starts with the first task, since nothing is to be seen before.
    from_ms = min(one.since_ms for one in drawn)
    draw(drawn, from_ms, to_ms, file)
    tasks = counted(len({one.task for one in drawn}), "task")
    write(f"{file}: {tasks}, {(to_ms - from_ms) / 60_000:.1f} minutes")


def draw(drawn: Sequence[Stretch], from_ms: int, to_ms: int, file: Path) -> None:
    """Writes the picture as SVG, whose bytes depend only on the arguments.

    A full bar: the task runs there; pale: it is paused; hatched: it is held for that member; red: it has
    failed. Raises ``NotInstalled`` without matplotlib.
    """
    require(Extra.PICTURES, "a picture")
    import matplotlib as mpl
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    tasks = sorted({one.task for one in drawn}, reverse=True)
    members = sorted({one.member for one in drawn})
    colours = {member: _COLOURS[number % len(_COLOURS)] for number, member in enumerate(members)}
    figure = Figure(figsize=(10, 1.2 + 0.22 * len(tasks)))
    axes = figure.subplots()
    for one in drawn:
        failed, held = one.kind is StretchKind.FAILED, one.kind is StretchKind.HELD
        colour = _FAILED if failed else colours[one.member]
        [bar] = axes.barh(
            tasks.index(one.task),
            (one.until_ms - one.since_ms) / _DAY_MS,
            left=one.since_ms / _DAY_MS,
            height=0.7,
            facecolor="none" if held else colour,
            edgecolor=colour if held else "none",
            hatch="////" if held else None,
            alpha=0.4 if one.kind is StretchKind.PAUSED else 1.0,
        )
        # The id lets readers of the file, and tests, find each bar.
        bar.set_gid(f"{one.task} {one.kind.value} {one.member} {one.since_ms} {one.until_ms}")
    axes.set_yticks(range(len(tasks)), [str(task) for task in tasks], fontsize=6)
    axes.set_xlim(from_ms / _DAY_MS, to_ms / _DAY_MS)
    ticks = AutoDateLocator(tz=UTC)  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_locator(ticks)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(ticks, tz=UTC))  # type: ignore[no-untyped-call]
    axes.set_xlabel("time (UTC)")
    axes.spines[["top", "right"]].set_visible(False)
    patches = [Patch(facecolor=colours[member], label=member) for member in members]
    patches += [
        Patch(facecolor="none", edgecolor="black", hatch="////", label="held for it"),
        Patch(facecolor=_FAILED, label="failed"),
    ]
    axes.legend(handles=patches, ncols=6, fontsize=7, loc="lower right", bbox_to_anchor=(1, 1), frameon=False)
    with mpl.rc_context({"svg.hashsalt": "cooperator", "svg.fonttype": "none"}):
        figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None}, bbox_inches="tight")
