"""The watchdog's process: kills a process group at a given time, or when the watched process dies.

Runs as a script on the standard library alone: ``watch_process.py <process group>``. Commands are lines on
standard input: ``at <ms>`` (kill at this time of the monotonic clock), ``never``, ``bye`` (exit without
killing). End of input without ``bye`` means that the watched process has died; everything it started is then
killed.
"""

import os
import select
import signal
import sys
import time


def watch(group: int) -> None:
    kill_at_s: float | None = None
    text = b""
    while True:
        wait_s = None if kill_at_s is None else kill_at_s - time.monotonic()
        if wait_s is not None and wait_s <= 0:
            break
        if not select.select([0], [], [], wait_s)[0]:
            continue
        received = os.read(0, 4096)
        if not received:
            break
        *lines, text = (text + received).split(b"\n")
        for line in lines:
            word, _, value = line.partition(b" ")
            if word == b"bye":
                return
            kill_at_s = int(value) / 1000 if word == b"at" else None
    os.killpg(group, signal.SIGKILL)


if __name__ == "__main__":
    watch(int(sys.argv[1]))
