"""Names of incarnations on Kubernetes."""

import re
from dataclasses import dataclass
from typing import Final, Self

_START: Final = re.compile(r"[0-9a-f]{16}")
_AFTER: Final = "after "
_EARLIER: Final = 16
"""Number of earlier incarnations in a termination message; the kubelet passes on 4,096 bytes of it."""


@dataclass(frozen=True, slots=True)
class PodIncarnation:
    """One start of the member's container in the pod object ``pod_uid``.

    ``start`` is a random name of that start (16 hexadecimal digits). It is no time: a node's clock may be set
    back between two starts, so times tell neither which of them runs nor which was first.
    """

    pod_uid: str
    start: str

    def __str__(self) -> str:
        return f"{self.pod_uid}.{self.start}"

    @classmethod
    def parse(cls, incarnation: str) -> Self | None:
        """Parse the text form of an incarnation; None for any other text."""
        uid, dot, start = incarnation.rpartition(".")
        return cls(uid, start) if uid and dot and _START.fullmatch(start) else None


def termination_message(own: PodIncarnation, earlier: tuple[PodIncarnation, ...]) -> str:
    """The message of a container in which ``own`` runs; ``earlier`` ran before it in the same pod."""
    lines = [f"{own}", *(f"{_AFTER}{each.start}" for each in earlier[-_EARLIER:])]
    return "\n".join(lines) + "\n"


def ended_by(message: str) -> frozenset[PodIncarnation]:
    """The incarnations whose end a terminated container's ``message`` proves: the one that ran in it, and
    those that had run before it in the same pod. Empty if it names none."""
    first, *lines = message.splitlines() or [""]
    own = PodIncarnation.parse(first.strip())
    if own is None:
        return frozenset()
    starts = [line.removeprefix(_AFTER) for line in lines if line.startswith(_AFTER)]
    return frozenset({own, *(PodIncarnation(own.pod_uid, start) for start in starts)})
