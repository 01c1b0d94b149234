"""The loop of one Worker: observe, lead, decide, act, publish; again whenever something has changed.

It is level-triggered: each step starts from what its platform shows. It has a thread of its own, so that a
broker or an API server that hangs delays no other Worker.
"""

import logging
import threading
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from cooperator.host.group import group_seen
from cooperator.host.known import Leader
from cooperator.host.leader import Leadership, StartLeader, started_leader
from cooperator.host.platform import Goal, Observation, Platform, PlatformError, event_of
from cooperator.host.pool_step import PoolStep
from cooperator.host.status import WorkerFacts
from cooperator.host.stock import Incarnation, StockIncarnations
from cooperator.leader.process import SteadyClock
from cooperator.leader.service import LeaderService
from cooperator.log_lines import within
from cooperator.pool import PoolObserved
from cooperator.supervision import supervised, turn, wait_turning
from cooperator.wire import RestartRecord

log = logging.getLogger(__name__)

_SHORTEST_PAUSE_S: Final = 0.05
_ERROR_PAUSE_S: Final = 2.0
_STEP_S: Final = 150.0
"""No step takes longer: handing back a group and stopping its leader are the longest."""
_STOP_S: Final = 15.0

P = TypeVar("P", bound=Platform)


class WorkerLoop(Generic[P]):
    """Works towards what its platform's resources ask for, from ``start`` until ``stop`` or ``done``.

    ``look_s``: how often it takes a step without being woken. ``clock_ms`` does not follow the wall clock:
    setting that back would delay the pool's time-outs.
    """

    def __init__(
        self,
        name: tuple[str, str],
        platform: P,
        look_s: float,
        clock_ms: Callable[[], int] | None = None,
        start_leader: StartLeader = started_leader,
    ) -> None:
        self.name = name
        self.platform = platform
        self._look_s = look_s
        self._clock_ms = clock_ms or SteadyClock()
        self._pool = PoolStep(platform.act, self._clock_ms)
        self._leadership = Leadership(self._restarted, self._clock_ms, start_leader)
        self._stock = StockIncarnations()
        self._next_ms: int | None = None
        self._warned = ""
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._done = threading.Event()
        self._thread = supervised(self._run, f"worker-{'-'.join(name)}", limit_s=_STEP_S)

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        self._wake.set()

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    @property
    def done(self) -> bool:
        """Whether there is nothing more to do for this Worker."""
        return self._done.is_set()

    @property
    def status(self) -> Leader:
        """The leader's last known status; empty while there is no leader."""
        return self._leadership.status

    @property
    def leader(self) -> LeaderService | None:
        """The current leader; None while there is none."""
        return self._leadership.leader

    @property
    def trouble(self) -> str:
        """The platform's problem that the last step ended with; empty if there was none."""
        return self._warned

    def restart(self, record: RestartRecord) -> int:
        """See ``LeaderService.restart``."""
        return self.leader.restart(record) if self.leader is not None else 409

    def stop(self, timeout_s: float = _STOP_S) -> None:
        """Stops. Members run on, and the leader keeps its place in the group for the next process."""
        self._stopping.set()
        self._wake.set()
        self._thread.join(timeout_s)

    def step(self) -> None:
        """Takes one step. For the loop's own thread, and for tests without one."""
        seen = self.platform.observe(self._leadership.refresh())
        if seen is not None:
            with within(event=event_of(seen.causes.step)):
                for connector in self._leadership.apply(seen):
                    self._pool.pardon(connector)
                facts = self._decide(seen)
                try:
                    self.platform.publish(facts, self.leader)
                except Exception:
                    # A failed write must not block the removal of a deleted Worker.
                    self._remove(seen)
                    raise
        self._remove(seen)

    def _remove(self, seen: Observation | None) -> None:
        if seen is not None and seen.wanted.goal is Goal.ORPHAN and not self._leadership.hand_back():
            return
        if self.platform.removed():
            self._done.set()

    def _decide(self, seen: Observation) -> WorkerFacts:
        """Tells the leader about the pool, and acts on it."""
        leader, stock = seen.leader, self._stock
        if seen.wanted.worker.spec.is_stock:
            newest = {identity: each.incarnation for identity, each in seen.incarnations.items()}
            newest |= {pod.identity: pod.incarnation for pod in seen.pods}
            hosts = {(pod.identity, pod.incarnation): pod.address for pod in seen.pods}
            stock = self._stock = stock.seen(leader, newest, hosts)
            leader = stock.in_pool_names(leader)

        def ends(ended: frozenset[Incarnation]) -> frozenset[Incarnation]:
            proven = seen.ends(ended)
            return proven | stock.ended(ended | proven)

        self._next_ms = self._pool.step(
            seen.pool,
            PoolObserved(seen.pods, group_seen(leader), seen.nodes),
            ends,
            lambda facts: self._leadership.tell(facts, seen.causes),
            halt=seen.wanted.goal is Goal.HALT,
        )
        self._leadership.tell_candidates(seen)
        reported = self._leadership.facts
        expected = reported.expected if reported is not None else None
        return WorkerFacts(
            seen.incarnations, leader, self._pool.reports, expected or frozenset(), seen.conditions
        )

    # --- the thread ---------------------------------------------------------------------------------

    def _run(self) -> None:
        with within(worker="/".join(self.name)):
            while not self._stopping.is_set() and not self.done:
                wait_turning(self._wake, self._round())
                self._wake.clear()
            turn()
            self._leadership.stop(leave=self.done)

    def _round(self) -> float:
        """Takes one step, whatever it raises; returns how long to wait (s)."""
        try:
            self.step()
        except PlatformError as error:
            # It is logged once, and not at every step while it lasts.
            if str(error) != self._warned:
                log.warning("Worker %s/%s: %s", *self.name, error)
            self._warned = str(error)
            return _ERROR_PAUSE_S
        except Exception:
            # The next step starts from the current state, whatever the error was.
            log.exception("Worker %s/%s", *self.name)
            return _ERROR_PAUSE_S
        self._warned = ""
        due_s = self._look_s if self._next_ms is None else (self._next_ms - self._clock_ms()) / 1000
        return min(self._look_s, max(_SHORTEST_PAUSE_S, due_s))

    def _restarted(self, record: RestartRecord) -> None:
        self._pool.pardon(record.connector, record.include_tasks or record.task is not None)
        self._wake.set()
