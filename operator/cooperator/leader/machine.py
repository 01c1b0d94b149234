"""The leader as a pure machine: events in, instructions out, ``now_ms`` an argument.

How it works. Every change in the world (a report, a config record, a death, a deadline) ends in the
same question: *if a round were held now, would it change anything?* The machine asks the planner with
what it knows of the members, and requests a round only when the answer is yes. So a round has one
cause, changes that come close together share one, and no trigger can be forgotten. In the round itself
the members' fresh reports are planned with, the memory is saved, and only then is the plan sent.

Config records are written between rounds, never inside one, since a write in a round makes members see
an offset that the round does not name (docs/protocol.md, 6).
"""

from collections.abc import Mapping
from dataclasses import replace

from cooperator.leader import absences, answers
from cooperator.leader import events as ev
from cooperator.leader.config_topic import round_refusal
from cooperator.leader.identities import Identities, addresses
from cooperator.leader.observability.history import note_births, record_rebalance
from cooperator.leader.reconcile import remembers, with_managed
from cooperator.leader.regroup import GATHER_MS, NEW_TASKS, committed_since, unsettled
from cooperator.leader.state import LeaderSettings, LeaderState
from cooperator.leader.status_log_maintenance import StatusLogMaintenance
from cooperator.leader.stock.handback import evenly, lacks
from cooperator.leader.stock.members import holding_down, hung, hung_next_ms
from cooperator.leader.stock.pending_starts import PendingStarts
from cooperator.leader.stock.write_window import WriteWindow
from cooperator.leader.writes import REPEAT_MS, Repeats, Writes
from cooperator.model import ClusterConfig, ConnectorConfig, Epoch, Memory, Policy, PolicyName
from cooperator.planner import Workspace
from cooperator.planner import plan as decide
from cooperator.planner.plan import Plan
from cooperator.planner.view import View
from cooperator.wire import AgentAssignment, FencingRecord, Protocol, RestartRecord

REFUSED_PAUSE_MS = 30_000


