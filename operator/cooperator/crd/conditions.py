"""Conditions of a resource, in the shape of Kubernetes' metav1.

Four conditions of a Worker summarize the others, for tools that do not know cooperator (kstatus):

* ``Ready``: the desired state is reached. If False, the reason is that of the first missing part.
* ``Reconciling``: the desired state is not reached yet; no action is needed.
* ``Stalled``: the desired state is not reached, and a user must act; the message gives the remedy.
* ``Settled``: the group is at rest: no task moves, waits or starts.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from pydantic import Field

from cooperator.crd.connector import Connector, State
from cooperator.crd.projection import Projection, Sentence, Time, Word, timestamp
from cooperator.crd.worker import Worker
from cooperator.model.status import GROUP_TOO_LARGE, HUNG, LASTING_FAILURES
from cooperator.model.text import counted, suggestion
from cooperator.model.trace import error_of, in_words


class ConditionStatus(StrEnum):
    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


class Condition(Projection):
    """As in Kubernetes' metav1: ``reason`` in CamelCase, ``message`` a sentence with the remedy."""

    type: Word = Field(description="type of the condition")
    status: ConditionStatus = Field(description="whether the condition holds")
    reason: Word = Field(description="reason, in CamelCase")
    message: Sentence = Field(default="", description="message with the remedy")
    observed_generation: int | None = Field(
        default=None, description="the generation of the spec that was observed"
    )
    last_transition_time: Time = Field(default="", description="time of the last change of the status")


UNOBSERVED: Final = -1
"""The API server's ``status.observedGeneration`` of a resource without a status: tools that know kstatus then
wait for the operator instead of calling the resource Current."""
READY: Final = "Ready"
RECONCILING: Final = "Reconciling"
STALLED: Final = "Stalled"
SETTLED: Final = "Settled"
WORKER_FOUND: Final = "WorkerFound"
LOCAL_CHECKPOINTS: Final = "LocalCheckpoints"
"""The reason of a Connector's ExactlyOnce condition where its progress is lost with a pod."""
LOCAL_DIRECTORY: Final = "LocalDirectory"
"""The reason of a Connector's ExactlyOnce condition where what it writes is lost with a pod."""
SUMMARIES: Final = frozenset({READY, RECONCILING, STALLED, SETTLED})
"""A Worker's conditions that summarize its others."""
INVALID_SPEC: Final = "InvalidSpec"
NAME_TAKEN: Final = "NameTaken"
NOT_ALLOWED: Final = "NotAllowed"
CONFIG_REFUSED: Final = "ConfigRefused"
OUTPUT_SHARED: Final = "OutputShared"
DELETING: Final = "Deleting"
REPLICA_FAILURE: Final = "ReplicaFailure"

_NEEDED: Final = ("KafkaReachable", "Leading", "Planned", "MembersReady")
"""A Worker's needs, in order of dependency."""
_PASSING: Final = frozenset(
    {
        *("Starting", "Connecting", "Connected", "TakingLead", "CoordinatorLost", "Unreachable"),
        *("Progressing", "NotReady", "ScaleDownWaits", "Unknown", "CannotWrite"),
        # These pass without a user's action: quota is freed, a node joins, a registry recovers.
        *("FailedCreate", "Unschedulable", "SchedulingGated", "ImagePullBackOff"),
    }
)
"""Reasons that pass without action. Any other reason of a False needed condition counts as lasting: a false
alarm is better than a missed one."""


@dataclass(frozen=True, slots=True)
class _Verdict:
    """The missing part, if any.

    ``lasting``: it stays missing until a user acts. ``unknown``: whether it is missing is not known.
    """

    reason: str = ""
    message: str = ""
    lasting: bool = False
    unknown: bool = False


_NO_LEADER: Final = _Verdict(
    "NotLeading",
    "the leader of the Worker's group does not lead yet; the figures are the last known ones; see the "
    "Worker's conditions",
    unknown=True,
)


