"""A member as a container of a pod: how its life is called, and how the kubelet comes to say that."""

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from cooperator.model import PodLife

LAST_WORDS: Final = "COOPERATOR_LAST_WORDS"
"""Names another file than Kubernetes' own for a container's termination message."""


def begin_life(pod_uid: str) -> str:
    """The incarnation of the process that starts now.

    It is left as the container's termination message: with that the kubelet's report that a container has
    ended names the life that has. Where it cannot be written the report's times have to do.
    """
    life = str(PodLife(pod_uid, time.time_ns() // 1_000_000))
    last_words = Path(os.environ.get(LAST_WORDS, "/dev/termination-log"))
    if last_words.exists():
        with suppress(OSError):
            last_words.write_text(f"{life}\n")
    return life
