"""Pools at rest, for conversations."""

from collections.abc import Callable
from typing import Any

import pytest

from cooperator.pool import PoolDesired, PoolPolicy
from tests.pool.unreliable_pods import UnreliablePods


@pytest.fixture
def pool() -> Callable[..., UnreliablePods]:
    """``pool(3, max_unavailable=2)`` makes three working pods under this policy."""

    def start(replicas: int, *, self_restarting: bool = False, **policy: Any) -> UnreliablePods:
        pods = UnreliablePods(
            PoolDesired("lake", replicas, "r1", PoolPolicy(**policy)), self_restarting=self_restarting
        )
        pods.settle()
        pods.decide()
        return pods

    return start
