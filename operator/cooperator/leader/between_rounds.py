"""Everything that should be done now, level-triggered: what a leader does after each event. Pure."""

from collections.abc import Mapping
from dataclasses import replace

from cooperator.leader import absences
from cooperator.leader import events as ev
from cooperator.leader.learner_reports import learning_of
from cooperator.leader.planning import Planning
from cooperator.leader.reconcile import remembers, with_managed
from cooperator.leader.reconciled import Reconciled
from cooperator.leader.regroup import GATHER_MS, NEW_TASKS, committed_since
from cooperator.leader.repeats import REPEAT_MS, Repeats, RoundRequests
from cooperator.leader.rounds import REFUSED_PAUSE_MS
from cooperator.leader.state import LeaderSettings, LeaderState
from cooperator.leader.status_log_maintenance import StatusLogMaintenance
from cooperator.leader.stock.handback import lacks
from cooperator.leader.stock.members import hung, hung_next_ms
from cooperator.leader.stock.pending_starts import PendingStarts
from cooperator.leader.stock.write_window import WriteWindow
from cooperator.leader.writes import Writes
from cooperator.model import PolicyName, TaskId


class BetweenRounds:
    """Derives instructions for the machine, whose parts it shares, from the whole state."""

    def __init__(
        self,
        settings: LeaderSettings,
        state: LeaderState,
        planning: Planning,
        requests: RoundRequests,
        repeats: Repeats,
        writes: Writes,
        maintenance: StatusLogMaintenance,
        pending_starts: PendingStarts,
        write_window: WriteWindow,
        reconciled: Reconciled,
    ) -> None:
        self._settings = settings
        self._state = state
        self._planning = planning
        self._requests = requests
        self._repeats = repeats
        self._writes = writes
        self._maintenance = maintenance
        self._pending_starts = pending_starts
        self._write_window = write_window
        self._reconciled = reconciled
        self._basis: tuple[object, ...] = (self,) * 4
        """The last arguments of ``with_managed``, which is slow with many connectors."""

    def consider(self, now_ms: int) -> list[ev.Instruction]:
        """Returns the current instructions; the last is a ``WakeAt`` if the passing of time alone could
        change them.
        """
        state = self._state
        expired = self._writes.expired(now_ms)
        if not state.leading or state.in_round:
            expired += self._reconciled.consider(now_ms) if state.leading else []
            times_ms = [*self._writes.waiting_until_ms(), *self._reconciled.next_ms(now_ms)]
            return [*expired, self._wake(times_ms, now_ms)] if times_ms else expired
        state.still_away(state.members, now_ms)
        if state.is_blind:
            times_ms = self._writes.waiting_until_ms()
            return [*expired, *self._requests.due(now_ms), self._wake(times_ms, now_ms)]
        if state.topic_refusal:
            # Nothing is written, assigned or revoked; the topic is looked at again now and then.
            self._requests.want("the config topic may be the group's by now", now_ms + REFUSED_PAUSE_MS)
            times = [now_ms + REFUSED_PAUSE_MS, *self._writes.waiting_until_ms()]
            expired += self._reconciled.consider(now_ms)
            return [*expired, *self._requests.due(now_ms), self._wake(times, now_ms)]
        known = {member.identity for member in state.members} | state.memory.holds.keys()
        state.hung = hung(
            self._pending_starts, state.policy, self._settings.awaited_ms, known, state.facts.ended, now_ms
        )
        self._note_managed()
        # Durable before anything is written for it: a successor that finds a resource gone knows what to do.
        out: list[ev.Instruction] = [*expired, *self._reconciled.consider(now_ms)]
        if state.group is None and not remembers(state.saved, state.memory, self._settings.owns_config):
            out += self._reconciled.save(state.memory)
        out += self._writes.due(now_ms) if self._write_window.is_over(now_ms) else []
        ended = [m.member_id for m in state.members if (m.identity, m.incarnation) in state.facts.ended]
        if ended:
            state.history.mark_busy(now_ms)
            out += self._repeats.once(("evict", *ended), ev.Evict(tuple(ended), "its end is proven"), now_ms)
        reason = self.reason_for_round(now_ms)
        if reason:
            state.history.mark_busy(now_ms)
            # Stock workers have stopped what changes, and start it anew only after a round.
            since_ms = now_ms + GATHER_MS - self._settings.coalesce_ms if reason == NEW_TASKS else now_ms
            self._requests.want(reason, since_ms)
        out += self._requests.due(now_ms)
        self._maintenance.leftovers.configured(self._planning.task_counts())
        chore = self._maintenance.wanted(state, now_ms)
        reading = self._repeats.once(chore, chore, now_ms) if chore is not None else []
        if not reading and self._write_window.looks(now_ms):
            reading = [ev.ReadStatuses(frozenset(), False)]
        if self._limit_due_ms() <= now_ms:
            state.limit_read_ms = now_ms
            reading = [*reading, ev.ReadGroupLimit()]
        # Reading takes its time: after all else.
        return [*out, self.wake(now_ms), *reading]

    def wake(self, now_ms: int) -> ev.WakeAt:
        """When to consider everything again, if no event comes first."""
        return self._wake(self._next_ms(now_ms), now_ms)

    def lacks_for_hand_back(self, now_ms: int) -> str:
        """Returns why a stock worker that led from now on would move something; empty when it would not."""
        state = self._state
        if not state.leading:
            return "the lead is not ours now"
        if state.in_round or not self._write_window.is_over(now_ms):
            return "a round is under way"
        if self.reason_for_round(now_ms):
            return "tasks are being moved"
        return lacks(state.members, self._planning.task_counts())

    def reason_for_round(self, now_ms: int) -> str:
        """Returns why a round held now would change something; empty when it would not."""
        state = self._state
        if state.generation < 0:
            return ""
        if state.group is not None:
            return self._reconciled.reason_for_round(now_ms)
        return self._reason_in_rounds(now_ms) or self._reconciled.reason_for_round(now_ms)

    def _reason_in_rounds(self, now_ms: int) -> str:
        state = self._state
        if absences.any_stock(state.members) and committed_since(state.planned, state.config):
            return NEW_TASKS
        if self._planning.policy.name is PolicyName.EAGER and any(m.is_agent for m in state.members):
            return self._stops_for(now_ms)
        due = state.plan is not None and state.plan.rejoin_at_ms is not None
        if self._planning.policy.name is not PolicyName.DEFAULT:
            # Kafka's rules count rounds, so a question "what if" would differ from the round itself.
            if due and state.plan and (state.plan.rejoin_at_ms or 0) <= now_ms:
                return "scheduled rebalance delay ended"
            counts = self._planning.task_counts()
            return "configuration changed" if state.planned.task_counts() != counts else ""
        fitted = self._planning.decide(self._planning.view(now_ms, "what if"), state.memory)
        self._planning.note_refused(fitted)
        what_if = fitted.plan
        if any(not assignment.is_empty for assignment in what_if.assignments.values()):
            return what_if.reasons or "an assignment changes"
        learning = learning_of(state.memory, fitted.memory)
        if learning:
            return f"new {', '.join(learning)} of tasks with state"
        if state.plan is not None and what_if.rejoin_at_ms != state.plan.rejoin_at_ms:
            state.plan = replace(state.plan, rejoin_at_ms=what_if.rejoin_at_ms, held=what_if.held)
        return ""

    def _stops_for(self, now_ms: int) -> str:
        """Under Eager every round stops everything: one is held only if other tasks would run after it, or
        in other numbers."""
        state = self._state
        fitted = self._planning.decide_stopped(self._planning.view(now_ms, "what if"), state.memory)
        self._planning.note_refused(fitted)
        if state.plan is not None:
            state.plan = replace(state.plan, rejoin_at_ms=fitted.plan.rejoin_at_ms, held=fitted.plan.held)
        runs = {m.member_id: frozenset(m.owned) - m.stopping for m in state.members}
        would_run = {i: frozenset(each.assigned) for i, each in fitted.plan.assignments.items()}
        other = frozenset[TaskId]().union(*runs.values()) ^ frozenset[TaskId]().union(*would_run.values())
        if other.difference(fitted.refused):
            return "other tasks may run"
        is_whole = not fitted.refused and not fitted.postponed
        return "other loads" if is_whole and _loads(runs) != _loads(would_run) else ""

    def _limit_due_ms(self) -> int:
        """When (ms) to read the broker's limit of a group's record."""
        state = self._state
        if state.limit_read_ms is None:
            return 0
        if state.refusal or state.limit_in_doubt:
            return state.limit_read_ms + REFUSED_PAUSE_MS
        return absences.NEVER_MS

    def _note_managed(self) -> None:
        state = self._state
        basis = (state.desired, state.config.connectors, state.memory.managed, state.memory.orphans)
        if any(now is not before for now, before in zip(basis, self._basis, strict=True)):
            state.memory = with_managed(state.memory, state.memory, state.desired, state.config)
            self._basis = (*basis[:2], state.memory.managed, state.memory.orphans)

    def _next_ms(self, now_ms: int) -> list[int]:
        """Times (ms) at which something may have to be done without an event."""
        state = self._state
        hanging = hung_next_ms(self._pending_starts, state.policy, self._settings.awaited_ms)
        times = [at_ms for at_ms in (*self._write_window.next_ms(now_ms), *hanging) if at_ms > now_ms]
        times += [self._writes.key_due_ms(now_ms), *self._repeats.next_ms(), *self._writes.waiting_until_ms()]
        times += [*self._writes.again_ms(now_ms), *self._reconciled.next_ms(now_ms)]
        if state.plan is not None and state.plan.rejoin_at_ms is not None:
            times.append(state.plan.rejoin_at_ms)
        times.extend(state.awaited.values())
        if state.returning:
            times.append(state.returning_until_ms)
        times += [at_ms for at_ms in (self._limit_due_ms(),) if now_ms < at_ms < absences.NEVER_MS]
        if state.regroups:
            times.extend(absences.over_ms(entry, state.policy) for entry in state.memory.unstopped)
        return [*times, *self._maintenance.next_ms(state, now_ms)]

    def _wake(self, times: list[int], now_ms: int) -> ev.WakeAt:
        request_ms = self._requests.due_ms
        if request_ms is not None:
            times = [*times, request_ms]
        # An overdue request that changed nothing is checked again later; doing so at once would loop forever.
        return ev.WakeAt(min(at if at > now_ms else now_ms + REPEAT_MS for at in times))


def _loads(tasks: Mapping[str, frozenset[TaskId]]) -> dict[str, tuple[int, int]]:
    """The number of tasks and of instances of each member that has any."""
    instances = {i: sum(item.is_instance for item in items) for i, items in tasks.items()}
    return {i: (len(items), instances[i]) for i, items in tasks.items() if items}
