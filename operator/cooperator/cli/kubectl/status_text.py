"""The text that ``status`` shows. Pure."""

from collections.abc import Iterator, Sequence
from typing import Any

from cooperator.cli.kubectl.seen import Seen
from cooperator.crd.conditions import READY
from cooperator.model.visible import visible_line, visible_lines
from cooperator.terminal.objects import Body, amiss, milliseconds, status_of
from cooperator.terminal.tables import (
    age,
    connectors_table,
    epoch_columns,
    name_of,
    protocol_words,
    table,
    until,
)


def status_text(seen: Seen, now_ms: int) -> str:
    """One block for each Worker, without a final newline."""
    if not seen.workers:
        return "no Workers in this namespace: use another namespace with -n, or all with -A"
    return "\n\n".join(
        "\n\n".join(_blocks(worker, seen.connectors_of(worker), now_ms)) for worker in seen.workers
    )


def _blocks(worker: Body, connectors: Sequence[Body], now_ms: int) -> Iterator[str]:
    yield visible_lines(_header(worker, now_ms))
    status = status_of(worker)
    members = status.get("members") or ()
    if members:
        shown = table(
            members,
            {
                "MEMBER": lambda m: m["identity"],
                "PHASE": lambda m: m["phase"],
                "TASKS": lambda m: m.get("tasks", 0),
                **epoch_columns(members),
                "MESSAGE": lambda m: m.get("message", ""),
            },
        )
        yield shown + _more(members, status.get("memberCount", 0), "members")
    held = status.get("held") or ()
    if held:
        shown = table(
            held,
            {
                "HELD": lambda h: h["task"],
                "FOR": lambda h: h["identity"],
                "MOVES": lambda h: until(milliseconds(h["until"]), now_ms),
                "DEADLINE": lambda h: h["until"],
                "WHY": lambda h: h["reason"],
            },
        )
        yield shown + _more(held, status.get("heldCount", 0), "tasks that wait")
    wrong = [
        {"of": body["metadata"]["name"], "kind": kind, **each}
        for kind, body in (("Worker", worker), *(("Connector", each) for each in connectors))
        for each in amiss(body)
    ]
    if wrong:
        yield table(
            wrong,
            {
                "CONDITION": lambda c: c["type"],
                "OF": lambda c: f"{c['kind']}/{c['of']}",
                "STATUS": lambda c: c["status"],
                "FOR": lambda c: _since(c, now_ms),
                "REASON": lambda c: c["reason"],
                "MESSAGE": lambda c: c.get("message", ""),
            },
        )
    elif status:
        yield "all conditions are met"
    if connectors:
        yield connectors_table(connectors, now_ms)
    last = status.get("lastRebalance")
    if last:
        yield visible_line(last_rebalance(last, now_ms))


def _header(worker: Body, now_ms: int) -> Iterator[str]:
    metadata, status = worker["metadata"], status_of(worker)
    name = f"Worker {metadata['namespace']}/{metadata['name']}"
    if not status:
        yield f"{name}: no operator has observed it yet"
        yield "check that one is installed (charts/cooperator) and serves this namespace"
        return
    ready = next((c for c in status.get("conditions") or () if c["type"] == READY), None)
    state = "Ready" if ready is not None and ready["status"] == "True" else "not ready"
    words = [
        f"{status.get('memberSummary', '?')} members",
        f"{status.get('taskSummary', '?')} tasks run",
    ]
    counts = status.get("tasks") or {}
    words += [f"{counts[state]} {state}" for state in ("failed", "held") if counts.get(state)]
    yield f"{name}: {state}, {', '.join(words)}"
    if metadata.get("deletionTimestamp"):
        yield "it is being deleted: its members hand over and end"
    yield protocol_words(status.get("protocol"))
    observed, generation = status.get("observedGeneration"), metadata.get("generation")
    if observed is not None and generation is not None and observed < generation:
        yield f"this status is of generation {observed} of the spec; {generation} has not been observed yet"


def last_rebalance(last: Body, now_ms: int) -> str:
    """The last rebalance in one line."""
    took = f" in {last['durationMs'] / 1000:g} s" if last.get("durationMs") else ""
    why = f": {last['reason']}" if last.get("reason") else ""
    return (
        f"last rebalance: {name_of(last)}, {age(milliseconds(last['at']), now_ms)} ago, "
        f"{last.get('assigned', 0)} assigned, {last.get('revoked', 0)} revoked{took}{why}"
    )


def _since(condition: Body, now_ms: int) -> str:
    at = condition.get("lastTransitionTime")
    return age(milliseconds(at), now_ms) if at else ""


def _more(listed: Sequence[Any], count: int, what: str) -> str:
    return f"\nand {count - len(listed)} more {what}" if count > len(listed) else ""
