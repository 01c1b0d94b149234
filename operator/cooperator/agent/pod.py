"""A member as a container of a pod: names its incarnation, and has the kubelet report that name."""

import os
import secrets
from contextlib import suppress
from pathlib import Path
from typing import Final

from cooperator.model import PodIncarnation, termination_message

LAST_WORDS: Final = "COOPERATOR_LAST_WORDS"
"""Environment variable: the file to use instead of Kubernetes' default for the termination message."""
STARTS: Final = "starts"
"""The file with the names of all incarnations of the pod, the first one first."""


def begin_incarnation(pod_uid: str, pod_dir: Path) -> str:
    """Name the incarnation of the process that starts now.

    The name is written as the container's termination message, after it the names of the incarnations that
    the pod had before. So the kubelet's report of a terminated container names the incarnations that have
    ended, without any clock. ``pod_dir`` lasts as long as the pod. If nothing can be written there, or to the
    message, there is no proof, and leases are waited for.
    """
    own = PodIncarnation(pod_uid, secrets.token_hex(8))
    earlier = _note_start(own, pod_dir / STARTS)
    file = last_words()
    if file.exists():
        with suppress(OSError):
            file.write_text(termination_message(own, earlier))
    return str(own)


def _note_start(own: PodIncarnation, file: Path) -> tuple[PodIncarnation, ...]:
    """Add ``own`` to the pod's starts, and return those before."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        lines = file.read_text().splitlines() if file.exists() else []
        with file.open("a") as notes:
            notes.write(f"{own}\n")
    except (OSError, UnicodeDecodeError):
        return ()
    known = (PodIncarnation.parse(line) for line in lines)
    return tuple(each for each in known if each is not None and each.pod_uid == own.pod_uid)


def last_words() -> Path:
    """The file of the termination message. Its first line is the incarnation, if it is a pod's."""
    return Path(os.environ.get(LAST_WORDS, "/dev/termination-log"))
