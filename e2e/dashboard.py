"""Draws the chart's Grafana dashboard: its panels in Grafana's layout, its queries answered."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from e2e.prometheus import Series
from tests.charts.rendered import OPERATOR

DASHBOARD: Final = OPERATOR / "dashboards" / "cooperator.json"
_COLUMNS: Final = 24
_ROW_INCHES: Final = 0.36
_PLACE: Final = re.compile(r"\{\{ ?(\w+) ?\}\}")
_UNITS: Final = {"bytes": "MiB", "s": "s", "rowsps": "rows/s"}
_GREEN, _RED = "#2e8b57", "#c0392b"

Numbers = np.ndarray[Any, np.dtype[np.float64]]
Ask = Callable[[str], Sequence[Series]]
"""Returns the series of a query of the dashboard."""


def draw(ask: Ask, began_s: float, ended_s: float, every_s: float, home: str, file: Path) -> list[str]:
    """Write ``file``, an SVG. Returns the titles of the panels without any series.

    ``every_s`` is the interval between points; a missing point makes a gap. Legends omit the namespace
    ``home``.
    """
    panels = json.loads(DASHBOARD.read_text())["panels"]
    rows = max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in panels)
    times = np.arange(began_s, ended_s, every_s)
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
            axes = figure.add_axes((left + 0.035, top - height * 0.86, width - 0.05, height * 0.6))
            axes.set_title(panel["title"], fontsize=8, loc="left", y=1.14 if place["w"] > 4 else 1.0)
            found = {
                _legend(target, each["metric"]).replace(f"{home}/", ""): _points(each, times, every_s)
                for target in panel["targets"]
                for each in ask(target["expr"])
            }
            if not found:
                empty.append(panel["title"])
            elif panel["type"] == "stat":
                _stat(axes, panel["fieldConfig"]["defaults"], *found.values())
            else:
                _lines(axes, panel["fieldConfig"]["defaults"], (times - began_s) / 60, found)
        figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
    return empty


def _legend(target: Mapping[str, Any], labels: Mapping[str, str]) -> str:
    return _PLACE.sub(lambda name: labels.get(name[1], ""), target.get("legendFormat", ""))


def _points(series: Series, times: Numbers, every_s: float) -> Numbers:
    """One value for each of ``times``; NaN where there is none."""
    found = np.full(len(times), np.nan)
    for at_s, value in series["values"]:
        found[min(len(times) - 1, round((at_s - times[0]) / every_s))] = float(value)
    return found


def _stat(axes: Axes, defaults: Mapping[str, Any], values: Numbers) -> None:
    """Draw the newest value in the colour of the threshold that it has reached."""
    axes.axis("off")
    value = values[~np.isnan(values)][-1]
    steps = defaults.get("thresholds", {}).get("steps", ())
    reached = [step["color"] for step in steps if step["value"] is None or value >= step["value"]]
    color = _RED if reached[-1:] == ["red"] else _GREEN
    axes.text(0.5, 0.3, f"{value:g}", fontsize=20, ha="center", va="center", color=color)


def _lines(axes: Axes, defaults: Mapping[str, Any], minutes: Numbers, found: Mapping[str, Numbers]) -> None:
    if defaults.get("unit") == "bytes":
        found = {legend: values / 2**20 for legend, values in found.items()}
    if defaults.get("custom", {}).get("stacking", {}).get("mode") == "normal":
        axes.stackplot(
            minutes, [np.nan_to_num(each) for each in found.values()], labels=list(found), alpha=0.5
        )
    else:
        for legend, values in found.items():
            axes.plot(minutes, values, label=legend, linewidth=0.9)
    if defaults.get("min") is not None:
        axes.set_ylim(bottom=defaults["min"])
    axes.set_ylabel(_UNITS.get(defaults.get("unit", ""), ""))
    axes.set_xlim(minutes[0], minutes[-1])
    axes.grid(alpha=0.25, linewidth=0.5)
    axes.spines[["top", "right"]].set_visible(False)
    if any(found):
        axes.legend(fontsize=6, frameon=False, ncols=6, loc="lower left", bbox_to_anchor=(-0.01, 0.97))
