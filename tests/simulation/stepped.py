"""The real parts that have threads or sockets of their own, driven by simulated events instead.

Each is the project's class; only its caller and the times of the calls are replaced.
"""

import queue
import traceback
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

import aiohttp
from kafka.future import Future as LoopFuture

from cooperator.agent.calls import LeaderCalls
from cooperator.group import GroupConfig, Listener, Membership
from cooperator.group.coordinator import Coordinator
from cooperator.group.lead import JoinAnswer
from cooperator.group.membership import _FRESH_START_S, _Session
from cooperator.leader import events as ev
from cooperator.leader.endpoint import Handler
from cooperator.leader.invariants import BrokenInvariant
from cooperator.leader.leader_thread import LeaderThread
from tests.simulation.loop import Loop
from tests.simulation.process import Process, here
from tests.simulation.scheduler import Timer


class Queue:
    """A thread's queue: a put makes the owner's turn an event."""

    def __init__(self) -> None:
        self._process = here()
        self._items: deque[Any] = deque()
        self.turn: Callable[[], None] | None = None

    def put(self, item: Any) -> None:
        self._items.append(item)
        self._process.hop(self._take_turn)

    def get(self, timeout: float | None = None) -> Any:
        if not self._items:
            raise queue.Empty
        return self._items.popleft()

    def empty(self) -> bool:
        return not self._items

    def __len__(self) -> int:
        return len(self._items)

    def _take_turn(self) -> None:
        if self.turn is not None and self._items:
            self.turn()


class SteppedLead(LeaderThread):
    """The leader's thread as events."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._process = here()
        stepped = Queue()
        stepped.turn = self._turn
        self._queue: Any = stepped
        self._timer: Timer | None = None
        self._ended = False
        self._process.simulation.leads.append((self._process, self))
        self._process.simulation.stories.append((self._process.name, self.machine))

    def start(self) -> None:
        """There is nothing to start."""

    def stop(self, timeout_s: float = 10) -> None:
        self._queue.put(None)

    def _decide(self, event: ev.Event) -> list[ev.Instruction]:
        instructions = super()._decide(event)
        try:
            self.machine.validate()
        except BrokenInvariant as broken:
            self._process.simulation.errors.append(f"{self._process.name}: {broken}")
        return instructions

    def _turn(self) -> None:
        step = self._queue.get()
        if self._ended:
            return
        if step is None:
            self._ended = True
            self._lost("stopped")
            return
        self._step(step)
        self._set_timer()

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        patience_s = self._patience_s()
        if patience_s is not None:
            self._timer = self._process.after(int(patience_s * 1000) + 1, self._tick)

    def _tick(self) -> None:
        if not self._ended:
            self._wake_up()
            self._set_timer()


class SteppedMembership(Membership):
    """The membership's thread as coroutines on simulated loops."""

    def __init__(self, config: GroupConfig, listener: Listener) -> None:
        super().__init__(config, listener)
        self._process = here()
        self._outer = Loop(self._process)
        self._started = False
        self.ended = False

    @property
    def alive(self) -> bool:
        return self._started and not self._stopping.is_set()

    def start(self) -> None:
        self._started = True
        self._outer.spawn(self._live())

    def stop(self, leave: bool, timeout_s: float = 10) -> None:
        if self._stopping.is_set():
            return
        self._leave = leave
        self._farewell_ms = timeout_s * 700
        self._stopping.set()
        if self._session is not None:
            self._session.end()

    async def _live(self) -> None:
        while not self._stopping.is_set():
            try:
                await self._one()
            except Exception as error:
                self._say(error)
            current = self._current()
            if current is not None and current.fenced:
                self._stopping.set()
                self._listener.fenced()
            if not self._stopping.is_set():
                await self._outer.sleep(_FRESH_START_S)
        self.ended = True

    async def _one(self) -> None:
        session = _Session(self._config, self._listener)
        self._session = session
        loop: Any = session.loop
        try:
            await self._on(loop, session.run, self._last, self._stopping)
            if self._stopping.is_set():
                await self._on(loop, session.say_farewell, self._leave, self._farewell_ms)
        finally:
            if session.coordinator is not None:
                self._last = session
            session.close()

    async def _on(self, loop: Loop, work: Any, *args: Any) -> Any:
        """Run on a session's loop, and wait on our own."""
        done = LoopFuture()
        inner = loop.call_soon_with_future(work, *args)
        inner.add_both(lambda _: self._outer._soon(lambda: done.success(None)))
        await done
        return await inner


class SteppedCoordinator(Coordinator):
    """A member whose process may delay its next JoinGroup; heartbeats continue meanwhile."""

    async def _on_join_prepare_async(self, *known: Any, **times: Any) -> None:
        await self._wait()

    async def join(self) -> JoinAnswer:
        # Wait again: a repeated attempt is not prepared again.
        await self._wait()
        here().begin_join()
        return await super().join()

    async def _wait(self) -> None:
        while (waited := here().before_join()) is not None:
            await waited


