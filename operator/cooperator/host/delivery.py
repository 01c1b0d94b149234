"""The delivery guarantee of a Connector's sink as a condition: exactly once, or at least once."""

from typing import Final

from cooperator.connectors import delivery, keeps_checkpoints
from cooperator.connectors.base import Delivery
from cooperator.crd import Condition, ConditionStatus, Connector
from cooperator.crd.conditions import LOCAL_CHECKPOINTS

_LOCAL: Final = (
    "Class {} keeps its progress in checkpoints, and each member of its Worker has its own: when a member is "
    "replaced, or a task moves, it begins anew, so that rows are repeated, refused by the sink, or left out. "
    "Use a Worker with spec.checkpointVolume or spec.checkpointLocation."
)


def exactly_once(connector: Connector, is_stock: bool, has_local_checkpoints: bool = False) -> Condition:
    """Whether each record is in the sink exactly once, whatever fails: its class's guarantee as configured.

    ``is_stock``: it is one of Kafka Connect's, about which nothing is known here. ``has_local_checkpoints``:
    its Worker keeps checkpoints where they are lost with a pod.
    """
    if is_stock:
        return Condition(
            type="ExactlyOnce",
            status=ConditionStatus.UNKNOWN,
            reason="DeliveryUnknown",
            message=f"See the documentation of class {connector.spec.class_} for its guarantee.",
            observed_generation=connector.metadata.generation,
        )
    spec = connector.spec
    promised = delivery(spec.class_, {**spec.config, "tasks.max": str(spec.tasks_max)})
    if promised is None:
        status, reason = ConditionStatus.UNKNOWN, "DeliveryUnknown"
        note = (
            f"The guarantee of class {spec.class_} is unknown: the class refuses its options, or is not "
            "installed where this is asked (members that have it run it all the same)."
        )
    else:
        is_exact = promised.level is Delivery.EXACTLY_ONCE
        status = ConditionStatus.TRUE if is_exact else ConditionStatus.FALSE
        reason, note = promised.level.value, promised.note
        if has_local_checkpoints and keeps_checkpoints(spec.class_):
            status, reason, note = ConditionStatus.FALSE, LOCAL_CHECKPOINTS, _LOCAL.format(spec.class_)
    return Condition(
        type="ExactlyOnce",
        status=status,
        reason=reason,
        message=note,
        observed_generation=connector.metadata.generation,
    )