class LeaderMachine:
    """Decides for one group. Feed it every event in order; carry out what it returns in order.

    A ``SaveMemory`` that fails must be answered with ``RoundFailed`` and the ``Answer`` after it dropped.
    """

    def __init__(self, settings: LeaderSettings, policy: Policy | None = None) -> None:
        self.settings = settings
        self.state = LeaderState(policy=policy or Policy())
        self._workspace = Workspace(settings.assignors)
        self._in_round = False
        self._saved: Memory | None = None
        """What the leader log says for certain, but for the generation; None: not known."""
        self._planned_with = self.state.memory
        self._is_new = False
        """Until the first round that is planned."""
        self._sent: Plan | None = None
        """Of the present generation; None: its members were sent nothing new."""
        self._rejoin_reason = ""
        self._rejoin_since_ms: int | None = None
        self._rejoin_sent_ms: int | None = None
        self._refused_until_ms = 0
        self._behind_ms = -REPEAT_MS
        """When members had last read more than we can."""
        self._maintenance = StatusLogMaintenance(REPEAT_MS)
        self._repeats = Repeats()
        self.pending_starts = PendingStarts()
        self.write_window = WriteWindow(self.pending_starts)
        self._identities = Identities(settings, self.state, self.pending_starts)
        self._writes = Writes(settings, self.state, self._repeats, self.write_window)
        self._planned = ClusterConfig()
        self._commit_is_late = False
        """The last round was planned with a commit that a member had not read; the next one is for it."""
        self._basis: tuple[object, ...] = (self,) * 4
        """What ``with_managed`` was asked with last: of many connectors the answer takes its time."""
        self._counted: tuple[Mapping[str, ConnectorConfig], Mapping[str, int]] | None = None

    # --- the ladder ---------------------------------------------------------------------------------

    def handle(self, event: ev.Event, now_ms: int) -> list[ev.Instruction]:
        """The instructions that follow from ``event``."""
        state = self.state
        if isinstance(event, ev.LeadTaken):
            return self._lead_taken(event, now_ms)
        if isinstance(event, ev.RoundReady):
            return self._round(event, now_ms)
        if isinstance(event, ev.LeadLost):
            self._stand_down()
            return []
        if isinstance(event, ev.Joining):
            self.write_window.joining()
        elif isinstance(event, ev.Delivered):
            if event.generation == state.generation:
                self._in_round = False
                state.completed = event.generation
                self._taken_up(now_ms)
        elif isinstance(event, ev.RoundFailed):
            self._round_failed(event)
        elif isinstance(event, ev.ConfigChanged):
            state.config = event.config
            state.regroups = unsettled(state.regroups, state.config)
        elif isinstance(event, ev.DesiredChanged):
            state.desired = event.desired
            state.causes.hear(event.events, now_ms)
        elif isinstance(event, ev.FactsChanged):
            state.facts = event.facts
            state.causes.hear(event.events, now_ms)
        elif isinstance(event, ev.StatusesRead):
            self.pending_starts.hear(event.statuses)
            forgotten = self._maintenance.take(event, state, now_ms) if state.leading else []
            return [*forgotten, *self._consider(now_ms)]
        elif isinstance(event, ev.HandBack):
            state.handing_back = event.wanted
        elif isinstance(event, ev.PolicyChanged):
            changed = state.policy != event.policy
            state.policy = event.policy
            if changed and state.leading:
                return [ev.SavePolicy(event.policy), *self._consider(now_ms)]
        return self._consider(now_ms)

    def post_tasks(self, event: ev.TasksPosted, now_ms: int) -> tuple[int, list[ev.Instruction]]:
        """See ``Writes``: the HTTP code to answer, and what to do."""
        code, out = self._writes.post_tasks(event, self._in_round, now_ms)
        return code, [*out, *self._consider(now_ms)]

    def restart(self, record: RestartRecord, now_ms: int) -> tuple[int, list[ev.Instruction]]:
        """See ``Writes``."""
        return self._writes.restart(record), self._consider(now_ms)

    def fenced(self, record: FencingRecord, generation: int, now_ms: int) -> tuple[int, list[ev.Instruction]]:
        """See ``Writes``."""
        code, out = self._writes.fenced(record, generation, self._in_round, now_ms)
        return code, [*out, *self._consider(now_ms)]

    def delivered_epoch(self) -> Epoch | None:
        """The epoch that the members are in; None while not leading or while a round is under way."""
        state = self.state
        if not state.leading or self._in_round or state.completed != state.generation:
            return None
        return Epoch(state.memory.term, state.generation)

    def living_members(self) -> tuple[str, ...]:
        """Member ids of the last round whose end is not proven."""
        ended = self.state.facts.ended
        return tuple(m.member_id for m in self.state.members if (m.identity, m.incarnation) not in ended)

    def absent_unproven(self) -> tuple[str, ...]:
        """Identities whose tasks are held and whose end is not proven: one of them may lead by now."""
        ended, holds = self.state.facts.ended, self.state.memory.holds
        return tuple(i for i, hold in holds.items() if (i, hold.incarnation) not in ended)

    # --- taking and losing the lead -----------------------------------------------------------------

    def _lead_taken(self, event: ev.LeadTaken, now_ms: int) -> list[ev.Instruction]:
        state = self.state
        memory = absences.by_own_clock(event.memory, state.memory.term, state.policy, now_ms)
        state.memory = replace(memory, term=memory.term + 1)
        evicted = self._identities.tell(event.evicted)
        state.memory = absences.with_evicted(state.memory, evicted)
        self._saved = None
        self._planned_with = state.memory
        state.config = event.config
        unread = self._identities.of_unread(event.unread)
        state.await_evicted(evicted, unread, now_ms, self.settings.awaited_ms)
        state.leading = self._is_new = True
        state.members = ()
        state.regroups = {}
        state.topic_refusal = ""
        self._maintenance = StatusLogMaintenance(REPEAT_MS)
        self.pending_starts.clear()
        self._in_round = True  # until the round that made us leader has been answered
        return [ev.SaveMemory(state.memory), ev.SavePolicy(state.policy)]

    def _stand_down(self) -> None:
        state = self.state
        state.leading = False
        state.members = ()
        state.awaited = {}
        state.regroups = {}
        state.plan = None
        self._in_round = False
        self._writes.clear()
        self._rejoin_since_ms = self._rejoin_sent_ms = None
        self._repeats.clear()

    # --- a round ------------------------------------------------------------------------------------

    def _round(self, event: ev.RoundReady, now_ms: int) -> list[ev.Instruction]:
        state = self.state
        event = replace(event, members=self._identities.tell(event.members))
        state.config = event.config
        state.generation = event.generation
        state.leader_id = event.leader_id
        ids = {member.member_id for member in state.members}
        state.held_down_by = holding_down(
            event.protocol, state.protocol, ids, state.held_down_by, event.members
        )
        turns = event.protocol == Protocol.DEFAULT.value != state.protocol  # eager, just now
        state.protocol = event.protocol
        state.members = event.members
        self._in_round, self._sent = True, None
        state.regroups = unsettled(state.regroups, state.config)
        cause = self._rejoin_reason or "members changed"
        self._rejoin_reason = ""
        self._rejoin_since_ms = self._rejoin_sent_ms = None
        away = state.still_away(event.members, now_ms)
        self.write_window.round(event.generation, event.members, event.offsets, event.config.offset)
        self.pending_starts.report(event.members, state.facts.ended)
        state.topic_refusal = round_refusal(self.settings, event, self._is_new)
        if state.topic_refusal:
            return [answers.unchanged(event, self.settings.url)]
        if event.highest_offset > event.config.offset:
            if now_ms < self._behind_ms + REPEAT_MS:
                # Not once more at once: members that can never be reached would have rounds without end.
                self._refused_until_ms = now_ms + REPEAT_MS
            self._behind_ms = now_ms
            if event.config_end is None and not self.settings.owns_config:
                self.write_window.is_behind = False  # The topic may be a wrong one: no filler.
            self._want_round("the config log was behind the members'", 0)
            return [answers.mismatch(event, self.settings.url)]
        latest = max((m.applied.term for m in event.members if m.applied is not None), default=0)
        if latest > state.memory.term:
            # The leader log was lost: members would refuse every assignment of an older term.
            state.memory = replace(state.memory, term=latest + 1)
        if self._is_new:
            until_ms = now_ms + self.settings.awaited_ms
            seen = event.members, state.evicted, away
            state.memory = absences.after_strangers(
                state.memory, event.generation, *seen, state.policy, now_ms, until_ms
            )
            self._is_new = False
        state.memory = self._planned_with = absences.for_round(state.memory, event.generation)
        pending = state.causes.pending(now_ms)
        plan, memory = decide(
            replace(self.view(now_ms, pending or cause), turns_eager=turns), state.memory, self._workspace
        )
        if turns:
            self._want_round("the group has turned eager", now_ms)
        events = state.causes.of_round(pending, state.memory, memory)
        memory = replace(
            memory,
            generation=event.generation,
            stock=absences.any_stock(event.members),
            addresses=addresses(state.memory, memory, event.members),
        )
        memory = with_managed(memory, state.memory, state.desired, state.config)
        epoch = Epoch(memory.term, event.generation)
        assignment = AgentAssignment(epoch, state.policy.lease_ms, events)
        answer = answers.of_plan(event, plan, self.settings.url, assignment)
        state.refusal = answers.misfit(event, answer, self.settings.max_group_bytes)
        if state.refusal:
            self._in_round = False
            self._refused_until_ms = now_ms + REFUSED_PAUSE_MS
            return [ev.RefuseRound(event.generation, state.refusal)]
        note_births(state, epoch)
        record_rebalance(state, plan, memory, cause, now_ms, events)
        state.plan = self._sent = plan
        # Members that had joined before the newest commit stop what it changes when they read it, and wait.
        late = any(offset < event.config.offset for offset in event.offsets.values())
        self._commit_is_late = (
            late and not self._commit_is_late and committed_since(self._planned, state.config)
        )
        if not self._commit_is_late:
            self._planned = state.config
        self._maintenance.starts.give(event.members, plan, epoch)
        state.memory = memory
        state.members = tuple(answers.projected(event.members, plan, epoch))
        if not self._is_durable(memory):
            return [ev.SaveMemory(memory), answer]
        self._saved = memory  # The next one has its sets: what is the same object is compared at once.
        return [answer]

    def saved(self, memory: Memory) -> None:
        """The shell says that ``memory`` is durable."""
        self._saved = memory
        self.state.orphans = memory.orphans

    def _is_durable(self, memory: Memory) -> bool:
        # The generation alone decides nothing: a round that changed nothing is not written.
        saved = self._saved
        return saved is not None and replace(memory, generation=saved.generation) == saved

    def _round_failed(self, event: ev.RoundFailed) -> None:
        if event.generation == self.state.generation and not self.state.refusal:
            self._in_round = False
            self.state.trouble = event.reason
            if not self._is_durable(self.state.memory):
                # A write without an answer may have happened: what the log says is unknown until the next.
                self.state.memory, self._saved = self._planned_with, None
            # What the members hold is unknown until they report again.
            self._want_round("the last round failed", 0)

    def _policy(self) -> Policy:
        """Where somebody speaks nothing but the eager protocol all stop everything before they join."""
        eager = self.state.protocol == Protocol.DEFAULT.value
        return replace(self.state.policy, name=PolicyName.EAGER) if eager else self.state.policy

    def view(self, now_ms: int, cause: str) -> View:
        """What a round would be planned with now."""
        state = self.state
        suspended = frozenset(t for regroup in state.regroups.values() for t in regroup.affected)
        desired = state.desired.connectors if state.desired is not None else {}
        weights = {name: connector.weight for name, connector in desired.items() if connector.weight != 1.0}
        view = View(
            now_ms=now_ms,
            generation=state.generation,
            members=state.members,
            tasks=self._task_counts(),
            policy=self._policy(),
            facts=state.facts,
            weights=weights,
            suspended=suspended,
            unstarted=self._maintenance.starts.never,
            awaited={i: until for i, until in state.awaited.items() if until > now_ms},
            cause=cause,
            last_completed_generation=state.completed,
            leader_id=state.leader_id,
        )
        return evenly(view) if state.handing_back else view

    def lacks_for_hand_back(self, now_ms: int) -> str:
        """Why a stock worker that led from now on would move something; empty when it would not."""
        state = self.state
        if not state.leading:
            return "the lead is not ours now"
        if self._in_round or not self.write_window.is_over(now_ms):
            return "a round is under way"
        if self._reason_for_round(now_ms):
            return "tasks are being moved"
        return lacks(state.members, self._task_counts())

    def _task_counts(self) -> Mapping[str, int]:
        """The same object as long as the connectors are; only the offset differs from round to round."""
        connectors = self.state.config.connectors
        if self._counted is None or self._counted[0] is not connectors:
            self._counted = connectors, self.state.config.task_counts()
        return self._counted[1]

    def _taken_up(self, now_ms: int) -> None:
        """The assignments are with the members: what of them stock workers take up is looked at."""
        state = self.state
        if self._sent is not None:
            self.pending_starts.give(state.members, self._sent, state.generation, now_ms)
        self.write_window.delivered(state.generation, state.config.offset, now_ms)

    # --- between rounds -----------------------------------------------------------------------------

    def _consider(self, now_ms: int) -> list[ev.Instruction]:
        """Everything that should be done now, level-triggered."""
        state = self.state
        if not state.leading or self._in_round:
            return []
        state.still_away(state.members, now_ms)
        if state.topic_refusal:
            # Nothing is written, assigned or revoked; the topic is looked at again now and then.
            self._want_round("is the config topic this group's by now?", now_ms + REFUSED_PAUSE_MS)
            return [*self._pending_rejoin(now_ms), ev.WakeAt(now_ms + REFUSED_PAUSE_MS)]
        known = {member.identity for member in state.members} | state.memory.holds.keys()
        state.hung = hung(
            self.pending_starts, state.policy, self.settings.awaited_ms, known, state.facts.ended, now_ms
        )
        basis = (state.desired, state.config.connectors, state.memory.managed, state.memory.orphans)
        if any(now is not before for now, before in zip(basis, self._basis, strict=True)):
            state.memory = with_managed(state.memory, state.memory, state.desired, state.config)
            self._basis = (*basis[:2], state.memory.managed, state.memory.orphans)
        # Durable before anything is written for it: a successor that finds a resource gone knows what to do.
        is_known = remembers(self._saved, state.memory, self.settings.owns_config)
        out: list[ev.Instruction] = [] if is_known else [ev.SaveMemory(state.memory)]
        out += self._writes.due(now_ms) if self.write_window.is_over(now_ms) else []
        ended = [m.member_id for m in state.members if (m.identity, m.incarnation) in state.facts.ended]
        if ended:
            state.mark_busy(now_ms)
            out += self._repeats.once(("evict", *ended), ev.Evict(tuple(ended), "its end is proven"), now_ms)
        reason = self._reason_for_round(now_ms)
        if reason:
            state.mark_busy(now_ms)
            # Stock workers have stopped what changes, and start it anew only after a round.
            since_ms = now_ms + GATHER_MS - self.settings.coalesce_ms if reason == NEW_TASKS else now_ms
            self._want_round(reason, since_ms)
        out += self._pending_rejoin(now_ms)
        self._maintenance.leftovers.configured(self._task_counts())
        chore = self._maintenance.wanted(state, now_ms)
        reading = self._repeats.once(chore, chore, now_ms) if chore is not None else []
        if not reading and self.write_window.looks(now_ms):
            reading = [ev.ReadStatuses(frozenset(), False)]
        # Reading takes its time: after all else.
        return [*out, ev.WakeAt(self._next_wake_ms(now_ms)), *reading]

    def _reason_for_round(self, now_ms: int) -> str:
        """Why a round held now would change something; empty when it would not."""
        state = self.state
        if state.generation < 0:
            return ""
        if absences.any_stock(state.members) and committed_since(self._planned, state.config):
            return NEW_TASKS
        due = state.plan is not None and state.plan.rejoin_at_ms is not None
        if self._policy().name is not PolicyName.DEFAULT:
            # Kafka's rules count rounds, so a question "what if" would differ from the round itself.
            if due and state.plan and (state.plan.rejoin_at_ms or 0) <= now_ms:
                return "scheduled rebalance delay ended"
            return "configuration changed" if self._planned.task_counts() != self._task_counts() else ""
        what_if, _ = decide(self.view(now_ms, "what if"), state.memory, self._workspace)
        whys = {why.why.value for why in (*what_if.assigned_why.values(), *what_if.revoked_why.values())}
        if any(not assignment.is_empty for assignment in what_if.assignments.values()):
            return ", ".join(sorted(whys)) or "an assignment changes"
        if state.plan is not None and what_if.rejoin_at_ms != state.plan.rejoin_at_ms:
            state.plan = replace(state.plan, rejoin_at_ms=what_if.rejoin_at_ms, held=what_if.held)
        return ""

    def _want_round(self, reason: str, now_ms: int) -> None:
        if self._rejoin_since_ms is None or now_ms < self._rejoin_since_ms:
            self._rejoin_since_ms = now_ms
            self._rejoin_reason = self._rejoin_reason or reason

    def _pending_rejoin(self, now_ms: int) -> list[ev.Instruction]:
        if self._rejoin_since_ms is None or now_ms < self._refused_until_ms:
            return []
        if now_ms < self._rejoin_since_ms + self.settings.coalesce_ms:
            return []
        if self._rejoin_sent_ms is not None and now_ms < self._rejoin_sent_ms + REPEAT_MS:
            return []
        self._rejoin_sent_ms = now_ms
        return [ev.RequestRejoin(self._rejoin_reason)]

    def _next_wake_ms(self, now_ms: int) -> int:
        hanging = hung_next_ms(self.pending_starts, self.state.policy, self.settings.awaited_ms)
        soon = [at_ms for at_ms in (*self.write_window.next_ms(now_ms), *hanging) if at_ms > now_ms]
        times = [self._writes.key_due_ms(now_ms), *self._repeats.next_ms(), *soon]
        if self._rejoin_sent_ms is not None:
            times.append(self._rejoin_sent_ms + REPEAT_MS)
        elif self._rejoin_since_ms is not None:
            times.append(self._rejoin_since_ms + self.settings.coalesce_ms)
        if self.state.plan is not None and self.state.plan.rejoin_at_ms is not None:
            times.append(self.state.plan.rejoin_at_ms)
        times.extend(self.state.awaited.values())
        if self.state.regroups:
            times.extend(absences.over_ms(entry, self.state.policy) for entry in self.state.memory.unstopped)
        times.extend(self._maintenance.next_ms(self.state, now_ms))
        if self._refused_until_ms > now_ms:
            times.append(self._refused_until_ms)
        # What is overdue and changed nothing is looked at again at leisure, not at once for ever.
        return min(at if at > now_ms else now_ms + REPEAT_MS for at in times)
