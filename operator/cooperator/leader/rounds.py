"""A tenure and its rounds: what a leader learns when it takes the lead, and how it answers a round. Pure.

    LeadTaken --> RoundReady --> SaveMemory, Answer --> Delivered --> (between rounds) --> RoundReady ...

A plan that the group's record at the broker has no room for is handed out in several rounds (``fitting``).
A plan counts from its answer on. If the answer does not reach the members, the memory before it is restored,
unless it is durable already; what the members hold is unknown until they report again.
"""

from dataclasses import replace

from cooperator.leader import absences, answers
from cooperator.leader import events as ev
from cooperator.leader.config_topic import round_refusal
from cooperator.leader.group_record import GroupRecord, record_of, usable_bytes
from cooperator.leader.held_reports import as_reported
from cooperator.leader.history import changes_of
from cooperator.leader.identities import Identities, addresses
from cooperator.leader.offer import is_chosen
from cooperator.leader.planning import Planning
from cooperator.leader.reconcile import with_managed
from cooperator.leader.reconciled import Reconciled
from cooperator.leader.regroup import committed_since, unsettled
from cooperator.leader.repeats import REPEAT_MS, RoundRequests
from cooperator.leader.state import LeaderSettings, LeaderState, Sent
from cooperator.leader.status_log_maintenance import StatusLogMaintenance
from cooperator.leader.stock.members import holding_down
from cooperator.leader.stock.pending_starts import PendingStarts
from cooperator.leader.stock.write_window import WriteWindow
from cooperator.model import Epoch, Member, Memory, PolicyName
from cooperator.planner.plan import Plan
from cooperator.wire import AgentAssignment, Protocol

REFUSED_PAUSE_MS = 30_000
"""The leader looks so often whether its reason for planning or assigning nothing is gone."""


