"""The second half of a step: derives what to do from the state and the time.

The order matters: the end of the lease is handled before any start, and the report for an acknowledgement is
read after all stops and starts of the step.
"""

from collections.abc import Sequence
from dataclasses import replace

from cooperator.agent import reports
from cooperator.agent.instructions import (
    AskLeader,
    Exit,
    Instruction,
    KillGroup,
    Leave,
    PostTaskConfigs,
    ReadyToJoin,
    Rejoin,
    SetTimer,
    StartTask,
    StopTask,
    Watch,
)
from cooperator.agent.state import Phase, Settings, State, Task
from cooperator.agent.statuses import say, say_failed, unit_of
from cooperator.model import INSTANCE, TargetState, TaskId, TaskState, Warmth
from cooperator.model.status import HUNG
from cooperator.model.text import listed
from cooperator.model.throttle import Throttle


def settle(state: State, settings: Settings) -> list[Instruction]:
    """Bring ``state`` to rest at its ``now_ms``; returns the instructions this takes."""
    out: list[Instruction] = []
    if state.join_ahead and state.draining and not state.departing:
        # The round would only be repeated after it has left, and stop the others once more.
        state.depart_by_ms = state.now_ms
    if not state.lease_alive or state.departing:
        _let_everything_go(state)
    if state.warm_by_ms is not None and state.now_ms >= state.warm_by_ms:
        state.warmth, state.warm_by_ms = Warmth.STALLED, None
    # Nearly all tasks are at rest at nearly every event, and a step must not look at them again and again.
    moving = [key for key, task in state.tasks.items() if not _is_at_rest(key, task)]
    for key in moving:
        out += _task(state, settings, key)
    moving = [key for key in moving if key in state.tasks]
    out += _progress(state, settings, moving)
    out += _posts(state, settings)
    out += _acknowledgement(state, settings)
    out += reports.due(state, settings)
    out += _question(state, settings)
    tasks = [state.tasks[key] for key in moving]
    out += _watch(state, settings, tasks)
    if state.join_ahead and not state.tasks and not state.draining:
        # After the request to rejoin, which is then served by the join that has waited.
        state.join_ahead = False
        out.append(ReadyToJoin())
    out += _departure(state)
    timer_ms = None if state.exiting is not None else _next_ms(state, settings, tasks)
    if timer_ms != state.timer_ms:
        state.timer_ms = timer_ms
        out.append(SetTimer(timer_ms))
    return out


def _let_everything_go(state: State) -> None:
    """Release everything: the lease has ended, or the drain timeout.

    Without a lease no status is written: it could arrive after those of the next owner.
    """
    for key, task in state.tasks.items():
        state.tasks[key] = replace(task, keep=False, quiet=not state.lease_alive)


# One task


def _is_at_rest(key: TaskId, task: Task) -> bool:
    """Whether nothing is to be done about the task, now or later, unless an event concerns it."""
    return (
        task.phase is Phase.RUNNING
        and task.keep
        and not task.restart
        and task.progress.waiting is None
        and task.revoked_ms is None
        and key.task != INSTANCE
    )


def _task(state: State, settings: Settings, key: TaskId) -> list[Instruction]:
    out: list[Instruction] = []
    task = state.tasks[key]
    if task.phase in (Phase.STARTING, Phase.RUNNING) and _must_stop(state, task):
        out.append(StopTask(key, task.attempt))
        task = state.tasks[key] = replace(task, phase=Phase.STOPPING, restart=False)
        if not task.quiet:
            out += say(state, settings, key, TaskState.RESTARTING if task.keep else TaskState.STOPPING)
    if task.alive:
        return out if task.keep else [*out, *_hanging(state, settings, key)]
    if not task.keep:
        if not task.quiet:
            out += say(state, settings, key, TaskState.UNASSIGNED)
        del state.tasks[key]
    elif task.phase is Phase.WAITING or task.restart or _is_halted(state, key) or _restart_due(state, task):
        out += _start(state, settings, key)
    else:
        out += say_failed(state, settings, key)
    return out