class Endpoint:
    """Replaces the HTTP endpoint: found by its URL, served by the network; TLS is not simulated."""

    def __init__(self, host: str, port: int, routes: Mapping[str, Handler], tls: None = None) -> None:
        self._process = here()
        self.host = host
        self.port = port or self._process.simulation.next_port()
        self.routes = routes

    @property
    def url(self) -> str:
        return self.url_at(self.host)

    def url_at(self, host: str) -> str:
        return f"http://{host}:{self.port}/"

    def start(self) -> None:
        self._process.url = self.url
        self._process.simulation.endpoints[self.url] = (self._process, self)

    def stop(self) -> None:
        self._process.simulation.endpoints.pop(self.url, None)

    def serve(self, path: str, body: bytes, headers: Mapping[str, str], answer: "Answered") -> None:
        for route, handler in self.routes.items():
            pattern = route.removeprefix("POST /").split("/")
            words = path.split("/")
            if len(pattern) != len(words) or not route.startswith("POST"):
                continue
            names = {p[1:-1]: w for p, w in zip(pattern, words, strict=True) if p.startswith("{")}
            if all(p == w or p.startswith("{") for p, w in zip(pattern, words, strict=True)):
                loop = Loop(self._process)
                future = loop.call_soon_with_future(handler, _Request(body, headers, names))

                def respond(response: Any) -> None:
                    if path == "report" and response.status == 200:
                        self._process.simulation.report_answered(body, response.body)
                    answer(response.status, response.text or "")

                future.add_callback(respond)
                future.add_errback(lambda error, route=route: self._failed(route, error, answer))
                return

    def _failed(self, route: str, error: Exception, answer: "Answered") -> None:
        """As the real one, whose library logs the traceback and answers 500."""
        how = "".join(traceback.format_exception(error))
        self._process.simulation.errors.append(f"{route}\n{how}")
        answer(500, "")


Answered = Callable[[int, str], None]


class _Request:
    def __init__(self, body: bytes, headers: Mapping[str, str], match_info: Mapping[str, str]) -> None:
        self._body = body
        self.headers = headers
        self.match_info = match_info

    async def read(self) -> bytes:
        return self._body


async def body_of(request: _Request) -> bytes:
    """Bodies arrive at once here; bounds on their size and time are tested over HTTP."""
    return await request.read()


class Calls(LeaderCalls):
    """A member's calls to its leader, over the simulated network."""

    def __init__(self, tell: Any, session_key: Any, now_ms: Any, leader_ca: None = None) -> None:
        self._tell = tell
        self._session_key = session_key
        self._now_ms = now_ms
        self._process: Process = here()
        self._line = Loop(self._process)

    def start(self) -> None:
        """There is nothing to start."""

    def close(self) -> None:
        self._line.close()

    def _submit(self, call: Any) -> None:
        self._line.spawn(call)

    async def _begin_report(self, order: Any) -> None:
        """As the real one; the answer to a report that was given up may still arrive."""
        await self._report(order)

    async def _send(self, url: str, body: bytes, headers: dict[str, str], total_s: float) -> tuple[int, str]:
        process, simulation = self._process, self._process.simulation
        base, path = url[: url.index("/", 8) + 1], url[url.index("/", 8) + 1 :]
        reply = LoopFuture()

        sent_ms = simulation.now_ms

        found = simulation.endpoints.get(base)

        def hear(status: int, text: str) -> None:
            if not reply.is_done:
                if found is not None and path == "lease" and status == 200 and base != process.url:
                    simulation.confirmed(process, sent_ms)
                if path == "report" and status == 200:
                    simulation.reconciled(process, text)
                reply.success((status, text))

        def arrive() -> None:
            serving = simulation.endpoints.get(base)
            if serving is not None:
                server, endpoint = serving

                def answer(status: int, text: str) -> None:
                    simulation.network.send(
                        server, process.place, lambda: process.enter(lambda: hear(status, text))
                    )

                server.enter(lambda: endpoint.serve(path, body, headers, answer))

        def give_up() -> None:
            if not reply.is_done:
                reply.failure(aiohttp.ClientError("timed out"))

        if found is not None:
            simulation.network.send(process, found[0].place, arrive)
        process.after(int(total_s * 1000), give_up)
        return await reply  # type: ignore[no-any-return]


class Futures:
    """Replaces ``asyncio`` where a route waits for the leader's thread."""

    @staticmethod
    async def wait_for(awaited: Any, timeout_s: float) -> Any:
        return await awaited

    @staticmethod
    def sleep(delay_s: float) -> LoopFuture:
        return Loop(here()).sleep(delay_s)

    @staticmethod
    def wrap_future(future: Any) -> LoopFuture:
        loop = Loop(here())
        wrapped = LoopFuture()

        def done(_: Any) -> None:
            error = future.exception()
            loop._soon(lambda: wrapped.failure(error) if error else wrapped.success(future.result()))

        future.add_done_callback(done)
        return wrapped


class NoThread:
    """Replaces threads: nothing is started."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def start(self) -> None:
        raise AssertionError("a thread would be started in the simulation")

    def is_alive(self) -> bool:
        return False

    def join(self, timeout: float | None = None) -> None:
        pass