def summary_conditions(
    known: Iterable[Condition],
    *,
    generation: int | None,
    settled: bool,
    problems: Sequence[str] = (),
    reason: str = INVALID_SPEC,
    deletion: str = "",
) -> tuple[Condition, ...]:
    """Ready, Reconciling, Stalled and Settled of a Worker, without times (see :func:`merge_conditions`).

    ``known`` are its other conditions, above all KafkaReachable, Leading, Planned and MembersReady; a missing
    one counts as unknown. ``settled`` is the leader's report. ``problems`` say why the spec was refused,
    and ``reason`` does so in a word. ``deletion`` says what its deletion waits for.
    """
    by_type = {condition.type: condition for condition in known}
    if deletion:
        verdict = _Verdict(DELETING, deletion)
    else:
        verdict = _refused(problems, reason) if problems else _first_missing(by_type)
    summary = _summary(verdict, generation, quiet=settled, good="AllMembersReady")
    calm = settled and not problems
    settled_condition = Condition(
        type=SETTLED,
        status=_status(calm),
        reason="Calm" if calm else "Moving",
        message="" if calm else "tasks wait, move or start, or the group has no leader",
        observed_generation=generation,
    )
    return (*summary, settled_condition)


def connector_conditions(
    connector: Connector,
    found: Condition,
    tasks: Sequence[Mapping[str, Any]] | None,
    problems: Sequence[str] = (),
    withheld: str = "",
    refused: str = "",
    deletion: str = "",
) -> tuple[Condition, ...]:
    """Ready, Reconciling, Stalled and WorkerFound of a Connector, without times; Hung while a task hangs.

    ``found`` comes from :func:`worker_found`. ``tasks`` are the leader's reports on its tasks and its
    instance, each with ``name``, ``state``, ``trace``, ``next_attempt_ms`` if a failed one will be restarted
    automatically, ``held_for`` and ``held_until_ms`` while it is held, and its ``waits``, the longest first;
    None while no leader reports any. ``problems`` say why its spec or its config was refused.
    ``withheld`` says why it is not started, and which other Connector conflicts with it. ``refused`` says why
    the broker rejects its configuration record. ``deletion`` says what its deletion waits for.
    """
    if deletion:
        verdict = _Verdict(DELETING, deletion)
    elif problems:
        verdict = _refused(problems)
    elif withheld:
        verdict = _Verdict(OUTPUT_SHARED, withheld, lasting=True)
    elif refused:
        verdict = _Verdict(CONFIG_REFUSED, refused, lasting=True)
    elif found.status is not ConditionStatus.TRUE:
        # The Worker may be created later, so no action is needed.
        verdict = _Verdict(found.reason, found.message)
    elif tasks is None:
        verdict = _NO_LEADER
    else:
        verdict = _of_tasks(connector.spec.state, tasks)
    good = connector.spec.state.value
    summary = _summary(verdict, connector.metadata.generation, quiet=True, good=good)
    return (*summary, found, *_hung(connector, tasks or ()))


def _hung(connector: Connector, tasks: Sequence[Mapping[str, Any]]) -> Iterator[Condition]:
    """The condition ``Hung``; absent if no task hangs in its stop."""
    texts = [str(t["trace"]) for t in tasks if t["state"] == "STOPPING" and t.get("reason") == HUNG]
    if texts:
        yield Condition(
            type=HUNG,
            status=ConditionStatus.TRUE,
            reason="TaskHangs",
            message="; ".join(texts),
            observed_generation=connector.metadata.generation,
        )


def worker_found(connector: Connector, workers: Iterable[Worker]) -> Condition:
    """Whether the Worker that a Connector refers to exists: a condition, since it may come later."""
    names = [w.metadata.name for w in workers if w.metadata.namespace == connector.metadata.namespace]
    name = connector.spec.worker_ref.name
    generation = connector.metadata.generation
    if name in names:
        return Condition(
            type=WORKER_FOUND,
            status=ConditionStatus.TRUE,
            reason="WorkerFound",
            observed_generation=generation,
        )
    hint = suggestion(name, names) if names else "none exists yet"
    return Condition(
        type=WORKER_FOUND,
        status=ConditionStatus.FALSE,
        reason="WorkerNotFound",
        message=f"spec.workerRef names the Worker {name!r}, which is not in namespace "
        f"{connector.metadata.namespace!r}: {hint}; the connector starts once that Worker is created",
        observed_generation=generation,
    )


