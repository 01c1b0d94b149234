"""Pools at rest to start a conversation with."""

from collections.abc import Callable
from typing import Any

import pytest

from cooperator.pool import PoolDesired, PoolPolicy
from pool.world import World


@pytest.fixture
def pool() -> Callable[..., World]:
    """``pool(3, max_unavailable=2)``: three pods that work, under this policy."""

    def start(replicas: int, *, self_restarting: bool = False, **policy: Any) -> World:
        world = World(
            PoolDesired("lake", replicas, "r1", PoolPolicy(**policy)), self_restarting=self_restarting
        )
        world.settle()
        world.decide()
        return world

    return start