def _hanging(state: State, settings: Settings, key: TaskId) -> list[Instruction]:
    """Report that a revoked task hangs in its stop, well before its member's process is ended."""
    task = state.tasks[key]
    if task.revoked_ms is None:
        task = state.tasks[key] = replace(task, revoked_ms=state.now_ms)
    hung_ms = state.hung_ms(task, settings)
    if task.quiet or hung_ms is None or state.now_ms < hung_ms:
        return []
    waited_ms, limit_ms = settings.revocation_timeout_ms // 2, settings.revocation_timeout_ms
    trace = (
        f"{key} ({unit_of(task.config)}) was revoked from {settings.identity} and has not stopped within "
        f"{waited_ms} ms: the member is ended {limit_ms} ms after the revocation (revocationTimeoutMs), and "
        "the task moves"
    )
    return say(state, settings, key, TaskState.STOPPING, trace=trace, reason=HUNG)


def _must_stop(state: State, task: Task) -> bool:
    return not task.keep or task.restart or _is_halted(state, task.task)


def _restart_due(state: State, task: Task) -> bool:
    restart_ms = state.restart_ms(task)
    return restart_ms is not None and state.now_ms >= restart_ms


def _is_halted(state: State, key: TaskId) -> bool:
    """The instance of a STOPPED connector does not run but stays assigned (KIP-875)."""
    if key.task != INSTANCE:
        return False
    connector = state.config.connectors.get(key.connector)
    return connector is not None and connector.target is TargetState.STOPPED


def _start(state: State, settings: Settings, key: TaskId) -> list[Instruction]:
    task = state.tasks[key]
    if state.config.offset < task.needs_offset:
        return []
    config = state.config.task_config(key)
    if config is None:
        text = f"waits for its configuration, which is not in the config log up to {state.config.offset}"
        return say(state, settings, key, TaskState.UNASSIGNED, progress=text)
    if _is_halted(state, key):
        state.tasks[key] = replace(task, phase=Phase.WAITING, restart=False, failed_ms=None)
        return say(state, settings, key, TaskState.STOPPED)
    # A requested restart and a changed configuration reset the count of restarts.
    by_itself = task.phase is Phase.FAILED and not task.restart and config == task.config
    state.attempts += 1
    paused = state.config.connectors[key.connector].target is TargetState.PAUSED
    state.tasks[key] = replace(
        task,
        phase=Phase.STARTING,
        attempt=state.attempts,
        restart=False,
        config=config,
        paused=paused,
        progress=Throttle(),
        running_ms=None,
        restarts=task.restarts + 1 if by_itself else 0,
        failed_ms=None,
    )
    # The status comes first, or readers of the log would take a starting task for one that never started.
    said = say(state, settings, key, TaskState.STARTING)
    return [*said, StartTask(key, state.attempts, config, paused, task.epoch)]


def _progress(state: State, settings: Settings, moving: Sequence[TaskId]) -> list[Instruction]:
    out: list[Instruction] = []
    for key in moving:
        task = state.tasks[key]
        due_ms = state.progress_due_ms(task, settings.progress_every_ms)
        if due_ms is None or state.now_ms < due_ms:
            continue
        text = task.progress.waiting or ""
        state.tasks[key] = replace(task, progress=task.progress.sent(state.now_ms))
        if task.phase is Phase.STARTING:
            out += say(state, settings, key, TaskState.STARTING, progress=text)
        else:
            out += say(
                state, settings, key, TaskState.PAUSED if task.paused else TaskState.RUNNING, progress=text
            )
    return out


# The leader


def _posts(state: State, settings: Settings) -> list[Instruction]:
    out: list[Instruction] = []
    for connector, post in list(state.posts.items()):
        instance = state.tasks.get(TaskId(connector, INSTANCE))
        if instance is None or instance.phase not in (Phase.STARTING, Phase.RUNNING):
            # The next attempt recomputes them.
            del state.posts[connector]
            continue
        if post.in_flight is not None or post.at_ms is None or state.now_ms < post.at_ms:
            continue
        if state.stored(connector) == post.configs:
            state.posts[connector] = replace(post, at_ms=None)
        elif state.leader_url:
            state.posted += 1
            state.posts[connector] = replace(post, at_ms=None, in_flight=state.posted)
            out.append(PostTaskConfigs(connector, state.posted, post.configs, state.leader_url))
    return out


def _acknowledgement(state: State, settings: Settings) -> list[Instruction]:
    """Rejoin when tasks were released: at once after the last one, else after a delay, to coalesce them."""
    if not state.acknowledgement_due or state.departing:
        state.asked_ms = state.rejoin_ms = None
        return []
    now_ms = state.now_ms
    if state.asked_ms is not None:
        if now_ms < state.asked_ms + settings.rejoin_retry_ms:
            return []
        state.asked_ms, state.rejoin_ms = None, now_ms
    if not state.refused:
        slow = any(not task.keep for task in state.tasks.values())
        soon_ms = now_ms + settings.coalesce_ms if slow else now_ms
        state.rejoin_ms = soon_ms if state.rejoin_ms is None else min(state.rejoin_ms, soon_ms)
    if state.rejoin_ms is None or now_ms < state.rejoin_ms:
        return []
    state.asked_ms, state.rejoin_ms = now_ms, None
    state.nonce += 1
    return [Rejoin(_why(state))]


