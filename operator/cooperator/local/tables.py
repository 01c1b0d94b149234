"""Tables as kubectl prints them: columns, two or more spaces apart, and nothing else."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from cooperator.model.trace import error_of

Row = Mapping[str, Any]
_GAP: Final = "   "
_NONE: Final = "<none>"


def table(rows: Iterable[Row], columns: Mapping[str, Callable[[Row], object]]) -> str:
    """One line per row below the headers; empty values as ``<none>``, but the last column's as nothing."""
    lines = [list(columns)]
    for row in rows:
        *cells, last = (_cell(read(row)) for read in columns.values())
        lines.append([*(cell or _NONE for cell in cells), last])
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        _GAP.join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def workers_table(items: Sequence[Row], now_ms: int) -> str:
    return table(
        items,
        {
            **_name(items),
            "MEMBERS": lambda w: f"{_status(w).get('readyReplicas', 0)}/{w['spec']['replicas']}",
            "TASKS": lambda w: _of(_status(w).get("tasks", {})),
            "HELD": lambda w: _status(w).get("tasks", {}).get("held", 0),
            "STATE": worker_state,
            "AGE": lambda w: age(_created_ms(w), now_ms),
            "MESSAGE": lambda w: _trouble(w) or "",
        },
    )


def connectors_table(items: Sequence[Row], now_ms: int) -> str:
    return table(
        items,
        {
            **_name(items),
            "WORKER": lambda c: c["spec"]["workerRef"]["name"],
            "CLASS": lambda c: c["spec"]["class"],
            "TASKS": lambda c: _of(_status(c).get("tasks", {})),
            "STATE": lambda c: _status(c).get("state") or "Unknown",
            "AGE": lambda c: age(_created_ms(c), now_ms),
            "MESSAGE": lambda c: _trouble(c) or "",
        },
    )


def tasks_table(items: Sequence[Row], now_ms: int) -> str:
    return table(
        items,
        {
            "NAME": lambda t: t["name"],
            "STATE": lambda t: t["state"],
            "MEMBER": lambda t: t.get("member") or "",
            "HELD-FOR": lambda t: t.get("held_for") or "",
            "HELD-UNTIL": lambda t: until(t.get("held_until_ms"), now_ms),
            "EPOCH": lambda t: t.get("epoch") or "",
            "REPORTED": lambda t: age(t.get("at_ms") or None, now_ms),
            "PROGRESS": lambda t: task_words(t, now_ms),
        },
    )


def members_table(items: Sequence[Row], now_ms: int) -> str:
    return table(
        items,
        {
            "NAME": lambda m: m["name"],
            "WORKER": lambda m: m["worker"],
            "PHASE": lambda m: m["phase"],
            "TASKS": lambda m: m["tasks"],
            "RESTARTS": lambda m: m["restarts"],
            "PID": lambda m: m.get("pid") or "",
            "AGE": lambda m: age(m.get("started_ms"), now_ms),
            "MESSAGE": lambda m: m.get("message", ""),
        },
    )


def worker_state(worker: Row) -> str:
    """One word: the reason of the condition that is not as it should be, else Ready."""
    if not _status(worker).get("conditions"):
        return "Unknown"
    return next((c["reason"] for c in _wrong(worker)), "Ready")


def age(since_ms: int | None, now_ms: int) -> str:
    """kubectl's short durations: 45s, 3m20s, 4h, 12d."""
    if since_ms is None:
        return ""
    seconds = max(0, (now_ms - since_ms) // 1000)
    if seconds < 120:
        return f"{seconds}s"
    minutes, rest = divmod(seconds, 60)
    if minutes < 10:
        return f"{minutes}m{rest}s" if rest else f"{minutes}m"
    if minutes < 180:
        return f"{minutes}m"
    hours = minutes // 60
    return f"{hours}h" if hours < 48 else f"{hours // 24}d"


def task_words(task: Row, now_ms: int) -> str:
    """How far a task is, or what it failed with and when it is tried again."""
    trace = short(error_of(task.get("trace", "")))
    next_ms = task.get("next_attempt_ms")
    if next_ms:
        return f"next attempt {until(next_ms, now_ms)}" + (f": {trace}" if trace else "")
    return progress(task.get("progress", "")) or trace


def progress(text: str) -> str:
    """The progress that a task reports (one JSON object), in a few words."""
    try:
        report = json.loads(text) if text else {}
    except ValueError:
        return ""
    if not isinstance(report, dict):
        return ""
    words = []
    if "rows_in" in report:
        words.append(f"{report['rows_in']:,} rows")
        if report.get("rows_per_s"):
            words.append(f"{report['rows_per_s']:,.0f}/s")
    elif "units" in report:
        words.append(f"{report['units']} units in {report.get('tasks', 0)} tasks")
    if report.get("lag"):
        words.append(f"{report['lag']:,} behind")
    words += [str(report[key]) for key in ("trouble", "note") if report.get(key)]
    return ", ".join(words)


def short(line: str) -> str:
    return line[:120]


def _name(items: Sequence[Row]) -> dict[str, Callable[[Row], object]]:
    """The namespace is shown as soon as there is more than the default one."""
    columns: dict[str, Callable[[Row], object]] = {"NAME": lambda r: r["metadata"]["name"]}
    if any(item["metadata"]["namespace"] != "default" for item in items):
        return {"NAMESPACE": lambda r: r["metadata"]["namespace"], **columns}
    return columns


def _cell(value: object) -> str:
    return " ".join(str(value).split())


def _status(resource: Row) -> Row:
    status: Row = resource.get("status", {})
    return status


def _of(counts: Row) -> str:
    return f"{counts.get('running', 0)}/{counts.get('desired', 0)}" if counts else "?"


def _trouble(resource: Row) -> str:
    return next((c.get("message", "") for c in _wrong(resource)), "")


def _wrong(resource: Row) -> Iterator[Row]:
    """Conditions that are not as they should be. The ones that sum up the others say nothing new, and what a
    connector promises for its sink is no trouble."""
    passed_over = ("Ready", "Reconciling", "Stalled", "Settled", "ExactlyOnce")
    conditions = _status(resource).get("conditions", ())
    return (c for c in conditions if c["status"] != "True" and c["type"] not in passed_over)


def _created_ms(resource: Row) -> int | None:
    created = resource["metadata"].get("creationTimestamp")
    return int(datetime.fromisoformat(created).timestamp() * 1000) if created else None


def until(until_ms: int | None, now_ms: int) -> str:
    """How long it is from now: in 41s."""
    if not until_ms:
        return ""
    left = (until_ms - now_ms + 999) // 1000
    return f"in {left}s" if left > 0 else "now"