def merge_conditions(
    before: Iterable[Condition], now: Iterable[Condition], now_ms: int
) -> tuple[Condition, ...]:
    """Return ``now`` with the times of ``before`` where the status is unchanged. Types that are not in
    ``now`` are dropped."""
    known = {condition.type: condition for condition in before}
    return tuple(_timed(known.get(condition.type), condition, now_ms) for condition in now)


def stored_conditions(body: Mapping[str, Any]) -> tuple[Condition, ...]:
    """The conditions of an existing object, for their times only; malformed entries are ignored."""
    found = (body.get("status") or {}).get("conditions") or ()
    keys = ("type", "status", "reason", "lastTransitionTime")
    return tuple(
        Condition(
            type=entry["type"],
            status=ConditionStatus(entry["status"]),
            reason=entry["reason"],
            last_transition_time=entry["lastTransitionTime"],
        )
        for entry in found
        if all(isinstance(entry.get(key), str) for key in keys) and entry["status"] in set(ConditionStatus)
    )


def _timed(old: Condition | None, new: Condition, now_ms: int) -> Condition:
    if old is not None and old.status == new.status and old.last_transition_time:
        at = old.last_transition_time
    else:
        at = new.last_transition_time if old is None and new.last_transition_time else timestamp(now_ms)
    return new.model_copy(update={"last_transition_time": at})


def _summary(verdict: _Verdict, generation: int | None, *, quiet: bool, good: str) -> tuple[Condition, ...]:
    """``quiet``: nothing is in progress except the verdict's part."""
    ready = not verdict.reason
    working = (not ready and not verdict.lasting) or (ready and not quiet)
    message = verdict.message

    def condition(type_: str, holds: bool, reason: str, text: str = "") -> Condition:
        return Condition(
            type=type_,
            status=_status(holds),
            reason=reason,
            message=text,
            observed_generation=generation,
        )

    summary = condition(READY, ready, good if ready else verdict.reason, message)
    if verdict.unknown:
        summary = summary.model_copy(update={"status": ConditionStatus.UNKNOWN})
    return (
        summary,
        condition(
            RECONCILING,
            working,
            (verdict.reason or "Rebalancing") if working else "Stalled" if verdict.lasting else "UpToDate",
            message if working else "",
        ),
        condition(
            STALLED,
            verdict.lasting,
            verdict.reason if verdict.lasting else "NothingToDo",
            message if verdict.lasting else "",
        ),
    )


def _refused(problems: Sequence[str], reason: str = INVALID_SPEC) -> _Verdict:
    return _Verdict(reason, "; ".join(problems), lasting=True)


def _first_missing(known: Mapping[str, Condition]) -> _Verdict:
    for type_ in _NEEDED:
        condition = known.get(type_)
        if condition is None:
            return _Verdict("Unknown", f"{type_} is unknown yet")
        if condition.status is not ConditionStatus.TRUE:
            message = condition.message or f"{type_} is {condition.status.value}"
            return _Verdict(condition.reason, message, condition.reason not in _PASSING)
    return _Verdict()


def _of_tasks(state: State, tasks: Sequence[Mapping[str, Any]]) -> _Verdict:
    failed = [t for t in tasks if t["state"] == "FAILED" and "next_attempt_ms" not in t]
    if failed and state is not State.STOPPED:
        words = in_words(error_of(failed[0]["trace"]))
        reason = failed[0].get("reason", "")
        return _Verdict(
            reason if reason in LASTING_FAILURES else "TasksFailed",
            f"{words} ({_named(failed)} failed for good); fix the cause, then restart",
            lasting=True,
        )
    refused = [t for t in tasks if t["state"] == "UNASSIGNED" and t.get("reason") == GROUP_TOO_LARGE]
    if refused and state is not State.STOPPED:
        return _Verdict(
            GROUP_TOO_LARGE,
            f"the group's record at the broker has no room for {_named(refused)}; "
            f"{_counted(refused, tasks)}; raise max.message.bytes of __consumer_offsets (noticed "
            "within a minute), delete Connectors of this Worker, or delete this one and create it for "
            "another Worker",
            lasting=True,
        )
    if state is not State.STOPPED and not any(task.get("task", 0) < 0 for task in tasks):
        return _Verdict("Starting", "the connector's instance is not assigned yet")
    pending = _pending(state, tasks)
    if pending:
        return _Verdict("Progressing", "; ".join(filter(None, (_cause(pending), _counted(pending, tasks)))))
    waiting = [task for task in tasks if task.get("waits")]
    if waiting and state is State.RUNNING:
        return _Verdict("Waiting", _waited(waiting))
    return _Verdict()


