"""A member as a container of a pod: names its incarnation, and has the kubelet report that name."""

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from cooperator.model import PodIncarnation

LAST_WORDS: Final = "COOPERATOR_LAST_WORDS"
"""Environment variable: the file to use instead of Kubernetes' default for the termination message."""


def begin_incarnation(pod_uid: str) -> str:
    """Name the incarnation of the process that starts now.

    The name is written as the container's termination message, so that the kubelet's report of a terminated
    container names the incarnation that ended. If it cannot be written, the times in the report have to do.
    """
    incarnation = str(PodIncarnation(pod_uid, time.time_ns() // 1_000_000))
    file = last_words()
    if file.exists():
        with suppress(OSError):
            file.write_text(f"{incarnation}\n")
    return incarnation


def last_words() -> Path:
    """The file of the termination message. Its first line is the incarnation, if it is a pod's."""
    return Path(os.environ.get(LAST_WORDS, "/dev/termination-log"))
