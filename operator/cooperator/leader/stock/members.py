"""Conditions of stock workers in a group: which ones hang, which ones hold the protocol down. Pure."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from cooperator.leader.stock.pending_starts import PendingStarts
from cooperator.model import HoldReason, Member, Policy, TaskId
from cooperator.wire import Protocol

_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Hung:
    """An incarnation whose start or stop of items has taken since ``since_ms`` (ms since the epoch).

    ``to_replace``: that is longer than the policy allows.
    """

    identity: str
    incarnation: str
    since_ms: int
    items: tuple[TaskId, ...]
    to_replace: bool


def hung(
    pending_starts: PendingStarts,
    policy: Policy,
    patience_ms: int,
    known: Collection[str],
    ended: Collection[tuple[str, str]],
    now_ms: int,
) -> tuple[Hung, ...]:
    """The hung workers among the identities ``known``, except for the incarnations ``ended``.

    ``patience_ms``: a rebalance time-out.
    """
    after_ms = policy.hung_after_ms
    return tuple(
        Hung(
            each.member.identity,
            each.member.incarnation,
            each.since_ms,
            each.items,
            0 < after_ms <= now_ms - each.since_ms,
        )
        for each in pending_starts.hanging(min(patience_ms, after_ms or patience_ms), now_ms)
        if each.member.identity in known and (each.member.identity, each.member.incarnation) not in ended
    )


def hung_next_ms(pending_starts: PendingStarts, policy: Policy, patience_ms: int) -> list[int]:
    """Times (ms) at which ``hung`` may change without an event."""
    spans = {patience_ms, policy.hung_after_ms} - {0}
    return [at_ms for span_ms in spans for at_ms in pending_starts.next_ms(span_ms)]


def holding_down(
    protocol: str, before: str, known: Collection[str], said: tuple[str, ...], members: Iterable[Member]
) -> tuple[str, ...]:
    """Identities of workers that may be why the group speaks no newer protocol than ``protocol``.

    The broker does not say what each one offers. ``before``: the protocol of the previous round, whose
    members were ``known`` (ids); if the protocol is older now, the workers that joined since are the cause.
    ``said``: the previous result.
    """
    if protocol in ("", Protocol.SESSIONED.value, Protocol.RECONCILED.value):
        return ()
    stock = [member for member in members if not member.is_agent]
    if protocol == before:
        staying = tuple(member.identity for member in stock if member.identity in said)
        if staying:
            return staying
    newcomers = tuple(sorted(member.identity for member in stock if member.member_id not in known))
    return newcomers or tuple(sorted(member.identity for member in stock))


def conditions(status: Mapping[str, Any]) -> Iterator[tuple[str, bool, str, str]]:
    """Conditions of stock workers (type, status, reason, message); none without stock workers."""
    unfenced = sorted(
        {
            task["held_for"]
            for task in status.get("tasks", ())
            if task.get("held_reason") == HoldReason.UNFENCED.value
        }
    )
    if not unfenced and not any(not member["is_agent"] for member in status.get("members", ())):
        return
    text = (
        f"{_named(unfenced)} left the group, and nothing proves that its tasks have stopped: they stay held "
        "until its end is proven, it is back, or spec.fencing is BestEffort"
    )
    yield "Unfenced", bool(unfenced), "EndNotProven" if unfenced else "Fenced", text if unfenced else ""
    who = _named(status.get("held_down_by", ()))
    eager = status.get("protocol") == Protocol.DEFAULT.value
    text = (
        f"{who} speaks no protocol but the eager one (connect.protocol=eager): in every round all workers "
        "stop all their tasks, and no tasks are held for absent workers; set connect.protocol to sessioned"
    )
    yield "EagerProtocol", eager, "EagerWorker" if eager else "Incremental", text if eager else ""
    unsigned = eager or status.get("protocol") == Protocol.COMPATIBLE.value
    text = f"{who} does not sign its requests (connect.protocol): anybody who reaches the leader may send one"
    yield "UnsignedRequests", unsigned, "NotSessioned" if unsigned else "Signed", text if unsigned else ""


def hung_text(status: Mapping[str, Any]) -> str:
    """A sentence that names the hanging stock workers; empty if there are none."""
    found = [
        f"{each['identity']} (in {_named(each['items'])}{', to be replaced' if each['to_replace'] else ''})"
        for each in status.get("hung", ())
    ]
    if not found:
        return ""
    return f"starting or stopping for longer than the rebalance time-out: {_named(found)}"


def _named(names: Iterable[str]) -> str:
    listed = list(names)
    rest = len(listed) - _SHOWN
    return ", ".join(listed[:_SHOWN]) + (f" and {rest} more" if rest > 0 else "")
