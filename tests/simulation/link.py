"""Connections to the broker: requests in order, each answered or, once the connection ends, never."""

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from kafka import errors
from kafka.future import Future

from tests.simulation.broker.messages import Answer, Request, SyncGroup
from tests.simulation.network import BROKER
from tests.simulation.process import Process

if TYPE_CHECKING:
    from tests.simulation.simulation import Simulation

MakeRequest = Callable[[str], Request]
"""Makes the request from the connection's name."""
REFUSED_MS = 5


class BrokerPort:
    """The broker's side: passes requests to the group's coordinator, and its answers back."""

    def __init__(self, simulation: "Simulation") -> None:
        self._simulation = simulation
        self._requests = 0
        self._waiting: dict[int, Link] = {}
        self._links: dict[str, Link] = {}
        self.up = True
        self._wake_ms: int | None = None

    def open(self, link: "Link") -> None:
        self._links[link.name] = link

    def take(self, link: "Link", request: Request) -> None:
        self._requests += 1
        self._waiting[self._requests] = link
        if isinstance(request, SyncGroup) and request.assignments:
            self._simulation.syncs.append(request)
        self._hand_out(self._simulation.coordinator.handle(self._requests, request, self._simulation.now_ms))

    def end(self, link: "Link") -> None:
        """The connection has ended, and the broker knows."""
        self._links.pop(link.name, None)
        self._waiting = {number: other for number, other in self._waiting.items() if other is not link}
        if self.up:
            self._simulation.coordinator.disconnect(link.name, self._simulation.now_ms)
            self._plan_tick()

    def crash(self) -> None:
        self.up = False
        self._waiting.clear()
        links, self._links = self._links, {}
        for link in links.values():
            link.reset()

    def restart(self) -> None:
        self.up = True
        self._simulation.coordinator.restart(self._simulation.now_ms)
        self._plan_tick()

    def _tick(self) -> None:
        self._wake_ms = None
        if self.up:
            self._hand_out(self._simulation.coordinator.tick(self._simulation.now_ms))

    def _hand_out(self, answers: list[tuple[int, Answer]]) -> None:
        self._simulation.group_touched = True
        for number, answer in answers:
            link = self._waiting.pop(number, None)
            if link is not None:
                link.answered(answer)
        self._plan_tick()

    def _plan_tick(self) -> None:
        due_ms = self._simulation.coordinator.next_wake_ms()
        if due_ms is not None and (self._wake_ms is None or due_ms < self._wake_ms):
            self._wake_ms = due_ms
            self._simulation.scheduler.at(due_ms, self._tick)


class Link:
    """One connection for its lifetime. Requests are handled one after another, as brokers do."""

    def __init__(self, process: Process, number: int) -> None:
        self.process = process
        self.name = f"{process.name}#{number}"
        self.closed = False
        self._simulation = process.simulation
        self._port = process.simulation.port
        self._asked: deque[tuple[Future, int]] = deque()
        self._queue: deque[Request] = deque()
        self._busy = False
        self._arrive_ms = 0
        self._answer_ms = 0
        self._port.open(self)

    def ask(self, make: MakeRequest, timeout_ms: float) -> Future:
        """Returns a future answer, which may fail with a KafkaError."""
        future = Future()
        self._asked.append((future, self._simulation.now_ms))
        network, simulation, process = self._simulation.network, self._simulation, self.process
        process.after(int(timeout_ms), lambda: self._timed_out(future))
        if not self._port.up and network.reaches(process.place, BROKER):
            process.after(REFUSED_MS, self.reset)
            return future
        self._arrive_ms = max(self._arrive_ms, simulation.now_ms + network.delay_ms())
        request = make(self.name)
        lost = network.loses()
        simulation.scheduler.at(self._arrive_ms, lambda: self._arrive(request, lost))
        return future

    def close(self) -> None:
        """The client closes; what is on its way still arrives."""
        self._end(errors.KafkaConnectionError("closed"))

    def reset(self) -> None:
        """The broker's end is gone."""
        process = self.process
        if not self.closed:
            process.after(self._simulation.network.delay_ms(), self._reset)

    def _reset(self) -> None:
        self._end(errors.KafkaConnectionError("connection reset"))

    def _arrive(self, request: Request, lost: bool) -> None:
        if not self._port.up or not self._simulation.network.reaches(self.process.place, BROKER):
            return
        if lost:
            # A packet is not lost alone: its connection is.
            self.reset()
            return
        self._queue.append(request)
        self._serve()

    def _serve(self) -> None:
        while self._queue and not self._busy:
            self._busy = True
            self._port.take(self, self._queue.popleft())

    def answered(self, answer: Answer) -> None:
        """The broker has answered; the answer is on its way back."""
        self._busy = False
        simulation, network = self._simulation, self._simulation.network
        self._answer_ms = max(self._answer_ms, simulation.now_ms + network.delay_ms())
        if network.loses():
            self.reset()
        else:
            simulation.scheduler.at(self._answer_ms, lambda: self._deliver(answer))
        self._serve()

    def _deliver(self, answer: Answer) -> None:
        if not self.closed and self._simulation.network.reaches(self.process.place, BROKER):
            self.process.enter(lambda: self._hear(answer))

    def _hear(self, answer: Answer) -> None:
        if self.closed or not self._asked:
            return
        future, sent_ms = self._asked.popleft()
        self._simulation.heard(self.process, answer, sent_ms)
        future.success(answer)

    def _timed_out(self, future: Future) -> None:
        if not future.is_done:
            self._end(errors.RequestTimedOutError("request timed out"))

    def _end(self, error: Exception) -> None:
        if self.closed:
            return
        self.closed = True
        simulation = self._simulation
        if simulation.over:
            return
        self._arrive_ms = max(self._arrive_ms, simulation.now_ms + simulation.network.delay_ms())
        simulation.scheduler.at(self._arrive_ms, lambda: self._port.end(self))
        asked, self._asked = self._asked, deque()
        for future, _ in asked:
            if not future.is_done:
                future.failure(error)
