"""The choices of a Worker's fields."""

from enum import StrEnum
from typing import Final


class Runtime(StrEnum):
    SPARK = "spark"
    CONNECT = "connect"


class GroupPolicy(StrEnum):
    CREATE = "Create"
    ADOPT = "Adopt"


class SchedulingPolicy(StrEnum):
    """Eager is for benchmarks only."""

    DEFAULT = "Default"
    KIP415 = "Kip415"
    EAGER = "Eager"


class GroupProtocol(StrEnum):
    """auto: the group leaves rounds as soon as all its members can. sessioned: it stays in rounds."""

    AUTO = "auto"
    SESSIONED = "sessioned"


DEFAULT_PROTOCOL: Final = GroupProtocol.SESSIONED
"""The protocol of Workers without ``spec.protocol``.

It is in no schema: an API server would write it into each object, also where it contradicts other fields.
"""


class Spread(StrEnum):
    """Spread of each connector's tasks over the members.

    BestEffort: as far as the fewest moves allow. Strict: every connector within 1, at the cost of moves.
    """

    BEST_EFFORT = "BestEffort"
    STRICT = "Strict"


class RolloutStrategy(StrEnum):
    """Hold: a member is replaced in place, its tasks wait for it. Drain: they move away first."""

    HOLD = "Hold"
    DRAIN = "Drain"


class Fencing(StrEnum):
    """Strict: tasks of a stock worker that departs without proof of its end stay held. BestEffort: they
    move."""

    STRICT = "Strict"
    BEST_EFFORT = "BestEffort"


class DeletionPolicy(StrEnum):
    """Delete: members go with their Worker. Orphan: they stay, and lead themselves from then on."""

    DELETE = "Delete"
    ORPHAN = "Orphan"
