"""The leader of a group that reconciles without rounds (docs/reconciliation.md, decision 121). Pure.

A round tells who is a member. Between rounds the planner's layout is the members' target, and their reports
move each of them towards it. The leader log has everything that an answer gives before the answer is sent.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from cooperator.leader import absences, answers
from cooperator.leader import events as ev
from cooperator.leader.group_log import GroupLog
from cooperator.leader.group_memory import given_of, lacks, restored, stripped
from cooperator.leader.held_reports import HeldReports, as_reported
from cooperator.leader.history import changes_of_targets
from cooperator.leader.offer import Pauses, offers
from cooperator.leader.planning import Layout, Planning
from cooperator.leader.state import LeaderSettings, LeaderState
from cooperator.model import Epoch, Member, Memory, PolicyName, TaskId, Unstopped, Warmth
from cooperator.planner.plan import Plan
from cooperator.planner.roster import survey
from cooperator.reconciliation import (
    ReconciledGroup,
    depart,
    end,
    from_round,
    join,
    obstacle,
    retarget,
    ungiven,
)
from cooperator.wire import AgentAssignment

GATHER_MS = 50
"""Changes within this time share a new target."""
GATHERED_TASKS_PER_MS = 200
"""It is longer in large groups, whose layouts take their time."""


class Reconciled:
    """Leads one group between rounds, for the machine, whose parts it shares."""

    def __init__(self, settings: LeaderSettings, state: LeaderState, planning: Planning) -> None:
        self._settings = settings
        self._state = state
        self._planning = planning
        self._log = GroupLog()
        self._saved_memory: Memory | None = None
        self._sent_memory: Memory | None = None
        self._reports = HeldReports(settings, state)
        self.pauses = Pauses()
        self._first: tuple[Layout, Plan, Memory] | None = None
        """The plan of the round that made the group, and the memory before it, until it is the target."""
        self._basis: tuple[object, ...] = ()
        """The inputs of the last layout."""
        self._laid_out_ms = 0
        self._here: set[tuple[str, str]] = set()
        """The incarnations that the broker counts as members."""

    # --- the lead -----------------------------------------------------------------------------------

    def taken(self, event: ev.LeadTaken, now_ms: int) -> Memory:
        """Begin a tenure with the leader log's group, if it is of the last leader; returns the memory."""
        state, memory = self._state, event.memory
        self._clear()
        state.group = self._log.read(event.records, memory.term)
        if state.group is None:
            return memory
        # The clock of the leader before may be another, and it may have counted these as members until now.
        until_ms, by_ms = now_ms + state.policy.fence_ms, now_ms + self._settings.revocation_timeout_ms
        fences = {key: replace(fence, until_ms=until_ms) for key, fence in state.group.fences.items()}
        members = {
            identity: member if member.revoke_by_ms is None else replace(member, revoke_by_ms=by_ms)
            for identity, member in state.group.members.items()
        }
        state.group = replace(state.group, fences=fences, members=members)
        return restored(memory, state.group)

    def lost(self) -> list[ev.Instruction]:
        """End the tenure; returns the replies to the reports that wait."""
        self._state.group = None
        return self._clear()

    def _clear(self) -> list[ev.Instruction]:
        self._first, self._basis, self._here = None, (), set()
        self._state.avoided = frozenset()
        self._saved_memory = self._sent_memory = None
        self._state.unreached = ""
        return [*self._reports.clear()]

    # --- the log ------------------------------------------------------------------------------------

    def save(self, memory: Memory) -> list[ev.Instruction]:
        """Write ``memory``, with the group or with what ends it."""
        group = self._state.group
        records = self._log.due(group)
        number = self._log.sending(group, records)
        if group is None:
            return [ev.SaveMemory(memory, records, number)]
        if not self._is_memory_due(memory):
            return [ev.SaveGroup(number, records, None)]
        self._sent_memory = memory
        return [ev.SaveGroup(number, records, stripped(memory))]

    def saved(self, number: int) -> list[ev.Instruction]:
        """A write is durable: the answers that have waited for it may be sent."""
        state = self._state
        self._log.saved(number)
        if self._sent_memory is not None:
            self._saved_memory, self._sent_memory = self._sent_memory, None
            state.orphans = self._saved_memory.orphans
        state.unwritten = ""
        return self.save(state.memory) if self._is_due else self._reports.release()

    def memory_saved(self, number: int) -> None:
        """The write of a memory in rounds is durable."""
        self._log.saved(number)

    def failed(self) -> None:
        """A write may have failed."""
        self._log.failed()
        if self._sent_memory is not None:
            self._saved_memory = self._sent_memory = None

    @property
    def _is_due(self) -> bool:
        return self._is_memory_due(self._state.memory) or bool(self._log.due(self._state.group))

    def _is_memory_due(self, memory: Memory) -> bool:
        return lacks(self._saved_memory, memory, self._settings.owns_config)

    # --- rounds -------------------------------------------------------------------------------------

    def obstacle(self, now_ms: int) -> str:
        """Returns why the group of the last round cannot leave rounds; empty if it can."""
        state = self._state
        if not state.policy.reconciles or self._planning.policy.name is not PolicyName.DEFAULT:
            return "the policy asks for rounds"
        if state.learners.stateful:
            return f"tasks with state learn in rounds: {min(state.learners.stateful)} has stateReplicas"
        if not state.members:
            return "it has no members"
        if state.handing_back or state.topic_refusal or state.is_blind:
            return "no tasks are assigned now"
        for member in state.members:
            if not (member.is_agent and member.reconciles):
                return f"{member.identity} offers rounds only"
        if state.unreached:
            return f"{state.unreached} does not reach the leader"
        if state.in_round or state.completed != state.generation:
            return "a round is under way"
        if now_ms < self.pauses.again_ms:
            return "a member has not read the policy yet"
        return obstacle(state.memory, state.members, state.awaited, now_ms, state.policy.fence_ms)

    def begin(self, members: tuple[Member, ...], known: tuple[Member, ...] | None, now_ms: int) -> str:
        """Make the group of the round that has chosen the protocol.

        ``known``: the members of the round before with all that they may run; None: that is not known.
        Returns why it cannot be; empty if it is done.
        """
        state = self._state
        if known is None:
            return "it is not known what the members run"
        before = {(member.identity, member.incarnation): member for member in known}
        present: list[Member] = []
        for member in members:
            last = before.get((member.identity, member.incarnation))
            if last is not None:
                present.append(member.having(last.owned, last.stopping, member.applied))
            elif member.applied is None:
                present.append(member)
            else:
                return f"it is not known what {member.identity} runs"
        state.members = tuple(present)
        view = self._planning.view(now_ms, "the group leaves rounds")
        layout, plan, memory = self._planning.lay_out(view, state.memory)
        fence_ms = state.policy.fence_ms
        reason = obstacle(memory, present, state.awaited, now_ms, fence_ms)
        if reason:
            return reason
        # Epochs of attempts are of the group from now on, and must be greater than all that were of rounds.
        memory = replace(self._remembering(memory), term=memory.term + 1)
        timeout_ms = self._settings.revocation_timeout_ms
        state.group = from_round(memory, present, state.awaited, now_ms, fence_ms, timeout_ms)
        # A second layout would not know to whom the tasks are owed that this one gives back.
        self._first = layout, plan, state.memory
        state.memory = memory
        return ""

    def round(self, event: ev.RoundReady, cause: str, now_ms: int) -> list[ev.Instruction]:
        """Answer a round of a reconciled group: members come and go, and no task is assigned or revoked."""
        state = self._state
        assert state.group is not None
        self.pauses.chosen()
        before, fence_ms = state.memory, state.policy.fence_ms
        # As in ``absences.for_round``: in a round that went by unplanned, anybody may have been a member.
        is_gap = event.generation != before.generation + 1
        memory = absences.for_round(before, event.generation)
        state.memory = state.planned_with = replace(memory, generation=event.generation)
        current = survey(self._planning.view(now_ms, cause), state.memory).current
        group = state.group
        for key in group.fences.keys() if is_gap else self._here & group.fences.keys():
            fence = replace(group.fences[key], until_ms=now_ms + fence_ms)
            group = replace(group, fences={**group.fences, key: fence})
        self._here = {(member.identity, member.incarnation) for member in state.members}
        for identity in [*group.members]:
            if identity not in current:
                state.memory = absences.not_given(state.memory, {identity: ungiven(group, identity)})
                group = depart(group, identity, now_ms, fence_ms)
        for identity, member in current.items():
            group = join(group, identity, member.incarnation, now_ms, fence_ms)
        state.group = group
        self._reports.expect(group, now_ms)
        members = self._as_reported(state.members)
        known = before if self._first is None else self._first[2]
        state.history.note_births(members, known, Epoch(state.memory.term, group.epoch))
        self._lay_out(now_ms, cause, is_round=True)
        epoch = Epoch(state.memory.term, event.generation)
        state.members = tuple(m.having(m.owned, m.stopping, epoch) for m in state.members)
        assignment = AgentAssignment(epoch, state.policy.lease_ms)
        answer = answers.nothing(event, self._settings.url, assignment)
        return [*self.save(state.memory), answer]

    def end(self, members: Iterable[Member], now_ms: int) -> None:
        """The round has chosen another protocol, whose members report all that they run.

        No answer that this leader has given is applied after such a report.
        """
        state = self._state
        group = state.group
        assert group is not None
        present = {(member.identity, member.incarnation) for member in members}
        fence_ms = state.policy.fence_ms
        for identity, member in group.members.items():
            if (identity, member.incarnation) not in present:
                group = depart(group, identity, now_ms, fence_ms)
        fenced = tuple(
            Unstopped(identity, incarnation, fence.tasks, gone_since_ms=fence.until_ms - fence_ms)
            for (identity, incarnation), fence in group.fences.items()
            if (identity, incarnation) not in present
        )
        state.memory = replace(
            state.memory,
            term=state.memory.term + 1,
            given=given_of(group),
            unstopped=(*state.memory.unstopped, *fenced),
        )
        state.group = self._saved_memory = None
        self._reports.dismiss()

    def _remembering(self, memory: Memory) -> Memory:
        """``memory`` of a layout, with what layouts do not concern: it is of no later round, either."""
        before = self._state.memory
        memory = replace(memory, generation=before.generation)
        return replace(memory, managed=before.managed, orphans=before.orphans, addresses=before.addresses)

    # --- between rounds -----------------------------------------------------------------------------

    def hear(self, event: ev.ReportsReceived, now_ms: int) -> list[ev.Instruction]:
        """See ``HeldReports.hear``."""
        return self._reports.hear(event, now_ms)

    def reason_for_round(self, now_ms: int) -> str:
        """Returns why a round should choose between the protocols anew; empty if it need not."""
        state = self._state
        if state.group is not None:
            if not state.unreached:
                state.unreached = self._reports.silent(now_ms)
                self.pauses.unreached(now_ms)
            if offers(state) or state.is_joining:
                return ""
            reason = f": {state.unreached} does not reach the leader" if state.unreached else ""
            return f"tasks are to be assigned in rounds{reason}"
        if now_ms >= self.pauses.rounds_until_ms:
            state.unreached = ""
        state.may_reconcile = not self.obstacle(now_ms)
        is_asked = state.may_reconcile and not state.is_joining
        return "tasks can be reconciled without rounds" if is_asked else ""

    def consider(self, now_ms: int) -> list[ev.Instruction]:
        """Everything that should be done now: a new layout, answers, and what must be durable before."""
        state = self._state
        if state.group is None:
            return self._reports.release()
        state.group = self._without_ended(state.group, now_ms)
        self._reports.look(now_ms)
        if not state.in_round and not state.topic_refusal and self._is_layout_due(now_ms):
            self._lay_out(now_ms, "inputs changed")
        self._reports.consider(now_ms)
        asked = self._reports.ask()
        return [*asked, *(self.save(state.memory) if self._is_due else self._reports.release())]

    def next_ms(self, now_ms: int) -> list[int]:
        """Times (ms) at which something may have to be done without an event."""
        group = self._state.group
        if group is None:
            return [*self.pauses.next_ms(now_ms)]
        times = [fence.until_ms for key, fence in group.fences.items() if key not in self._here]
        times += self._reports.next_ms(now_ms)
        if self._inputs(now_ms) != self._basis:
            times.append(self._gathered_ms(group))
        return [at_ms for at_ms in times if at_ms > now_ms]

    def _without_ended(self, group: ReconciledGroup, now_ms: int) -> ReconciledGroup:
        """The group without incarnations whose end is certain."""
        state = self._state
        for identity, incarnation in sorted(state.facts.ended):
            member = group.members.get(identity)
            is_member = member is not None and member.incarnation == incarnation
            if is_member:
                state.memory = absences.not_given(state.memory, {identity: ungiven(group, identity)})
            if is_member or (identity, incarnation) in group.fences:
                group = end(group, identity, incarnation)
        # One that another incarnation has replaced keeps its lease while the broker counts it as a member.
        over = [key for key, fence in group.fences.items() if fence.until_ms <= now_ms]
        for key in over if self._knows_members else ():
            if key not in self._here:
                group = end(group, *key)
        return group

    @property
    def _knows_members(self) -> bool:
        """Whether no round can have renewed leases since the last planned one: the broker answers its members
        first, and the leader later."""
        state = self._state
        return not state.is_joining and state.memory.generation == state.generation

    def _inputs(self, now_ms: int) -> tuple[object, ...]:
        state = self._state
        members = tuple((m.identity, m.incarnation, m.draining, m.warmth) for m in state.members)
        return (
            *(state.config.connectors, state.desired, state.facts, state.policy, state.handing_back),
            *(tuple(state.regroups.values()), tuple(state.awaited), members),
            *(self._state.avoided & self._reports.slow(now_ms), self._reports.withdrawn(now_ms)),
        )

    def _is_layout_due(self, now_ms: int) -> bool:
        plan = self._state.plan
        if plan is not None and plan.rejoin_at_ms is not None and plan.rejoin_at_ms <= now_ms:
            return True
        group = self._state.group
        is_gathered = group is not None and now_ms >= self._gathered_ms(group)
        return is_gathered and self._inputs(now_ms) != self._basis

    def _gathered_ms(self, group: ReconciledGroup) -> int:
        """When (ms) the next layout may follow the last one."""
        return self._laid_out_ms + GATHER_MS + len(group.occupants) // GATHERED_TASKS_PER_MS

    def _lay_out(self, now_ms: int, cause: str, is_round: bool = False) -> None:
        """Give the group the targets that the planner wants now."""
        state = self._state
        group = state.group
        assert group is not None
        pending = state.causes.pending(now_ms)
        taken_back = self._reports.withdrawn(now_ms)
        self._state.avoided = self._reports.slow(now_ms)
        members = self._as_targeted(group, taken_back)
        before = state.memory = absences.not_given(state.memory, taken_back)
        if self._first is None:
            view = replace(self._planning.view(now_ms, pending or cause), members=members)
            layout, plan, memory = self._planning.lay_out(view, before)
        else:
            (layout, plan, before), memory, self._first = self._first, state.memory, None
        state.group = retarget(group, layout)
        state.plan = plan
        memory = self._remembering(memory)
        if memory != before:
            state.memory = memory
            # The end of an incarnation may be known before the round without it.
            state.history.note_departed(before, {member.identity for member in members})
        changes = changes_of_targets(group, state.group, members)
        if is_round or any(each.assigned or each.revoked for each in changes):
            events = state.causes.of_round(pending, before, memory)
            epoch = state.group.assignment_epoch
            cause = (not is_round and plan.reasons) or cause
            state.history.record(changes, len(plan.held), before, memory, cause, now_ms, events, epoch)
        self._basis, self._laid_out_ms = self._inputs(now_ms), now_ms
        state.members = self._as_reported(state.members)

    def _as_targeted(
        self, group: ReconciledGroup, taken_back: Mapping[str, frozenset[TaskId]]
    ) -> tuple[Member, ...]:
        """The members as the planner sees them: each one has its target already, as for Kafka's assignors,
        without what is taken back. Those that are avoided get new tasks as one that does not warm up does.
        """
        found = []
        for member in self._state.members:
            known = group.members.get(member.identity)
            if known is not None and known.incarnation == member.incarnation:
                target = group.target_of(member.identity).tasks - taken_back.get(member.identity, frozenset())
                seen = member.having(tuple(sorted(target)), frozenset(), member.applied)
                is_avoided = member.identity in self._state.avoided
                found.append(replace(seen, warmth=Warmth.STALLED) if is_avoided else seen)
        return tuple(found)

    def _as_reported(self, members: Iterable[Member]) -> tuple[Member, ...]:
        """The members with all that they may run."""
        group = self._state.group
        assert group is not None
        return tuple(as_reported(group, member) for member in members)
