"""The queue from which the member's main thread takes what other threads tell it."""

import queue
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from cooperator.agent.events import Event
from cooperator.agent.synchronized import SynchronizedSupervisor

EventOf = Callable[[SynchronizedSupervisor], Event | None]
"""Makes an event from the state of its moment; None: there is none."""
Put = Callable[[EventOf], None]

_AT_ONCE: Final = 500
"""Events of the runtime in one step at most."""


@dataclass(frozen=True, slots=True)
class RuntimeEvent:
    """An ``EventOf`` of the runtime: such events do not depend on the state, and may share a step."""

    event: Event

    def __call__(self, supervisor: SynchronizedSupervisor) -> Event:
        return self.event


class Inbox:
    """A queue. ``put`` may be called by any thread, ``next`` by one."""

    def __init__(self) -> None:
        self.queue: queue.SimpleQueue[EventOf] = queue.SimpleQueue()
        self.put: Put = self.queue.put

    def next(self, timeout_s: float) -> tuple[Sequence[Event], EventOf | None]:
        """Returns the events of the runtime that are first in the queue, and what follows them.

        A hand-over stops and starts hundreds of tasks at once. Raises queue.Empty when there is nothing for
        ``timeout_s``.
        """
        following = self.queue.get(timeout=timeout_s)
        events: list[Event] = []
        while isinstance(following, RuntimeEvent):
            events.append(following.event)
            if len(events) == _AT_ONCE or self.queue.empty():
                return events, None
            following = self.queue.get(timeout=0)
        return events, following
