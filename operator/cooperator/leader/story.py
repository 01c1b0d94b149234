"""The story of a leader: its last events and what came of each. Nothing is decided by it. Pure."""

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from cooperator.leader import events as ev
from cooperator.leader.state import LeaderState
from cooperator.model.text import counted, listed

_LINES: Final = 2_000
_SHOWN: Final = 5


@dataclass(frozen=True, slots=True)
class StoryLine:
    """One effect of an event. ``cause``: the event and its number; ``at_ms``: by the leader's clock."""

    at_ms: int
    cause: str
    what: str

    def __str__(self) -> str:
        return f"{self.at_ms} {self.cause}: {self.what}"


class StateSummary(NamedTuple):
    """The parts of a state that a story follows."""

    leading: bool
    in_round: bool
    term: int
    generation: int
    completed: int
    protocol: str
    policy: str
    offset: int
    members: int
    held: int
    awaited: tuple[str, ...]
    regrouping: tuple[str, ...]
    trouble: str
    refusal: str
    topic_refusal: str

    @classmethod
    def of(cls, state: LeaderState) -> "StateSummary":
        return cls(
            leading=state.leading,
            in_round=state.in_round,
            term=state.memory.term,
            generation=state.generation,
            completed=state.completed,
            protocol=state.protocol,
            policy=state.policy.name.value,
            offset=state.config.offset,
            members=len(state.members),
            held=0 if state.plan is None else len(state.plan.held),
            awaited=tuple(sorted(state.awaited)),
            regrouping=tuple(sorted(state.regroups)),
            trouble=state.trouble,
            refusal=state.refusal,
            topic_refusal=state.topic_refusal,
        )

    def changes(self, after: "StateSummary") -> Iterator[str]:
        for name, old, new in zip(self._fields, self, after, strict=True):
            if old != new:
                yield f"{name}: {old!r} -> {new!r}"


class Story:
    """The last lines. An event without effects has none."""

    def __init__(self) -> None:
        self._lines: deque[StoryLine] = deque(maxlen=_LINES)
        self._events = 0

    @property
    def lines(self) -> tuple[StoryLine, ...]:
        """Oldest first."""
        return tuple(self._lines)

    def tell(
        self,
        event: ev.Event,
        now_ms: int,
        before: StateSummary,
        after: StateSummary,
        out: Iterable[ev.Instruction],
    ) -> None:
        """Note what came of ``event``: the changes of the state, then the instructions."""
        self._events += 1
        cause = f"{type(event).__name__}#{self._events}"
        texts = (text for instruction in out if (text := description_of(instruction)))
        for what in (*before.changes(after), *texts):
            self._lines.append(StoryLine(now_ms, cause, what))


def description_of(instruction: ev.Instruction) -> str:
    """A text without configurations; empty if the instruction is not worth a line."""
    match instruction:
        case ev.SaveMemory(memory):
            return f"save the memory of {memory.term}.{memory.generation}"
        case ev.SaveGroup(number, records, memory):
            also = "" if memory is None else f", and the memory of term {memory.term}"
            return f"save {counted(len(records), 'record')} of the group (write {number}){also}"
        case ev.AnswerReport():
            return ""
        case ev.SavePolicy(policy):
            return f"save the policy {policy.name.value}"
        case ev.Answer(generation, assignments, written):
            members = counted(len(assignments), "member")
            return f"answer {generation}: {members}, {len(written)} assigned something"
        case ev.WriteConfig(records, why):
            return f"write {counted(len(records), 'config record')}: {why}"
        case ev.MakeSessionKey():
            return "make a session key"
        case ev.RequestRejoin(reason):
            return f"request a round: {reason}"
        case ev.Evict(member_ids, reason):
            return f"evict {_named(member_ids)}: {reason}"
        case ev.ReadStatuses(incarnations, leftovers):
            what = [*(f"{identity} ({of})" for identity, of in sorted(incarnations))]
            return f"read the statuses of {_named(what)}" if what else "find leftovers" if leftovers else ""
        case ev.ReadGroupLimit():
            return "read the broker's limit of a group's record"
        case ev.ForgetStatuses(items):
            return f"forget the statuses of {_named(map(str, items))}"
        case ev.Reply(request, code):
            return f"reply {code} to request {request}"
        case ev.WakeAt():
            return ""


def _named(names: Iterable[str]) -> str:
    return listed(list(names), _SHOWN)
