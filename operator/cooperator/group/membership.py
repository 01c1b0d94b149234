"""A lasting membership in a group: one thread that drives kafka-python's event loop."""

import logging
import threading
from collections.abc import Iterable
from concurrent.futures import Future
from typing import Final

from kafka.future import Future as LoopFuture

from cooperator.group.admin import GroupAdmin
from cooperator.group.config import GroupConfig
from cooperator.group.coordinator import Coordinator
from cooperator.group.evictor import Evictor
from cooperator.group.failures import CoordinatorGone, explain
from cooperator.group.guarded_listener import GuardedListener
from cooperator.group.library import Connections, Task, errors, new_loop, resolve, sleep_ms, wait_for
from cooperator.group.listener import DescribedGroup, Listener
from cooperator.supervision import TURN_S, supervised, turn, wait_turning

log = logging.getLogger(__name__)

_FRESH_START_S: Final = 1.0
_FAREWELL_SHARE: Final = 0.7
"""The part of the time for stopping that the farewell may take."""


class GroupUnavailable(Exception):
    """The group's coordinator did not answer in time; the message says what was tried."""


class _Session:
    """One set of connections on one loop, and the member that uses them."""

    def __init__(self, config: GroupConfig, listener: GuardedListener) -> None:
        self.loop = new_loop(config)
        self.admin = GroupAdmin(self.loop, config)
        self.coordinator: Coordinator | None = None
        self.evictor: Evictor | None = None
        self._connections = Connections(self.loop, config)
        self._ended = LoopFuture()
        self._config = config
        self._listener = listener

    def end(self) -> None:
        """Any thread: make ``run`` return."""
        resolve(self.loop, self._ended)

    async def run(self, earlier: "_Session | None", stopping: threading.Event) -> None:
        """Run until ``end`` is called or the member is fenced. Raises when a new session is needed.

        ``earlier``: the previous session, whose member this one continues.
        """
        incarnation = Task(self.loop, lambda: self._live(earlier), then=self.end)
        if not stopping.is_set():
            await wait_for(self.loop, self._ended, None)
        if incarnation.done:
            incarnation.result()

    async def keep_turning(self) -> None:
        """Turn until the end, for the thread that drives the loop."""
        while not self._ended.is_done:
            turn()
            await sleep_ms(self.loop, TURN_S * 1000)

    async def say_farewell(self, leave: bool, timeout_ms: float) -> None:
        """Remove from the group what would otherwise outlive this process. Not retried."""
        if self.coordinator is None:
            return
        named = self.coordinator.end()
        if leave and self.coordinator.member_id:
            named = [*named, (self.coordinator.member_id, self._config.group_instance_id)]
        if named:
            farewell = Task(self.loop, lambda: self.admin.remove(named, "stops"))
            await farewell.wait(timeout_ms)

    def close(self) -> None:
        self.admin.close()
        self._connections.close()
        self.loop.close()

    async def _live(self, earlier: "_Session | None") -> None:
        await self._connections.bootstrap()
        coordinator = Coordinator(self.loop, self._config, self._listener, self._connections, self.admin)
        evictor = Evictor(self.loop, self._config, self._listener, self.admin, coordinator)
        if earlier is not None and earlier.coordinator is not None and earlier.evictor is not None:
            coordinator.resume(earlier.coordinator)
            evictor.resume(earlier.evictor)
        self.coordinator, self.evictor = coordinator, evictor
        Task(self.loop, evictor.run)
        await coordinator.stay()


