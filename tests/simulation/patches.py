"""Replaces clock, randomness, threads and sockets of the project's code by the simulation.

Everything that is replaced is in this one list.
"""

import logging
import queue
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from random import Random
from types import SimpleNamespace
from unittest.mock import patch

from cooperator.group import DescribedGroup, GroupState
from cooperator.leader import planning
from cooperator.model import Memory
from cooperator.planner import Workspace
from cooperator.planner.plan import Plan
from cooperator.planner.view import View
from tests.simulation import process, stepped
from tests.simulation.connections import Connections
from tests.simulation.learning import SteppedLearners
from tests.simulation.loop import Loop
from tests.simulation.simulation import Simulation
from tests.simulation.topics import SimulatedLogs, Transport


@contextmanager
def simulated(simulation: Simulation) -> Iterator[None]:
    """Run the project's code in ``simulation``."""

    def monotonic() -> float:
        # A quarter more, so that seconds times 1000 are never rounded below the millisecond.
        return (simulation.now_ms + 0.25) / 1000

    def time_ns() -> int:
        running = process._STAGE[0]
        error_ms = 0 if running is None else simulation.clocks[running.place]
        return (simulation.now_ms + error_ms) * 1_000_000

    chance = Random(simulation.random.random())
    threads = SimpleNamespace(Event=threading.Event, Lock=threading.Lock, current_thread=lambda: None)

    def open_logs(config: object, on_outage: object = None) -> SimulatedLogs:
        return SimulatedLogs(process.here(), config)  # type: ignore[arg-type]

    def ensure_topics(config: object, timeout_ms: int) -> None:
        names = simulation.topic_names
        for name in (names.config, names.status, names.leader):
            Transport(process.here()).ensure_topic(name, 1, 1, timeout_ms)

    def group_record_bytes(config: object) -> int | None:
        return Transport(process.here()).group_record_bytes(0)

    def recorded(view: View, memory: Memory, workspace: Workspace) -> tuple[Plan, Memory]:
        plan, after = decide(view, memory, workspace)
        simulation.planned(view, memory, plan, after)
        return plan, after

    decide = planning.decide  # type: ignore[attr-defined]
    replaced = {
        "cooperator.leader.planning.decide": recorded,
        "cooperator.agent.inbox.queue": SimpleNamespace(SimpleQueue=stepped.Queue, Empty=queue.Empty),
        "cooperator.agent.main.Endpoint": stepped.Endpoint,
        "cooperator.agent.main.LeaderCalls": stepped.Calls,
        "cooperator.agent.main.LearnerThread": SteppedLearners,
        "cooperator.agent.learner_thread.supervised": stepped.NoThread,
        "cooperator.leader.leader_thread.supervised": stepped.NoThread,
        "cooperator.leader.member_lead.LeaderThread": stepped.SteppedLead,
        "cooperator.leader.routes.asyncio": stepped.Futures,
        "cooperator.leader.routes.body_of": stepped.body_of,
        "cooperator.leader.service.threading": threads,
        "cooperator.leader.service.supervised": stepped.NoThread,
        "cooperator.leader.service.LeaderThread": stepped.SteppedLead,
        "cooperator.leader.service.Endpoint": stepped.Endpoint,
        "cooperator.leader.service.Membership": stepped.SteppedMembership,
        "cooperator.leader.service.open_logs": open_logs,
        "cooperator.leader.service.ensure_topics": ensure_topics,
        "cooperator.leader.service.group_record_bytes": group_record_bytes,
        "cooperator.leader.observability.group_inspector.describe_group": lambda *_: DescribedGroup(
            GroupState.EMPTY, "connect", "", ()
        ),
        "cooperator.group.membership.threading": threads,
        "cooperator.group.membership.supervised": stepped.NoThread,
        "cooperator.group.membership.new_loop": lambda _: Loop(process.here()),
        "cooperator.group.membership.Connections": Connections,
        "cooperator.group.membership.Coordinator": stepped.SteppedCoordinator,
        "cooperator.group.admin.Connections": Connections,
    }
    listener = _Errors(simulation)
    logger = logging.getLogger("cooperator")
    kafka = logging.getLogger("kafka")
    with ExitStack() as stack:
        stack.enter_context(patch.object(time, "monotonic", monotonic))
        stack.enter_context(patch.object(time, "time_ns", time_ns))
        stack.enter_context(patch.object(secrets, "token_bytes", chance.randbytes))
        for name, value in replaced.items():
            stack.enter_context(patch(name, value))
        for module in ("cooperator.group.coordinator.random", "cooperator.group.evictor.random"):
            stack.enter_context(patch(module, chance))
        stack.enter_context(patch.multiple(logger, level=logging.ERROR, propagate=False))
        stack.enter_context(patch.multiple(kafka, level=logging.CRITICAL + 1, propagate=False))
        logger.addHandler(listener)
        logger.manager._clear_cache()  # type: ignore[attr-defined]
        try:
            yield
        finally:
            logger.removeHandler(listener)
            logger.setLevel(logging.CRITICAL + 1)
            simulation.end()
    logger.manager._clear_cache()  # type: ignore[attr-defined]


class _Errors(logging.Handler):
    """An exception that the project's shells catch and log is a failure here."""

    def __init__(self, simulation: Simulation) -> None:
        super().__init__(logging.ERROR)
        self._simulation = simulation

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info:
            formatter = logging.Formatter()
            text = formatter.formatException(record.exc_info)  # type: ignore[arg-type]
            self._simulation.errors.append(f"{record.getMessage()}\n{text}")