def _pending(state: State, tasks: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The tasks that are not as asked yet."""
    return [task for task in tasks if task["state"] not in _AT_REST[state]]


def _cause(pending: Sequence[Mapping[str, Any]]) -> str:
    """Why the first of these tasks is not as asked, and what for it waits; empty if that is not known."""
    held = max((task for task in pending if "held_for" in task), key=_held_until_ms, default=None)
    if held is not None:
        until = timestamp(_held_until_ms(held))
        return f"{held['name']} waits for {held['held_for']} until {until} at the latest"
    again = next((task for task in pending if "next_attempt_ms" in task), None)
    if again is not None:
        return f"{in_words(error_of(again['trace']))} ({again['name']} will be retried)"
    waiting = [task for task in pending if task.get("waits")]
    return _waited(waiting) if waiting else ""


def _waited(waiting: Sequence[Mapping[str, Any]]) -> str:
    """The longest wait of these tasks, with who waits for the same."""
    longest = min((task["waits"][0] for task in waiting), key=lambda wait: wait.since_ms)
    same = [task for task in waiting if any(wait.text == longest.text for wait in task["waits"])]
    units = f"; {longest.named}" if longest.parts else ""
    return f"{longest.text} ({_named(same)}{units}; since {timestamp(longest.since_ms)})"


def _counted(pending: Sequence[Mapping[str, Any]], tasks: Sequence[Mapping[str, Any]]) -> str:
    """How many tasks are in which state yet, as people count tasks: without the instance."""
    states = Counter(str(task["state"]) for task in pending if task.get("task", 0) >= 0)
    all_tasks = counted(sum(task.get("task", 0) >= 0 for task in tasks), "task")
    if states:
        listed = ", ".join(f"{count:,} {state}" for state, count in sorted(states.items()))
        return f"of {all_tasks}: {listed}"
    return f"the connector's instance is {pending[0]['state']}"


def connector_state(state: State, tasks: Sequence[Mapping[str, Any]]) -> str:
    """The state of a Connector: the worst of its instance's and its tasks'; ``WAITING`` if one of them runs
    but waits for something, and ``Unknown`` without an instance.

    ``tasks``: as in :func:`connector_conditions`.
    """
    instance = next((str(task["state"]) for task in tasks if task.get("task", 0) < 0), "Unknown")
    pending = {str(task["state"]) for task in _pending(state, tasks)}
    if worst := [each for each in _WORST_FIRST if each in pending]:
        return worst[0]
    if state is State.RUNNING and instance != "Unknown" and any(task.get("waits") for task in tasks):
        return "WAITING"
    return instance


def _named(tasks: Sequence[Mapping[str, Any]]) -> str:
    """The names of the first tasks."""
    return ", ".join(str(task["name"]) for task in tasks[:3]) + (", …" if len(tasks) > 3 else "")


def _held_until_ms(task: Mapping[str, Any]) -> int:
    return int(task["held_until_ms"])


_WORST_FIRST: Final = (
    *("FAILED", "RESTARTING", "UNASSIGNED", "HELD"),
    *("STOPPING", "STARTING", "PAUSED", "STOPPED", "RUNNING"),
)
_AT_REST: Final[Mapping[State, frozenset[str]]] = {
    State.RUNNING: frozenset({"RUNNING"}),
    State.PAUSED: frozenset({"PAUSED"}),
    State.STOPPED: frozenset({"STOPPED", "UNASSIGNED"}),
}


def _status(holds: bool) -> ConditionStatus:
    return ConditionStatus.TRUE if holds else ConditionStatus.FALSE
