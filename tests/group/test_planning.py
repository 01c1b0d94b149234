"""A plan is awaited on the loop while another thread computes it."""

import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from typing import Any

import pytest
from kafka import errors

from cooperator.group import GroupConfig
from cooperator.group.failures import PlanFailed
from cooperator.group.library import new_loop, sleep_ms
from cooperator.group.planning import await_plan
from cooperator.wire import Role

CONFIG = GroupConfig("localhost:9092", "lake", "lake-0", Role.WORKER)
PLAN = {"a": b"all"}


@pytest.fixture
def loop() -> Iterator[Any]:
    loop = new_loop(CONFIG)
    yield loop
    loop.close()


class Beats:
    """Counts heartbeats, which fail from number ``lethal`` on."""

    def __init__(self, lethal: int = 1_000_000) -> None:
        self.count = 0
        self.lethal = lethal
        self.enough = threading.Event()

    async def __call__(self) -> None:
        self.count += 1
        if self.count >= 3:
            self.enough.set()
        if self.count >= self.lethal:
            raise errors.RebalanceInProgressError


def test_a_plan_that_is_ready_needs_no_heartbeat(loop: Any) -> None:
    plan: Future[Mapping[str, bytes]] = Future()
    plan.set_result(PLAN)
    beats = Beats()
    assert loop.run(await_plan, loop, plan, 10, beats) == PLAN
    assert beats.count == 0


def test_heartbeats_continue_until_another_thread_has_made_the_plan(loop: Any) -> None:
    plan: Future[Mapping[str, bytes]] = Future()
    beats = Beats()

    def make() -> None:
        assert beats.enough.wait(10)
        plan.set_result(PLAN)

    maker = threading.Thread(target=make)
    maker.start()
    assert loop.run(await_plan, loop, plan, 10, beats) == PLAN
    maker.join()
    assert beats.count >= 3


def test_the_loop_is_free_meanwhile(loop: Any) -> None:
    plan: Future[Mapping[str, bytes]] = Future()

    async def another() -> None:
        await sleep_ms(loop, 1)
        plan.set_result(PLAN)

    loop.call_soon_with_future(another)
    assert loop.run(await_plan, loop, plan, 60_000, Beats()) == PLAN


def test_a_heartbeat_that_says_that_the_round_is_over_ends_the_wait(loop: Any) -> None:
    plan: Future[Mapping[str, bytes]] = Future()
    with pytest.raises(errors.RebalanceInProgressError):
        loop.run(await_plan, loop, plan, 10, Beats(lethal=2))
    plan.set_result(PLAN)


def test_a_plan_that_fails_says_why(loop: Any) -> None:
    plan: Future[Mapping[str, bytes]] = Future()
    plan.set_exception(OSError("the log cannot be written"))
    with pytest.raises(PlanFailed, match="the log cannot be written"):
        loop.run(await_plan, loop, plan, 10, Beats())


def test_a_plan_made_after_the_loop_has_closed_is_ignored() -> None:
    loop = new_loop(CONFIG)
    plan: Future[Mapping[str, bytes]] = Future()
    with pytest.raises(errors.RebalanceInProgressError):
        loop.run(await_plan, loop, plan, 10, Beats(lethal=1))
    loop.close()
    plan.set_result(PLAN)
