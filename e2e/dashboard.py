"""The chart's Grafana dashboard as a picture: its panels where Grafana has them, its queries answered."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from prometheus import Series

from tests.charts.rendered import OPERATOR

DASHBOARD: Final = OPERATOR / "dashboards" / "cooperator.json"
_COLUMNS: Final = 24
_ROW_INCHES: Final = 0.36
_LEGEND: Final = re.compile(r"\{\{ ?(\w+) ?\}\}")
_GREEN, _RED = "#2e8b57", "#c0392b"

Ask = Callable[[str], Sequence[Series]]
"""Series by a query of the dashboard."""


def draw(ask: Ask, began_s: float, file: Path) -> list[str]:
    """Writes ``file``, an SVG. Titles of the panels for which there was no series at all."""
    panels = json.loads(DASHBOARD.read_text())["panels"]
    rows = max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in panels)
    empty = []
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "cooperator", "font.size": 7}):
        figure = Figure(figsize=(11, rows * _ROW_INCHES))
        for panel in panels:
            place = panel["gridPos"]
            left, top = place["x"] / _COLUMNS, 1 - place["y"] / rows
            width, height = place["w"] / _COLUMNS, place["h"] / rows
            if panel["type"] == "row":
                where = (left + 0.005, top - height / 2)
                figure.text(*where, panel["title"], fontsize=9, weight="bold", va="center")
                continue
            inside = (left + 0.035, top - height * 0.86, width - 0.05, height * 0.68)
            axes = figure.add_axes(inside)
            axes.set_title(panel["title"], fontsize=8, loc="left")
            found = [(each, legend) for target in panel["targets"] for each, legend in _series(target, ask)]
            if not found:
                empty.append(panel["title"])
            (_stat if panel["type"] == "stat" else _lines)(axes, panel, found, began_s)
        figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
    return empty


def _series(target: Mapping[str, Any], ask: Ask) -> list[tuple[Series, str]]:
    def legend(labels: Mapping[str, str]) -> str:
        said = target.get("legendFormat", "")
        return _LEGEND.sub(lambda name: labels.get(name[1], ""), said)

    return [(each, legend(each["metric"])) for each in ask(target["expr"])]


def _stat(axes: Axes, panel: Mapping[str, Any], found: Sequence[tuple[Series, str]], began_s: float) -> None:
    """Its newest value, in the colour of the step that it has reached."""
    axes.axis("off")
    value = float(found[0][0]["values"][-1][1]) if found else float("nan")
    steps = panel["fieldConfig"]["defaults"].get("thresholds", {}).get("steps", ())
    reached = [step["color"] for step in steps if step["value"] is None or value >= step["value"]]
    color = _RED if reached[-1:] == ["red"] else _GREEN
    axes.text(0.5, 0.4, f"{value:g}", fontsize=20, ha="center", va="center", color=color)


def _lines(axes: Axes, panel: Mapping[str, Any], found: Sequence[tuple[Series, str]], began_s: float) -> None:
    defaults = panel["fieldConfig"]["defaults"]
    scale = 2**20 if defaults.get("unit") == "bytes" else 1
    points = {
        legend: {(at - began_s) / 60: float(value) / scale for at, value in each["values"]}
        for each, legend in found
    }
    if defaults.get("custom", {}).get("stacking", {}).get("mode") == "normal":
        minutes = sorted({minute for each in points.values() for minute in each})
        heights = [[each.get(minute, 0.0) for minute in minutes] for each in points.values()]
        if heights:
            axes.stackplot(minutes, heights, labels=list(points), alpha=0.5)
    else:
        for legend, each in points.items():
            axes.plot(list(each), list(each.values()), label=legend, linewidth=0.9)
    if defaults.get("min") is not None:
        axes.set_ylim(bottom=defaults["min"])
    units = {"bytes": "MiB", "s": "s", "rowsps": "rows/s"}
    axes.set_ylabel(units.get(defaults.get("unit", ""), ""))
    axes.margins(x=0)
    axes.grid(alpha=0.25, linewidth=0.5)
    axes.spines[["top", "right"]].set_visible(False)
    if any(points):
        axes.legend(fontsize=6, frameon=False, ncols=3, loc="upper right")
