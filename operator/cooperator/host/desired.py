"""A Worker's resource as the desired state of its pool. Pure."""

from dataclasses import replace

from cooperator.crd import Worker
from cooperator.pool import PoolDesired, PoolPolicy, RollStrategy


def pool_desired(
    worker: Worker, revision: str, removing: bool = False, kill_after_ms: int | None = None
) -> PoolDesired:
    """The desired pool of a Worker.

    ``removing``: the Worker is being deleted with all its members. ``kill_after_ms``: how long after its
    drain time-out a member is killed; None: the platform does that.
    """
    rollout, drain_ms = worker.spec.rollout, worker.spec.drain_timeout_ms
    policy = PoolPolicy(
        strategy=RollStrategy(rollout.strategy.value),
        max_unavailable=rollout.max_unavailable,
        drain_timeout_ms=drain_ms,
        kill_after_ms=None if kill_after_ms is None else drain_ms + kill_after_ms,
    )
    if removing:
        policy = replace(policy, scale_down_delay_ms=0, scale_down_wait_max_ms=0)
    return PoolDesired(worker.metadata.name, 0 if removing else worker.spec.replicas, revision, policy)
