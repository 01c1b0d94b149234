"""The supervisor of a member: events in, instructions out; pure.

Theory of operation
-------------------
An event only changes what is known (``learn.py``): what is owned and whether to keep it, what runs, until
when the lease lasts. What to do is then derived from all that is known (``settle.py``), in the same way after
every event: nothing is lost with a share or in a race, since its reason is still there at the next event.

* share = owned - revoked + assigned. A revoked task stays owned, and is reported as stopping, until the
  runtime has said that nothing of it runs; then it is let go of, and an acknowledgement (a rejoin with other
  bytes) is due until a share answers a report without it.
* One attempt of a task at a time: an attempt lives from StartTask to Stopped, whatever happens in between;
  what is assigned again while it stops starts after that.
* Nothing runs without a lease: it lasts ``lease_ms`` from the moment at which the newest request was *sent*
  whose answer proves that the tasks are still ours. When it ends, everything is stopped and let go of.
* Whatever is in neither list of a share goes on untouched.

A step works on a copy of the state: one that raises has changed nothing.
"""

from collections import deque

from cooperator.agent.events import Event
from cooperator.agent.instructions import Instruction
from cooperator.agent.learn import Learner
from cooperator.agent.settle import settle
from cooperator.agent.state import IllegalStep, Report, Settings, State, check
from cooperator.agent.story import StoryLine, told_of
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
        """What is known now; not to be written to."""
        return self._state

    @property
    def report(self) -> Report:
        """What a join must carry. Publish it before the instructions of the same step are carried out."""
        return self._state.report()

    def handle(self, event: Event, now_ms: int) -> list[Instruction]:
        """Take ``event`` in; what to do now, in this order. IllegalStep, and no change, if it cannot be.

        After Exit or KillGroup nothing matters any more.
        """
        if self._state.exiting is not None:
            return []
        if now_ms < self._state.now_ms:
            raise IllegalStep(f"time ran backwards: from {self._state.now_ms} to {now_ms} ms")
        state = self._state.copy()
        state.now_ms = now_ms
        learner = Learner(state, self._settings)
        learner.learn(event)
        out = learner.out + settle(state, self._settings)
        self._state = state
        self._events += 1
        self._tell(f"{type(event).__name__}#{self._events}", learner.lines, out)
        return out

    def story(self, task: TaskId) -> list[StoryLine]:
        """What happened to ``task``, oldest first, with what happened to the whole member in between."""
        return [line for line in self._story if line.task in (None, task)]

    def validate(self) -> None:
        """Raise BrokenInvariant unless the state is consistent."""
        check(self._state)

    def _tell(self, cause: str, lines: list[tuple[TaskId | None, str]], out: list[Instruction]) -> None:
        at_ms = self._state.now_ms
        for task, what in lines:
            self._story.append(StoryLine(at_ms, cause, task, what))
        for instruction in out:
            told = told_of(instruction)
            if told is not None:
                self._story.append(StoryLine(at_ms, cause, *told))
