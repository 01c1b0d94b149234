"""Tables in kubectl's format: columns, two or more spaces apart, and nothing else."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from cooperator.host.progress import learning, report_of, reported
from cooperator.model import is_amiss
from cooperator.model.status import RATE_VALID_MS
from cooperator.model.text import counted
from cooperator.model.trace import error_of
from cooperator.model.visible import visible_line

Row = Mapping[str, Any]
_GAP: Final = "   "
_NONE: Final = "<none>"


def table(rows: Iterable[Row], columns: Mapping[str, Callable[[Row], object]]) -> str:
    """Renders the headers and one line per row; empty values are ``<none>``, but empty in the last column."""
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
            "MEMBERS": lambda w: f"{_status(w).get('readyReplicas', '?')}/{w['spec']['replicas']}",
            "TASKS": lambda w: _of(_status(w).get("tasks", {})),
            "HELD": lambda w: _status(w).get("tasks", {}).get("held", "?"),
            "PROTOCOL": lambda w: (_status(w).get("protocol") or {}).get("name", "?"),
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
            **epoch_columns(items),
            "RESTARTS": lambda m: m["restarts"],
            "PID": lambda m: m.get("pid") or "",
            "AGE": lambda m: age(m.get("started_ms"), now_ms),
            "MESSAGE": lambda m: m.get("message", ""),
        },
    )


def epoch_columns(members: Sequence[Row]) -> dict[str, Callable[[Row], object]]:
    """The columns of members of a group without rounds; none in rounds. Unknown epochs are ``?``."""
    if not any(member.get("state") for member in members):
        return {}
    return {
        "STATE": lambda m: m.get("state") or "?",
        "EPOCH": lambda m: _or_unknown(m.get("epoch")),
        "TARGET": lambda m: _or_unknown(m.get("targetEpoch", m.get("target_epoch"))),
    }


def protocol_words(protocol: Row | None) -> str:
    """A line that says which protocol a group uses now, and why; unknown while no leader says so."""
    if not protocol:
        return "protocol unknown: no leader reports it now"
    words = f"protocol {protocol['name']}"
    if protocol.get("groupEpoch") is not None:
        words += f": group epoch {protocol['groupEpoch']}, assignment epoch {protocol['assignmentEpoch']}"
    return f"{words}: {protocol['reason']}" if protocol.get("reason") else words


def worker_state(worker: Row) -> str:
    """Returns the reason of the first condition that is not met, or Ready."""
    if not _status(worker).get("conditions"):
        return "Unknown"
    return next((c["reason"] for c in _wrong(worker)), "Ready")


def name_of(rebalance: Row) -> str:
    """Names an entry of ``rebalances``: ``generation 7`` in rounds, ``epoch 7`` without them."""
    epoch = rebalance.get("epoch")
    return f"epoch {epoch}" if epoch else f"generation {rebalance['generation']}"


def age(since_ms: int | None, now_ms: int) -> str:
    """Formats a duration as kubectl does: 45s, 3m20s, 4h, 12d."""
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
    """Returns a task's progress, or its error and when it is retried."""
    trace = short(error_of(task.get("trace", "")))
    next_ms = task.get("next_attempt_ms")
    if next_ms:
        return f"next attempt {until(next_ms, now_ms)}" + (f": {trace}" if trace else "")
    return progress(task, now_ms) or trace


def progress(task: Row, now_ms: int) -> str:
    """Returns the progress that a task reports, in a few words; with its age if it is old."""
    report, figures = report_of(task), reported(task, now_ms)
    words = []
    has_figures = "rows_in" in report and task.get("state") != "STARTING"
    if has_figures:
        words.append(counted(report["rows_in"], "row"))
        if figures.is_expired:
            words.append("rate unknown")
        elif figures.rows_per_second:
            words.append(f"{figures.rows_per_second:,}/s")
    elif isinstance(report.get("units"), int):  # of an instance; a task's are by name
        words.append(f"{counted(report['units'], 'unit')} in {counted(report.get('tasks', 0), 'task')}")
    if has_figures and "state_rows" in report:
        size = f"{report.get('state_bytes', 0) / 1_000_000:,.1f} MB"
        words.append(f"state of {counted(report['state_rows'], 'row')} and {size}")
    if report.get("lag"):
        words.append(f"{report['lag']:,} behind")
    words += [f"{wait.text} ({age(wait.since_ms, now_ms)} so far)" for wait in figures.waits]
    words += [str(report["note"])] if report.get("note") else []
    if has_figures and is_old(task, now_ms):
        words.append(f"as of {age(task['at_ms'], now_ms)} ago" if task.get("at_ms") else "of unknown age")
    # Not as old as the task's own report: members report every few seconds what they learn.
    if said := task.get("learning") or learning(task, now_ms):
        words.append(said)
    return ", ".join(words)


def is_old(task: Row, now_ms: int) -> bool:
    """Whether the task's report is so old that its age must be shown."""
    return now_ms > (task.get("at_ms") or 0) + RATE_VALID_MS


def short(line: str) -> str:
    """One line of a table: no whole trace. A longer one keeps its end, where the remedy stands."""
    return line if len(line) <= 400 else f"{line[:240].rstrip()} … {line[-156:].lstrip()}"


def _name(items: Sequence[Row]) -> dict[str, Callable[[Row], object]]:
    """Returns the name's column, and the namespace's if any is not the default one."""
    columns: dict[str, Callable[[Row], object]] = {"NAME": lambda r: r["metadata"]["name"]}
    if any(item["metadata"]["namespace"] != "default" for item in items):
        return {"NAMESPACE": lambda r: r["metadata"]["namespace"], **columns}
    return columns


def _cell(value: object) -> str:
    # Before the widths are measured.
    return visible_line(" ".join(str(value).split()))


def _status(resource: Row) -> Row:
    status: Row = resource.get("status", {})
    return status


def _or_unknown(value: object) -> object:
    return "?" if value is None else value


def _of(counts: Row) -> str:
    return f"{counts.get('running', 0)}/{counts.get('desired', 0)}" if counts else "?"


def _trouble(resource: Row) -> str:
    """Returns the problem: the first specific condition that is not met, else the reason why it is not
    Ready."""
    conditions = _status(resource).get("conditions", ())
    not_ready = (c for c in conditions if c["type"] == "Ready" and c["status"] != "True")
    return short(next((c.get("message", "") for c in (*_wrong(resource), *not_ready)), ""))


def _wrong(resource: Row) -> Iterator[Row]:
    """Returns the conditions that are not met.

    Summary conditions are left out, since they add nothing; so is a connector's delivery guarantee, which is
    no problem.
    """
    passed_over = ("Ready", "Reconciling", "Stalled", "Settled", "ExactlyOnce")
    conditions = _status(resource).get("conditions", ())
    return (c for c in conditions if c["type"] not in passed_over and is_amiss(c["type"], c["status"]))


def _created_ms(resource: Row) -> int | None:
    created = resource["metadata"].get("creationTimestamp")
    return int(datetime.fromisoformat(created).timestamp() * 1000) if created else None


def until(until_ms: int | None, now_ms: int) -> str:
    """Formats the remaining time: in 41s."""
    if not until_ms:
        return ""
    left = (until_ms - now_ms + 999) // 1000
    return f"in {left}s" if left > 0 else "now"
