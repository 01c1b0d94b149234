"""The watchdog's process: kills a process group at a given time, or when the watched process dies.

Runs as a script on the standard library alone: ``watch_process.py <process group> [<last words>]``. Commands
are lines on standard input: ``at <ms>`` (kill at this time of the monotonic clock), ``never``, ``alive`` (a
sign of life, which changes nothing), ``bye`` (exit without killing). End of input without ``bye`` means that
the watched process has died; everything it started is then killed.

A process that gives no sign of life before it is killed is frozen: one of its threads has the interpreter
lock. If a thread of a task used most of the process's time meanwhile, the file ``last words`` gets a line
with its task: ``frozen-by <digest>`` (see ``cooperator.model.thread_names``).
"""

import os
import select
import signal
import sys
import time
from contextlib import suppress

_WINDOW_S = 2.0
"""Time before the kill for which threads are observed."""
_SHORTEST_S = 1.0
_LEAST_PART = 0.1
"""The part of the window for which the accused thread must have run; the processor may be limited."""
_TICKS_S = os.sysconf("SC_CLK_TCK")
_DIGEST_CHARACTERS = 9


def watch(group: int, last_words: str = "") -> None:
    kill_at_s: float | None = None
    text, before = b"", None
    while True:
        now_s = time.monotonic()
        left_s = None if kill_at_s is None else kill_at_s - now_s
        if left_s is not None and left_s <= _WINDOW_S and before is None:
            before = now_s, used_s(group)
        wait_s = left_s if left_s is None or before is not None else left_s - _WINDOW_S
        # A renewal that has come counts, also if it is read after the deadline: this process may be late.
        if not select.select([0], [], [], None if wait_s is None else max(0.0, wait_s))[0]:
            now_s = time.monotonic()
            if kill_at_s is None or now_s < kill_at_s:
                continue
            if before is not None and now_s - before[0] >= _SHORTEST_S:
                _note(last_words, culprit(before[1], used_s(group), now_s - before[0]))
            break
        received = os.read(0, 4096)
        if not received:
            break
        before = None
        *lines, text = (text + received).split(b"\n")
        for line in lines:
            word, _, value = line.partition(b" ")
            if word == b"bye":
                return
            if word != b"alive":
                kill_at_s = int(value) / 1000 if word == b"at" else None
    os.killpg(group, signal.SIGKILL)


def used_s(pid: int) -> dict[tuple[int, str], float]:
    """The processor time of each thread, in seconds, by its id and its name."""
    found = {}
    with suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with suppress(OSError), open(f"/proc/{pid}/task/{thread}/stat", errors="replace") as file:
                start, _, rest = file.read().rpartition(")")
                user, system = rest.split()[11:13]
                found[int(thread), start.partition("(")[2]] = (int(user) + int(system)) / _TICKS_S
    return found


def culprit(
    before: dict[tuple[int, str], float], after: dict[tuple[int, str], float], window_s: float
) -> str:
    """The digest of the task whose thread used more than all other threads together; empty if there is none.

    A name that a thread has inherited from the one that started it accuses nobody: it ends in the other's id.
    """
    used = {thread: total - before.get(thread, 0.0) for thread, total in after.items()}
    (number, name), most_s = max(used.items(), key=lambda each: each[1], default=((0, ""), 0.0))
    is_most = most_s > sum(used.values()) / 2 and most_s >= window_s * _LEAST_PART
    digest, own_id = name[:_DIGEST_CHARACTERS], name[_DIGEST_CHARACTERS:]
    return digest if is_most and own_id == f"{number:06x}" else ""


def _note(last_words: str, digest: str) -> None:
    if digest and os.path.exists(last_words):
        with suppress(OSError), open(last_words, "a") as file:
            file.write(f"frozen-by {digest}\n")


if __name__ == "__main__":
    watch(int(sys.argv[1]), *sys.argv[2:3])
