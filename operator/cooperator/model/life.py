"""How a life of a pod is named where Kubernetes runs it."""

from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True, slots=True, order=True)
class PodLife:
    """One start of the member's container in the pod object ``pod_uid``.

    ``started_ms``: by the clock of the pod's node, which the kubelet's reports go by, too (ms since the
    epoch). A container that is restarted keeps its pod's uid and starts later.
    """

    pod_uid: str
    started_ms: int

    def __str__(self) -> str:
        return f"{self.pod_uid}.{self.started_ms}"

    @classmethod
    def parse(cls, incarnation: str) -> Self | None:
        """The life that an incarnation names; None for any other text."""
        uid, dot, started = incarnation.rpartition(".")
        if not (uid and dot and started.isascii() and started.isdigit()):
            return None
        return cls(uid, int(started))
