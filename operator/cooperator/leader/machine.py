"""The leader as a pure machine: events in, instructions out, ``now_ms`` an argument.

Theory of operation. Every change in the world (a report, a config record, a death, a deadline) ends in the
same question: *if a round were held now, would it change anything?* The machine asks the planner with
what it knows of the members, and requests a round only when the answer is yes (``between_rounds``). So a
round has one cause, changes that come close together share one, and no trigger can be forgotten. In the
round itself (``rounds``) the members' fresh reports are planned with, the memory is saved, and only then is
the plan sent.

Config records are written between rounds, never inside one, since a write in a round makes members see
an offset that the round does not name (docs/protocol.md, 6).

Only events change the state. Durable memories, written records and unreachable logs are reported as events,
too.
"""

from typing import Final

from cooperator.leader import events as ev
from cooperator.leader.between_rounds import BetweenRounds
from cooperator.leader.invariants import BrokenInvariant, check
from cooperator.leader.learner_reports import to_learn
from cooperator.leader.offer import offers
from cooperator.leader.planning import Planning
from cooperator.leader.reconciled import Reconciled
from cooperator.leader.regroup import unsettled
from cooperator.leader.repeats import REPEAT_MS, Repeats, RoundRequests
from cooperator.leader.rounds import Rounds
from cooperator.leader.state import LeaderSettings, LeaderState
from cooperator.leader.status_log_maintenance import StatusLogMaintenance
from cooperator.leader.stock.pending_starts import PendingStarts
from cooperator.leader.stock.write_window import WriteWindow
from cooperator.leader.story import StateSummary, Story, StoryLine
from cooperator.leader.writes import Writes
from cooperator.model import Epoch, Memory, Policy, ToLearn
from cooperator.planner.view import View

RETRY_MS: Final = 1_000
_STORY_LINES: Final = 40


