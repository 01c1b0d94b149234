"""Waits for what is done elsewhere, a plan for example, without losing the membership."""

from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future
from typing import Any

from kafka.future import Future as LoopFuture
from kafka.net.selector import NetworkSelector

from cooperator.group.failures import PlanFailed
from cooperator.group.library import resolve, wait_for


async def await_done(
    loop: NetworkSelector,
    future: "Future[Any]",
    heartbeat_interval_ms: int,
    beat: Callable[[], Awaitable[None]],
) -> None:
    """Return once ``future`` is done; with a heartbeat at every interval until then.

    An exception of ``beat`` ends the wait.
    """
    ready = LoopFuture()

    future.add_done_callback(lambda _: resolve(loop, ready))
    while not future.done():
        await wait_for(loop, ready, heartbeat_interval_ms)
        if not future.done():
            await beat()


async def await_plan(
    loop: NetworkSelector,
    plan: "Future[Mapping[str, bytes]]",
    heartbeat_interval_ms: int,
    beat: Callable[[], Awaitable[None]],
) -> Mapping[str, bytes]:
    """The result of ``plan``, with a heartbeat at every interval until then.

    An exception of ``beat`` ends the wait: the round is over, and the plan will not be used. Raises
    PlanFailed when the plan does.
    """
    await await_done(loop, plan, heartbeat_interval_ms, beat)
    try:
        return plan.result(0)
    except Exception as error:
        raise PlanFailed(f"the plan of the round failed: {error or type(error).__name__}") from error