def _why(state: State) -> str:
    if state.refused:
        return "the last assignment could not be applied"
    gone = sorted(state.unacknowledged)
    if not gone and state.answered is not None and state.warmth is not state.answered.warmth:
        return f"the runtime is {state.warmth.value.lower()}"
    if not gone:
        return "departs"
    return f"released {listed([str(task) for task in gone], 1)}"


def _ask_ms(state: State, settings: Settings) -> int | None:
    """When to ask the leader: from half of the lease on.

    Members without tasks and a member that leads ask too: a leader without its broker confirms only while all
    members of its round ask. The answer to a member's own question does not count, see ``learn.py``.
    """
    if state.applied is None or state.lease_basis_ms is None or not state.leader_url:
        return None
    half_ms = state.lease_basis_ms + state.lease_ms // 2
    if state.asked_leader_ms is None:
        return half_ms
    return max(half_ms, state.asked_leader_ms + settings.ask_every_ms)


def _question(state: State, settings: Settings) -> list[Instruction]:
    ask_ms = _ask_ms(state, settings)
    if ask_ms is None or state.now_ms < ask_ms or state.applied is None:
        return []
    state.asked_leader_ms = state.now_ms
    return [AskLeader(state.leader_url, state.member_id, state.applied)]


# The end


def _departure(state: State) -> list[Instruction]:
    """Leave when nothing is owned any more and the leader knows it, or when the drain timeout is over."""
    if not state.draining or state.tasks:
        return []
    if not state.departing and (state.acknowledgement_due or not reports.is_departure_known(state)):
        return []
    state.exiting = state.exit_code
    return [Leave(), Exit(state.exit_code)]


def _kill_ms(state: State, settings: Settings, moving: Sequence[Task]) -> int | None:
    """The time at which the process group is killed. No task may outlive the lease by more than the margin,
    or delay its own move by more than the revocation time-out (KIP-848 uses the rebalance time-out).
    """
    if not state.anything_alive or state.lease_end_ms is None:
        return None
    end_ms = state.lease_end_ms
    if state.depart_by_ms is not None:
        end_ms = min(end_ms, state.depart_by_ms)
    revoked = [task.revoked_ms for task in moving if task.revoked_ms is not None]
    return min(
        [end_ms + settings.kill_after_ms, *(at_ms + settings.revocation_timeout_ms for at_ms in revoked)]
    )


def _watch(state: State, settings: Settings, moving: Sequence[Task]) -> list[Instruction]:
    out: list[Instruction] = []
    kill_ms = _kill_ms(state, settings, moving)
    if kill_ms is not None and state.now_ms >= kill_ms:
        state.exiting = 1
        late = sorted(
            str(task.task)
            for task in state.tasks.values()
            if task.alive and not (task.keep and state.lease_alive)
        )
        return [KillGroup(f"not stopped in time: {', '.join(late)}")]
    if kill_ms != state.watch_ms:
        state.watch_ms = kill_ms
        out.append(Watch(kill_ms))
    return out


def _next_ms(state: State, settings: Settings, moving: Sequence[Task]) -> int | None:
    """The next moment at which the passing of time alone changes something."""
    times = [
        state.lease_end_ms if state.tasks else None,
        state.depart_by_ms,
        state.warm_by_ms,
        _kill_ms(state, settings, moving),
        _ask_ms(state, settings),
        state.rejoin_ms,
        reports.next_ms(state, settings),
        None if state.asked_ms is None else state.asked_ms + settings.rejoin_retry_ms,
    ]
    for task in moving:
        if task.failed_ms is not None:
            times.append(state.restart_ms(task))
        if not task.quiet:
            times.append(state.hung_ms(task, settings))
        times.append(state.progress_due_ms(task, settings.progress_every_ms))
    if state.leader_url:
        times += [post.at_ms for post in state.posts.values() if post.in_flight is None]
    return min((at_ms for at_ms in times if at_ms is not None and at_ms > state.now_ms), default=None)