class LeaderMachine:
    """Decides for one group. Feed it every event in order; carry out what it returns in order.

    An instruction that fails is answered with ``StepFailed``, and in a round with ``RoundFailed`` before it;
    those after it are dropped.
    """

    def __init__(self, settings: LeaderSettings, policy: Policy | None = None) -> None:
        self._settings = settings
        self._state = state = LeaderState(
            adopts=not settings.owns_config,
            policy=policy or Policy(),
            max_group_bytes=settings.max_group_bytes,
        )
        self._before = self._mark = StateSummary.of(state)
        self._durable: Memory | None = None
        self._now_ms = 0
        self._is_no_news = False
        """Whether the last event can change no decision."""
        self._story = Story()
        self._requests = RoundRequests(settings.coalesce_ms)
        self._repeats = Repeats()
        self._pending_starts = PendingStarts()
        self._write_window = WriteWindow(self._pending_starts)
        self._maintenance = StatusLogMaintenance(REPEAT_MS)
        self._writes = Writes(settings, state, self._repeats, self._write_window)
        self._planning = Planning(state, self._maintenance, settings.assignors)
        self._reconciled = Reconciled(settings, state, self._planning)
        tenure = (self._maintenance, self._pending_starts, self._write_window, self._reconciled)
        self._rounds = Rounds(settings, state, self._planning, self._requests, *tenure)
        self._between = BetweenRounds(
            settings, state, self._planning, self._requests, self._repeats, self._writes, *tenure
        )

    # --- what others may read -----------------------------------------------------------------------

    @property
    def settings(self) -> LeaderSettings:
        return self._settings

    @property
    def state(self) -> LeaderState:
        """The current state. Read only."""
        return self._state

    @property
    def forced_rounds(self) -> int:
        """Rounds that own records in the config log have caused; only grows."""
        return self._write_window.forced

    @property
    def wants_round(self) -> bool:
        """Whether a round is wanted that has not begun."""
        return self._requests.pending

    @property
    def offers_reconciliation(self) -> bool:
        """Whether the leader's next JoinGroup offers the protocol in which rounds assign no tasks."""
        return offers(self._state)

    def why_in_rounds(self, now_ms: int) -> str:
        """Returns why the group does not leave rounds; empty if it has left them, or does so next."""
        return "" if self._state.group is not None else self._reconciled.obstacle(now_ms)

    def delivered_epoch(self) -> Epoch | None:
        """The epoch that the members are in; None while not leading or while a round is under way."""
        state = self._state
        if not state.leading or state.in_round or state.completed != state.generation:
            return None
        return Epoch(state.memory.term, state.generation)

    def living_members(self) -> dict[str, str]:
        """The members of the last round whose end is not proven: their identities by member id."""
        ended, members = self._state.facts.ended, self._state.members
        return {m.member_id: m.identity for m in members if (m.identity, m.incarnation) not in ended}

    def absent_unproven(self) -> tuple[str, ...]:
        """Identities whose tasks are held and whose end is not proven: one of them may have become the
        leader.
        """
        ended, holds = self._state.facts.ended, self._state.memory.holds
        return tuple(i for i, hold in holds.items() if (i, hold.incarnation) not in ended)

    def view(self, now_ms: int, cause: str) -> View:
        """The view with which a round would be planned now."""
        return self._planning.view(now_ms, cause)

    def to_learn(self, member_id: str, now_ms: int) -> tuple[ToLearn, ...] | None:
        """The tasks that this member is to learn; None: it was not in the last round."""
        state = self._state
        return to_learn(state.learners, state.memory, state.members, member_id, now_ms)

    def lacks_for_hand_back(self, now_ms: int) -> str:
        """Returns why a stock worker that led from now on would move something; empty when it would not."""
        return self._between.lacks_for_hand_back(now_ms)

    def story(self) -> tuple[StoryLine, ...]:
        """Returns how the state came about: the last events with their effects, oldest first."""
        return self._story.lines

    def validate(self) -> None:
        """Raise BrokenInvariant, with the end of the story, unless the state is consistent.

        Tests call it after every event. A leader at work does not: it takes as long as planning a round, and
        an inconsistent leader is safer for the members than none.
        """
        request_ms = self._requests.due_ms if self._state.leading and not self._state.in_round else None
        deadlines_ms = [*self._writes.waiting_until_ms(), *([] if request_ms is None else [request_ms])]
        try:
            check(self._state, self._before, self._mark, self._durable, deadlines_ms, self._now_ms)
        except BrokenInvariant as broken:
            history = "\n".join(map(str, self.story()[-_STORY_LINES:]))
            raise BrokenInvariant(f"at {self._now_ms}: {broken}\n{history}") from None

    # --- the one way to change it -------------------------------------------------------------------

    def handle(self, event: ev.Event, now_ms: int) -> list[ev.Instruction]:
        """The instructions that follow from ``event``."""
        self._before, self._now_ms = self._mark, now_ms
        out = self._learn(event, now_ms)
        if not isinstance(event, _ENDS_HERE) and not self._is_no_news:
            out = [*out, *self._between.consider(now_ms)]
        for instruction in out:
            if isinstance(instruction, ev.WakeAt):
                self._state.wake_at_ms = instruction.at_ms
        self._mark = StateSummary.of(self._state)
        self._story.tell(event, now_ms, self._before, self._mark, out)
        return out

    def _learn(self, event: ev.Event, now_ms: int) -> list[ev.Instruction]:
        """Note what ``event`` says; the instructions are those that only this event can cause."""
        state = self._state
        self._is_no_news = False
        # A shell wakes the machine when nothing else is there to be handled.
        state.is_idle = isinstance(event, ev.Tick)
        match event:
            case ev.LeadTaken():
                return self._rounds.lead_taken(event, now_ms)
            case ev.LeadLost():
                self._rounds.lead_lost()
                self._repeats.clear()
                return [*self._reconciled.lost(), *self._writes.lead_lost()]
            case ev.RoundReady():
                out = self._rounds.ready(event, now_ms)
                return out if state.in_round else [*out, self._between.wake(now_ms)]
            case ev.RoundFailed():
                self._rounds.failed(event)
            case ev.GroupLimitRead(record_bytes):
                self._rounds.limit_read(record_bytes, now_ms)
            case ev.Delivered():
                self._rounds.delivered(event, now_ms)
            case ev.Joining():
                self._write_window.joining()
                state.is_joining = True
            case ev.MemorySaved(memory, number):
                state.saved = self._durable = memory
                state.unwritten = ""
                state.orphans = memory.orphans
                self._reconciled.memory_saved(number)
            case ev.GroupSaved(number):
                return self._reconciled.saved(number)
            case ev.ReportsReceived():
                return self._reconciled.hear(event, now_ms)
            case ev.ConfigWritten():
                return self._writes.written(event)
            case ev.ConfigRefused():
                return self._writes.refused(event, now_ms)
            case ev.StepFailed(reason, unwritten):
                state.trouble = reason
                state.unwritten = reason if unwritten else state.unwritten
                state.limit_in_doubt = True  # Reading it may have been dropped.
                self._reconciled.failed()
                # The wake-up that was asked for last may be among the instructions that were dropped.
                wake_ms = state.wake_at_ms or 0
                retry_ms = now_ms + RETRY_MS
                at_ms = min(wake_ms, retry_ms) if wake_ms > now_ms else retry_ms
                return [*self._writes.failed(), ev.WakeAt(at_ms)]
            case ev.ConfigChanged(config):
                state.config = config
                state.regroups = unsettled(state.regroups, config)
            case ev.DesiredChanged(desired, events):
                state.desired = desired
                state.causes.hear(events, now_ms)
            case ev.FactsChanged(facts, events):
                state.facts = facts
                state.causes.hear(events, now_ms)
            case ev.PolicyChanged(policy):
                changed, state.policy = state.policy != policy, policy
                return [ev.SavePolicy(policy)] if changed and state.leading else []
            case ev.HandBack(wanted):
                state.handing_back = wanted
            case ev.StatusesRead(statuses):
                self._pending_starts.hear(statuses)
                return self._maintenance.take(event, state, now_ms) if state.leading else []
            case ev.TasksPosted():
                return self._writes.post_tasks(event, now_ms)
            case ev.RestartRequested():
                return self._writes.restart(event)
            case ev.ProducersFenced():
                return self._writes.fenced(event, now_ms)
            case ev.LearnerReported():
                self._is_no_news = not state.learners.hear(event, state.members, now_ms)
            case ev.FenceRequested(connector):
                self._pending_starts.asked_for_fence(connector)
            case ev.Tick():
                pass
        return []


_ENDS_HERE: Final = (
    ev.LeadTaken,
    ev.LeadLost,
    ev.RoundReady,
    ev.MemorySaved,
    ev.GroupSaved,
    ev.ConfigWritten,
    ev.ConfigRefused,
    ev.StepFailed,
)
"""Events that derive no instructions from the state, because another event follows at once or at the wake-up.

``MemorySaved``, ``GroupSaved``, ``ConfigWritten`` and ``ConfigRefused`` come while instructions are carried
out, which were derived already.
"""
