"""The delivery guarantee of a Connector's sink as a condition: exactly once, or at least once."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from cooperator.connectors import delivery, needs_checkpoints, outputs
from cooperator.connectors.base import Delivery
from cooperator.crd import Condition, ConditionStatus, Connector
from cooperator.crd.conditions import LOCAL_CHECKPOINTS, LOCAL_DIRECTORY

_LOCAL: Final = (
    "This Connector of class {} keeps progress in checkpoints, and each member of its Worker has its own: "
    "when a member is replaced, or a task moves, it begins anew, so that rows are repeated, refused, or left "
    "out. "
    "Use a Worker with spec.checkpointVolume or spec.checkpointLocation."
)
_LOCAL_DIRECTORY: Final = (
    "Class {} writes to {}, and each member of its Worker has a directory of its own at that path: its files "
    "are lost with the member, and when that is replaced, or a task moves, rows are written again. Mount a "
    "volume there that all members share (spec.template of the Worker), or use s3a://bucket/path."
)


@dataclass(frozen=True, slots=True)
class PodLocal:
    """Storage of a Worker that ends with a pod: its checkpoints, and directories for which ``directory`` is
    true.
    """

    checkpoints: bool = False
    directory: Callable[[str], bool] = lambda directory: False


NOTHING_LOCAL: Final = PodLocal()


def exactly_once(connector: Connector, is_stock: bool, local: PodLocal = NOTHING_LOCAL) -> Condition:
    """Whether each record is in the sink exactly once, whatever fails: its class's guarantee as configured.

    ``is_stock``: it is one of Kafka Connect's, about which nothing is known here. ``local``: storage
    of its Worker that ends with a pod.
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
    config = {**spec.config, "tasks.max": str(spec.tasks_max)}
    promised = delivery(spec.class_, config)
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
        lost = [each for each in outputs(spec.class_, config) if local.directory(each)]
        if local.checkpoints and needs_checkpoints(spec.class_, config):
            status, reason, note = ConditionStatus.FALSE, LOCAL_CHECKPOINTS, _LOCAL.format(spec.class_)
        elif lost:
            note = _LOCAL_DIRECTORY.format(spec.class_, lost[0])
            status, reason = ConditionStatus.FALSE, LOCAL_DIRECTORY
    return Condition(
        type="ExactlyOnce",
        status=status,
        reason=reason,
        message=note,
        observed_generation=connector.metadata.generation,
    )
