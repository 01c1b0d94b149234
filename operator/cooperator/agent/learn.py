"""The first half of a step: updates what is known from an event."""

from dataclasses import replace

from cooperator.agent import reports
from cooperator.agent.events import (
    AssignmentReceived,
    ConfigChanged,
    Contact,
    DrainRequested,
    Dropped,
    Event,
    Failed,
    JoinAhead,
    LeaderConfirmed,
    Paused,
    PostAnswered,
    Progressed,
    ReportAnswered,
    RestartRequested,
    Started,
    Stopped,
    StopRequested,
    Tick,
    UnitsChanged,
    WarmedUp,
    WarmUpBegun,
    WarmUpFailed,
)
from cooperator.agent.instructions import Instruction, Pause, Resume
from cooperator.agent.state import IllegalStep, Phase, Post, Settings, State, Task
from cooperator.agent.statuses import say, say_again
from cooperator.model import INSTANCE, TargetState, TaskId, TaskState, Warmth
from cooperator.model.throttle import Throttle
from cooperator.model.waits import names_a_wait

_RUNS = (Phase.STARTING, Phase.RUNNING)


class Learner:
    """Applies one event to a state. ``out``: instructions to issue at once; ``lines``: story lines."""

    def __init__(self, state: State, settings: Settings) -> None:
        self._state = state
        self._settings = settings
        self.out: list[Instruction] = []
        self.lines: list[tuple[TaskId | None, str]] = []

    def learn(self, event: Event) -> None:
        match event:
            case AssignmentReceived():
                self._assignment(event)
            case ReportAnswered():
                self.lines += [(None, line) for line in reports.answered(self._state, self._settings, event)]
            case Contact(sent_at_ms):
                self._prove_lease(sent_at_ms)
            case LeaderConfirmed():
                self._confirmed(event)
            case Dropped(reason):
                self._tell(None, f"no longer a member: {reason}")
                reports.dropped(self._state)
            case JoinAhead():
                self._join_ahead()
            case ConfigChanged():
                self._config(event)
            case RestartRequested():
                self._restart(event)
            case Started(task, attempt):
                self._started(task, attempt)
            case Paused(task, attempt):
                self._started(task, attempt, paused=True)
            case Stopped(task, attempt):
                self._stopped(task, attempt)
            case Failed():
                self._failed(event)
            case Progressed():
                self._progressed(event)
            case UnitsChanged():
                self._units(event)
            case PostAnswered():
                self._posted(event)
            case WarmUpBegun():
                self._warmth(Warmth.WARMING)
            case WarmedUp():
                self._warmth(Warmth.WARM)
            case WarmUpFailed():
                self._warmth(Warmth.STALLED)
            case DrainRequested():
                self._depart(self._state.now_ms + self._settings.drain_timeout_ms)
            case StopRequested(code):
                self._state.exit_code = code
                self._depart(self._state.now_ms)
            case Tick():
                pass

    # The group

    def _assignment(self, assignment: AssignmentReceived) -> None:
        state = self._state
        if assignment.superseded:
            self._tell(None, f"assignment {assignment.epoch} superseded by another join")
            return
        state.asked_ms = None
        if assignment.error or (state.applied is not None and assignment.epoch < state.applied):
            why = f"error {assignment.error}" if assignment.error else f"{state.applied} is applied already"
            self._tell(None, f"assignment {assignment.epoch} refused: {why}")
            state.refused = True
            state.rejoin_ms = state.now_ms + self._settings.refused_retry_ms
            return
        state.refused = False
        state.answered = assignment.answers
        reports.joined(state, self._settings, assignment)
        if assignment.epoch == state.applied:
            # The broker repeats the current assignment to a member that rejoins with unchanged bytes.
            self._tell(None, f"assignment {assignment.epoch} repeated")
            return
        self._tell(None, f"assignment {assignment.epoch} taken")
        has_new_leader = state.applied is None or assignment.epoch.term != state.applied.term
        state.applied = assignment.epoch
        state.member_id = assignment.member_id
        state.lease_ms = assignment.lease_ms
        state.expected = (
            frozenset()
            if assignment.reconciled
            else frozenset(assignment.answers.owned) | set(assignment.assigned) | set(assignment.revoked)
        )
        if (state.leader_url, state.leads) != (assignment.leader_url, assignment.leads):
            state.leader_url, state.leads = assignment.leader_url, assignment.leads
            for connector, post in state.posts.items():
                if post.at_ms is not None:
                    state.posts[connector] = replace(post, at_ms=state.now_ms, tries=0)
        for task in assignment.revoked:
            held = state.tasks.get(task)
            if held is not None:
                state.tasks[task] = replace(held, keep=False, quiet=False)
            self._tell(task, f"revoked by {assignment.epoch}" + ("" if held else ", but not owned"))
        for task in assignment.assigned:
            held = state.tasks.get(task)
            if held is None:
                state.tasks[task] = Task(task, assignment.epoch, assignment.config_offset)
            elif not held.keep:
                state.tasks[task] = replace(
                    held,
                    keep=True,
                    revoked_ms=None,
                    epoch=assignment.epoch,
                    needs_offset=assignment.config_offset,
                )
            self._tell(task, f"assigned by {assignment.epoch}")
        if has_new_leader:
            self.out += say_again(state)

    def _prove_lease(self, sent_at_ms: int) -> None:
        state = self._state
        if sent_at_ms > state.now_ms:
            raise IllegalStep(f"an answer to a request of {sent_at_ms} ms, and it is {state.now_ms} ms")
        if state.lease_basis_ms is None or sent_at_ms > state.lease_basis_ms:
            state.lease_basis_ms = sent_at_ms

    def _confirmed(self, event: LeaderConfirmed) -> None:
        # A leader without its broker must not trust itself: another member may have become the leader.
        if event.epoch == self._state.applied and not self._state.leads:
            self._prove_lease(event.sent_at_ms)
        else:
            self._tell(None, f"ignoring a confirmation for {event.epoch}")

    def _join_ahead(self) -> None:
        """Under the policy Eager everything is released before a join."""
        state = self._state
        self._tell(None, "stops everything before it joins")
        state.join_ahead = True
        for key, task in state.tasks.items():
            state.tasks[key] = replace(task, keep=False)

    def _depart(self, by_ms: int) -> None:
        state = self._state
        state.draining = True
        if state.depart_by_ms is None or by_ms < state.depart_by_ms:
            state.depart_by_ms = by_ms
            self._tell(None, f"departs, at {by_ms} ms at the latest")

    # The config log

    def _config(self, event: ConfigChanged) -> None:
        state = self._state
        before, state.config = state.config, event.config
        if event.config.offset < before.offset:
            self._tell(None, f"the config log was recreated: {before.offset} -> {event.config.offset}")
            for key, task in state.tasks.items():
                state.tasks[key] = replace(task, needs_offset=-1)
        for connector, post in state.posts.items():
            changed = before.connectors.get(connector) is not event.config.connectors.get(connector)
            if changed and post.in_flight is None and post.tries == 0:
                state.posts[connector] = replace(post, at_ms=state.now_ms)
        for key, task in state.tasks.items():
            if before.connectors.get(key.connector) is event.config.connectors.get(key.connector):
                continue
            if task.phase in (Phase.WAITING, Phase.STOPPING):
                continue
            wanted = event.config.task_config(key)
            if wanted is None:
                # Deleted, or the connector has fewer tasks now: the leader revokes it.
                continue
            paused = event.config.connectors[key.connector].target is TargetState.PAUSED
            if wanted != task.config:
                state.tasks[key] = replace(task, restart=True)
                self._tell(key, f"its configuration has changed at offset {event.config.offset}")
            elif paused != task.paused and task.phase in _RUNS:
                self.out.append(Pause(key) if paused else Resume(key))
                state.tasks[key] = replace(task, paused=paused)

    def _restart(self, event: RestartRequested) -> None:
        for key, task in self._state.tasks.items():
            if key.connector != event.connector:
                continue
            if event.task is not None:
                named, also_running = key.task == event.task, True
            else:
                named, also_running = key.is_instance or event.include_tasks, not event.only_failed
            if named and (task.phase is Phase.FAILED or (task.phase in _RUNS and also_running)):
                self._state.tasks[key] = replace(task, restart=True)
                self._tell(key, "a restart was requested")

    # The runtime

    def _started(self, key: TaskId, attempt: int, paused: bool = False) -> None:
        task = self._alive(key, attempt)
        self._tell(key, f"attempt {attempt} {'is paused' if paused else 'runs'}")
        if task is not None and task.phase in _RUNS:
            since_ms = self._state.now_ms if task.running_ms is None else task.running_ms
            # Progress reported earlier belongs to another state.
            self._state.tasks[key] = replace(
                task, phase=Phase.RUNNING, running_ms=None if paused else since_ms, progress=Throttle()
            )
            self._say(key, TaskState.PAUSED if paused else TaskState.RUNNING)

    def _stopped(self, key: TaskId, attempt: int) -> None:
        task = self._alive(key, attempt)
        self._tell(key, f"attempt {attempt} has stopped")
        if task is not None and task.phase is Phase.STOPPING:
            self._state.tasks[key] = replace(task, phase=Phase.WAITING)
        elif task is not None:
            self._fails(task, "The task ended by itself; a streaming task has no end.")

    def _failed(self, event: Failed) -> None:
        task = self._alive(event.task, event.attempt)
        self._tell(event.task, f"attempt {event.attempt} has failed")
        if task is not None and task.phase is Phase.STOPPING:
            self._state.tasks[event.task] = replace(task, phase=Phase.WAITING)
        elif task is not None:
            self._fails(task, event.trace, event.reason)

    def _fails(self, task: Task, trace: str, reason: str = "") -> None:
        """Records the failure. Any restart depends on the time and on the connector's configuration then."""
        now_ms = self._state.now_ms
        restarts = task.restarts
        reset_after_ms = self._state.auto_restart(task.task.connector).reset_after_ms
        if task.running_ms is not None and now_ms >= task.running_ms + reset_after_ms:
            restarts = 0
        self._state.tasks[task.task] = replace(
            task,
            phase=Phase.FAILED,
            failed_ms=now_ms,
            trace=trace,
            reason=reason,
            restarts=restarts,
            running_ms=None,
        )

    def _progressed(self, event: Progressed) -> None:
        task = self._alive(event.task, event.attempt)
        if task is None or task.phase not in _RUNS:
            return
        # A wait that is over must not stand until the next interval: it would be read as going on.
        said = "" if task.said is None else task.said.status.progress
        is_over = names_a_wait(said) and not names_a_wait(event.text)
        self._state.tasks[event.task] = replace(task, progress=task.progress.offer(event.text, is_over))

    def _alive(self, key: TaskId, attempt: int) -> Task | None:
        """The task if this attempt of it is alive; None if it is over, even under an earlier assignment.

        Raises IllegalStep if the attempt never began.
        """
        if not 0 < attempt <= self._state.attempts:
            raise IllegalStep(f"attempt {attempt} of {key} was never started")
        task = self._state.tasks.get(key)
        if task is not None and 0 < task.attempt < attempt:
            raise IllegalStep(f"attempt {attempt} is not one of {key}, whose last is {task.attempt}")
        return task if task is not None and task.alive and task.attempt == attempt else None

    def _warmth(self, warmth: Warmth) -> None:
        state = self._state
        begun = warmth is Warmth.WARMING
        state.warm_by_ms = state.now_ms + self._settings.warm_up_limit_ms if begun else None
        if warmth is not state.warmth:
            state.warmth = warmth
            self._tell(None, f"the runtime is {warmth.value.lower()}")

    # Task configurations on their way to the leader.

    def _units(self, event: UnitsChanged) -> None:
        state = self._state
        instance = state.tasks.get(TaskId(event.connector, INSTANCE))
        if instance is None or instance.phase not in _RUNS:
            return
        before = state.posts.get(event.connector)
        in_flight = None if before is None else before.in_flight
        state.posts[event.connector] = Post(event.configs, at_ms=state.now_ms, in_flight=in_flight)
        self._tell(instance.task, f"computed {len(event.configs)} task configurations")

    def _posted(self, event: PostAnswered) -> None:
        state = self._state
        post = state.posts.get(event.connector)
        if post is None or post.in_flight != event.number:
            return
        longest_ms = self._settings.post_backoff_max_ms
        if event.error:
            pause_ms = min(self._settings.post_backoff_ms * 2 ** min(post.tries, 30), longest_ms)
            tries = post.tries + 1
            self._tell(
                TaskId(event.connector, INSTANCE),
                f"the leader did not accept its task configurations: {event.error}",
            )
        else:
            pause_ms, tries = longest_ms, 0
        newer = post.at_ms is not None
        at_ms = state.now_ms if newer and not event.error else state.now_ms + pause_ms
        state.posts[event.connector] = replace(post, in_flight=None, tries=tries, at_ms=at_ms)

    def _say(self, key: TaskId, state: TaskState) -> None:
        self.out.extend(say(self._state, self._settings, key, state))

    def _tell(self, task: TaskId | None, what: str) -> None:
        self.lines.append((task, what))