class Rounds:
    """Answers rounds for the machine, whose parts it shares."""

    def __init__(
        self,
        settings: LeaderSettings,
        state: LeaderState,
        planning: Planning,
        requests: RoundRequests,
        maintenance: StatusLogMaintenance,
        pending_starts: PendingStarts,
        write_window: WriteWindow,
        reconciled: Reconciled,
    ) -> None:
        self._settings = settings
        self._state = state
        self._planning = planning
        self._requests = requests
        self._maintenance = maintenance
        self._pending_starts = pending_starts
        self._write_window = write_window
        self._reconciled = reconciled
        self._known: tuple[Member, ...] | None = None
        """The members of the round before, with all that they may run; None: that is not known."""
        self._identities = Identities(settings, state, pending_starts)

    def lead_taken(self, event: ev.LeadTaken, now_ms: int) -> list[ev.Instruction]:
        state = self._state
        state.policy = event.policy or state.policy
        own_term = state.memory.term
        memory = self._reconciled.taken(event, now_ms)
        memory = absences.by_own_clock(memory, own_term, state.policy, self._settings.awaited_ms, now_ms)
        # The log may not say the own term: saving it may have failed, or the log was lost.
        state.memory = replace(memory, term=max(memory.term, own_term) + 1)
        if state.group is not None:
            state.group = replace(state.group, term=state.memory.term)
        evicted = self._identities.tell(event.evicted)
        state.memory = absences.with_evicted(state.memory, evicted)
        state.saved = None
        state.planned_with = state.memory
        state.config = event.config
        unread = self._identities.of_unread(event.unread)
        state.await_evicted(evicted, unread, now_ms, self._settings.awaited_ms)
        state.leading = state.is_new = True
        state.has_completed = False
        state.members = ()
        state.sent = None
        state.regroups = {}
        state.learners.clear()
        state.topic_refusal = state.refusal = ""
        state.refused_tasks = ()
        state.record = GroupRecord()
        state.limit_read_ms, state.limit_in_doubt = None, False
        self._maintenance.clear()
        self._pending_starts.clear()
        state.in_round = True
        state.may_reconcile = state.is_blind = state.is_joining = False
        return [*self._reconciled.save(state.memory), ev.SavePolicy(state.policy)]

    def lead_lost(self) -> None:
        state = self._state
        state.leading = state.in_round = False
        state.members = ()
        state.awaited = {}
        state.returning = {}
        state.relocated = {}
        state.regroups = {}
        state.learners.clear()
        state.plan = state.sent = None
        state.may_reconcile = state.is_blind = state.is_joining = False
        self._requests.clear()

    def ready(self, event: ev.RoundReady, now_ms: int) -> list[ev.Instruction]:
        """Answer the round that all members have joined."""
        event, requested, turns = self._learn(event)
        state = self._state
        away = state.still_away(event.members, now_ms)
        if state.may_reconcile and not is_chosen(event.protocol):
            self._reconciled.pauses.not_chosen(now_ms)
        state.topic_refusal = round_refusal(self._settings, event, state.is_new)
        if state.topic_refusal:
            return [answers.unchanged(event, self._settings.url)]
        if event.highest_offset > event.config.offset:
            return self._behind(event, now_ms)
        latest = max((m.applied.term for m in event.members if m.applied is not None), default=0)
        if latest > state.memory.term:
            # The leader log was lost: members would refuse every assignment of an older term.
            state.memory = replace(state.memory, term=latest + 1)
            if state.group is not None:
                state.group = replace(state.group, term=state.memory.term)
        if state.is_new:
            until_ms = now_ms + self._settings.awaited_ms
            seen = event.members, state.evicted, away
            state.memory = absences.after_strangers(
                state.memory, event.generation, *seen, state.policy, now_ms, until_ms
            )
            state.is_new = False
        if is_chosen(event.protocol):
            return self._reconcile(event, requested or "members changed", now_ms)
        if state.group is not None:
            self._reconciled.end(event.members, now_ms)
        state.memory = state.planned_with = absences.for_round(state.memory, event.generation)
        self._identities.note_relocated(event.members, now_ms)
        cause = requested or "members changed"
        pending = state.causes.pending(now_ms)
        view = replace(self._planning.view(now_ms, pending or cause), turns_eager=turns)
        agent = AgentAssignment(
            Epoch(0, event.generation),
            state.policy.lease_ms,
            stops_before_join=state.policy.name is PolicyName.EAGER,
        )
        empty_bytes = answers.empty_bytes(event, self._settings.url, agent)
        state.record = record_of(event.members, event.idle_ids, event.metadata_bytes, empty_bytes)
        fitted = self._planning.decide(view, state.memory)
        plan, memory = fitted.plan, fitted.memory
        if turns:
            self._requests.want("the group has turned eager", now_ms)
        events = state.causes.of_round(pending, state.memory, memory)
        memory = replace(
            memory,
            generation=event.generation,
            stock=absences.may_be_stock(event.members, state.memory, memory),
            addresses=addresses(state.memory, memory, event.members),
        )
        memory = with_managed(memory, state.memory, state.desired, state.config)
        epoch = Epoch(memory.term, event.generation)
        assignment = agent._replace(epoch=epoch, events=events)
        limit_bytes = state.max_group_bytes
        names = self._planning.known_names
        answer = answers.of_plan(
            event, plan, self._settings.url, assignment, state.record, limit_bytes, names
        )
        self._planning.note_refused(fitted)
        if fitted.postponed and self._planning.policy.name is not PolicyName.DEFAULT and not plan.is_empty:
            self._requests.want("the rest of a plan that is handed out in several rounds", now_ms)
        state.history.note_births(state.members, state.memory, epoch)
        changes = changes_of(plan, state.members)
        state.history.record(changes, len(plan.held), state.memory, memory, cause, now_ms, events)
        self._note_late_commit(event)
        return self._send(event, answer, plan, memory)

    def _learn(self, event: ev.RoundReady) -> tuple[ev.RoundReady, str, bool]:
        """The event with identities, why the round was requested, and whether the group has turned eager."""
        state = self._state
        is_known = state.completed == state.generation and not state.is_blind and state.group is None
        self._known = state.members if is_known and not state.in_round else None
        event = replace(event, members=self._identities.tell(event.members))
        state.config = event.config
        state.generation = event.generation
        state.leader_id = event.leader_id
        ids = {member.member_id for member in state.members}
        state.held_down_by = holding_down(
            event.protocol, state.protocol, ids, state.held_down_by, event.members
        )
        turns = event.protocol == Protocol.DEFAULT.value != state.protocol
        state.protocol = event.protocol
        state.members = event.members
        state.in_round, state.sent = True, None
        state.is_joining = False
        state.is_blind = is_chosen(event.protocol) and state.group is None
        if is_chosen(event.protocol) and state.group is not None:
            state.members = tuple(as_reported(state.group, member) for member in event.members)
        state.regroups = unsettled(state.regroups, state.config)
        self._write_window.round(event.generation, event.members, event.offsets, event.config.offset)
        self._pending_starts.report(event.members, state.facts.ended)
        return event, self._requests.begun(), turns

    def _reconcile(self, event: ev.RoundReady, cause: str, now_ms: int) -> list[ev.Instruction]:
        """The members are told the term, and no tasks.

        They have reported none, either: a leader that does not know what they run assigns nothing, and has
        another round in which they report it.
        """
        state = self._state
        if state.group is None:
            reason = self._reconciled.begin(event.members, self._known, now_ms)
            if reason:
                state.may_reconcile = False
                self._requests.want(f"members have to report their tasks: {reason}", 0)
                return [answers.mismatch(event, self._settings.url)]
            state.saved, state.is_blind = None, False
            self._maintenance.clear()
        state.planned = state.config
        # No round assigns tasks, so the group's record at the broker has room for all.
        state.refused_tasks, state.refusal = (), ""
        return self._reconciled.round(event, cause, now_ms)

    def _behind(self, event: ev.RoundReady, now_ms: int) -> list[ev.Instruction]:
        """Members have read more of the config log than the leader can: nothing is planned."""
        state = self._state
        if state.behind_ms is not None and now_ms < state.behind_ms + REPEAT_MS:
            # Not once more at once: members that can never be reached would have rounds without end.
            self._requests.hold_off(now_ms + REPEAT_MS)
        state.behind_ms = now_ms
        if event.config_end is None and not self._settings.owns_config:
            self._write_window.is_behind = False  # The topic may be a wrong one: no filler.
        self._requests.want("members have read more of the config log than the leader", 0)
        return [answers.mismatch(event, self._settings.url)]

    def _note_late_commit(self, event: ev.RoundReady) -> None:
        """Members that joined before the newest commit stop what it changes when they read it, and wait."""
        state = self._state
        late = any(offset < event.config.offset for offset in event.offsets.values())
        state.commit_is_late = (
            late and not state.commit_is_late and committed_since(state.planned, state.config)
        )
        if not state.commit_is_late:
            state.planned = state.config

    def _send(
        self, event: ev.RoundReady, answer: ev.Answer, plan: Plan, memory: Memory
    ) -> list[ev.Instruction]:
        state = self._state
        epoch = Epoch(memory.term, event.generation)
        self._maintenance.starts.give(event.members, plan, epoch)
        state.plan = plan
        state.sent = Sent(plan, memory, state.facts)
        state.memory = memory
        state.members = tuple(answers.projected(event.members, plan, epoch))
        if not state.is_durable:
            return [*self._reconciled.save(memory), answer]
        state.saved = memory  # The next one has its sets: identical objects compare at once.
        return [answer]

    def limit_read(self, record_bytes: int | None, now_ms: int) -> None:
        """The broker's limit of a group's record has been read, or could not be."""
        state = self._state
        before, state.limit_in_doubt = state.max_group_bytes, False
        if record_bytes is not None:
            state.max_group_bytes = usable_bytes(record_bytes)
        is_asked = self._planning.policy.name is PolicyName.DEFAULT
        if state.max_group_bytes > before and state.refused_tasks and not is_asked:
            self._requests.want("the broker takes larger records of a group", now_ms)

    def delivered(self, event: ev.Delivered, now_ms: int) -> None:
        """The assignments are with the members: what of them stock workers take up is followed from now."""
        state = self._state
        if event.generation != state.generation:
            return
        state.in_round = False
        state.completed = event.generation
        state.has_completed = True
        if state.sent is not None:
            self._pending_starts.give(state.members, state.sent.plan, state.generation, now_ms)
        self._write_window.delivered(state.generation, state.config.offset, now_ms)

    def failed(self, event: ev.RoundFailed) -> None:
        state = self._state
        if event.generation != state.generation or event.generation == state.completed:
            return
        state.limit_in_doubt = True
        state.in_round = False
        state.trouble = event.reason or state.trouble
        if state.group is None and not state.is_durable:
            # A write without an answer may have happened: the contents of the log are unknown until the next.
            state.memory, state.saved = state.planned_with, None
        # The members' tasks are unknown until they report again.
        self._requests.want("the last round failed" if event.reason else "the last round was superseded", 0)
