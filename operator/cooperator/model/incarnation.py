"""Names of incarnations on Kubernetes."""

from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True, slots=True, order=True)
class PodIncarnation:
    """One start of the member's container in the pod object ``pod_uid``.

    ``started_ms``: start time (ms since the epoch) by the clock of the pod's node, which the kubelet's
    reports use as well. A restarted container keeps its pod's uid and has a later start time.
    """

    pod_uid: str
    started_ms: int

    def __str__(self) -> str:
        return f"{self.pod_uid}.{self.started_ms}"

    @classmethod
    def parse(cls, incarnation: str) -> Self | None:
        """Parse the text form of an incarnation; None for any other text."""
        uid, dot, started = incarnation.rpartition(".")
        if not (uid and dot and started.isascii() and started.isdigit()):
            return None
        return cls(uid, int(started))