class Membership:
    """Joins the group, stays in it and rejoins it until stopped or fenced.

    All methods are thread-safe, and the listener may call all but ``describe``. Nothing but ``describe``
    raises because of the broker's state.
    """

    def __init__(self, config: GroupConfig, listener: Listener) -> None:
        self._config = config
        self._listener = GuardedListener(listener)
        self._thread = supervised(self._run, f"group {config.group_id}")
        self._stopping = threading.Event()
        self._running = threading.Event()
        self._session: _Session | None = None
        self._last: _Session | None = None
        """The last session that had a member."""
        self._leave = False
        self._farewell_ms = 0.0

    @property
    def member_id(self) -> str:
        """The id under which the broker knows this member; empty when it does not."""
        coordinator = self._current()
        return "" if coordinator is None else coordinator.member_id

    @property
    def generation(self) -> int:
        """The last generation joined; -1 while not a member."""
        coordinator = self._current()
        return -1 if coordinator is None else coordinator.generation_id

    @property
    def alive(self) -> bool:
        """True from ``start`` until ``stop`` or until fenced."""
        return self._thread.is_alive() and not self._stopping.is_set()

    def start(self) -> None:
        """Start to join; returns at once. Call it once per membership."""
        self._thread.start()

    def rejoin(self, reason: str) -> None:
        """Request another round. A leader always gets one; a follower only when its metadata has changed.

        Requests made before the next JoinGroup are merged into one; none is lost. A leader's round is planned
        when all members have joined, so it serves what its leader requested until then.
        """
        coordinator = self._current()
        if coordinator is not None:
            coordinator.ask_rejoin(reason)

    def evict(self, member_ids: Iterable[str]) -> None:
        """Remove other members by one LeaveGroup; returns at once.

        Retried until the broker has answered or this member no longer leads. Does nothing if this member does
        not lead, and for ids that are gone. Waits for the end of a round that is being planned.
        """
        session = self._session
        if session is not None and session.evictor is not None:
            session.evictor.ask(member_ids)

    def describe(self, timeout_s: float = 10) -> DescribedGroup:
        """The group as its coordinator sees it. Raises GroupUnavailable."""
        if threading.current_thread() is self._thread:
            raise RuntimeError("describe waits for the thread that calls it")
        answer: Future[DescribedGroup] = Future()
        try:
            if not self.alive:
                raise RuntimeError("the membership does not run")
            self._running.wait(timeout_s)
            session = self._session
            if session is None:
                raise TimeoutError
            asked = session.loop.call_soon_with_future(session.admin.describe)
            asked.add_callback(answer.set_result)
            asked.add_errback(answer.set_exception)
            return answer.result(timeout_s)
        except TimeoutError:
            problem = f"no answer within {timeout_s:g} s"
        except (errors.KafkaError, RuntimeError, GeneratorExit) as error:
            problem = str(error) or type(error).__name__
        raise GroupUnavailable(
            f"group {self._config.group_id!r} at {self._config.bootstrap_servers}: {problem}"
        )

    def stop(self, leave: bool, timeout_s: float = 10) -> None:
        """End the membership and its thread within ``timeout_s``. Further calls do nothing more.

        ``leave``: tell the broker, which starts a round for the others at once. Otherwise the broker notices
        after the session time-out, as a leader that will be back wants.
        """
        if not self._stopping.is_set():
            self._leave = leave
            self._farewell_ms = timeout_s * 1000 * _FAREWELL_SHARE
            self._stopping.set()
            if self._session is not None:
                self._session.end()
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join(timeout_s)

    def _current(self) -> Coordinator | None:
        for session in (self._session, self._last):
            if session is not None and session.coordinator is not None:
                return session.coordinator
        return None

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._one_session()
            except Exception as error:
                self._say(error)
            current = self._current()
            if current is not None and current.fenced:
                self._stopping.set()
                self._listener.fenced()
            wait_turning(self._stopping, _FRESH_START_S)

    def _one_session(self) -> None:
        session = _Session(self._config, self._listener)
        self._session = session
        self._running.set()
        Task(session.loop, session.keep_turning)
        try:
            session.loop.run(session.run, self._last, self._stopping)
            if self._stopping.is_set():
                session.loop.run(session.say_farewell, self._leave, self._farewell_ms)
        finally:
            if session.coordinator is not None:
                self._last = session
            session.close()

    def _say(self, error: Exception) -> None:
        if not isinstance(error, errors.KafkaError | CoordinatorGone):
            log.error("group %s: restarting with new connections", self._config.group_id, exc_info=error)
        self._listener.trouble(explain(error, self._config))
