"""The supervisor of a member: events in, instructions out; pure.

Theory of operation
-------------------
An event only updates what is known (``learn.py``): which tasks are owned and whether to keep them, what runs,
until when the lease lasts. The instructions are then derived from the whole state (``settle.py``), in the
same way after every event. Nothing is lost with an assignment or in a race: the reason for an action is still
there at the next event.

* new assignment = owned - revoked + assigned. A revoked task stays owned, and is reported as stopping, until
  the runtime has confirmed that nothing of it runs. Then it is released, and an acknowledgement (a rejoin
  with different bytes) is due until an assignment answers a report without the task.
* A task has one attempt at a time. An attempt lives from StartTask to Stopped, whatever happens in between; a
  task that is assigned again while it stops starts after that.
* Nothing runs without a lease. It lasts ``lease_ms`` from the moment at which the newest request was *sent*
  whose answer proves that the tasks are still ours. When it ends, everything is stopped and released.
* Tasks in neither list of an assignment continue untouched.

A step works on a copy of the state: a step that raises changes nothing.
"""

from collections import deque
from collections.abc import Sequence

from cooperator.agent.events import Event
from cooperator.agent.instructions import Instruction
from cooperator.agent.learn import Learner
from cooperator.agent.settle import settle
from cooperator.agent.state import IllegalStep, Report, Settings, State, check
from cooperator.agent.story import StoryLine, description_of
from cooperator.model import TaskId

_STORY_LINES = 5_000


class Supervisor:
    """The state of a member and the only way to change it."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._state = State()
        self._events = 0
        self._story: deque[StoryLine] = deque(maxlen=_STORY_LINES)

    @property
    def state(self) -> State:
        """The current state. Read only."""
        return self._state

    @property
    def report(self) -> Report:
        """Returns what a join must carry. Publish it before you carry out the instructions of the same
        step."""
        return self._state.report()

    def handle(self, event: Event, now_ms: int) -> list[Instruction]:
        """Process ``event`` and return the instructions to carry out, in order.

        Raises IllegalStep, and changes nothing, if the event cannot happen now. After Exit or KillGroup all
        events are ignored.
        """
        return self.handle_all((event,), now_ms)

    def handle_all(self, events: Sequence[Event], now_ms: int) -> list[Instruction]:
        """Process events in one step; see ``handle``.

        The instructions are derived once, from the state after the last event: with many tasks that takes
        longer than the events themselves.
        """
        if self._state.exiting is not None:
            return []
        if now_ms < self._state.now_ms:
            raise IllegalStep(f"time ran backwards: from {self._state.now_ms} to {now_ms} ms")
        state = self._state.copy()
        state.now_ms = now_ms
        learner = Learner(state, self._settings)
        for event in events:
            learner.learn(event)
        out = learner.out + settle(state, self._settings)
        self._state = state
        self._events += len(events)
        self._tell(f"{type(events[-1]).__name__}#{self._events}", learner.lines, out)
        return out

    def story(self, task: TaskId) -> list[StoryLine]:
        """The history of ``task``, oldest first, interleaved with that of the whole member."""
        return [line for line in self._story if line.task in (None, task)]

    def validate(self) -> None:
        """Raise BrokenInvariant unless the state is consistent."""
        check(self._state)

    def _tell(self, cause: str, lines: list[tuple[TaskId | None, str]], out: list[Instruction]) -> None:
        at_ms = self._state.now_ms
        for task, what in lines:
            self._story.append(StoryLine(at_ms, cause, task, what))
        for instruction in out:
            described = description_of(instruction)
            if described is not None:
                self._story.append(StoryLine(at_ms, cause, *described))
