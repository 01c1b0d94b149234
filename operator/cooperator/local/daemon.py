"""The host daemon from the outside: whether it runs, and how to start, end and query it.

The process that holds the lock on ``host.lock`` is the daemon of a state directory; the file holds its
process id. The lock is released when the process ends, however that happens.
"""

import contextlib
import fcntl
import json
import os
import secrets
import signal
import sys
import time
from collections.abc import Iterator
from typing import Any

from cooperator.local.file_lock import acquire
from cooperator.local.layout import StateDir, check_storage, read_json, write_atomically, writing

_POLL_S = 0.05
_ANSWER_S = 8.0
_LOCK_S = 0.5


class HostAway(Exception):
    """No daemon answers for this state directory."""


class HostRefused(Exception):
    """The daemon refused a request; the text has the reason and the remedy."""


class HostFailed(Exception):
    """The daemon ended at its start; the text is the end of its log."""


@contextlib.contextmanager
def host_lock(state: StateDir) -> Iterator[bool]:
    """Makes this process the daemon of ``state`` within the block; yields False if there is one already.

    Raises ``StorageError``.
    """
    with writing(state.host_lock):
        state.root.mkdir(parents=True, exist_ok=True)
        # Unbuffered: what could not be written must not be tried again when the file is closed.
        file = state.host_lock.open("ab+", buffering=0)
    with file:
        # A query for the daemon's process id holds the lock for an instant.
        if not acquire(file, _LOCK_S):
            yield False
            return
        with writing(state.host_lock):
            file.truncate(0)
            file.write(b"%d\n" % os.getpid())
        yield True


def host_pid(state: StateDir) -> int | None:
    """Returns the process id of the running daemon; None when there is none."""
    try:
        with state.host_lock.open("r") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                text = file.read().strip()
                return int(text) if text else None
    except FileNotFoundError:
        pass
    return None


def make_token(state: StateDir) -> str:
    """Returns the token of requests to the daemon. Makes one unless there is one that only its owner can
    read."""
    found = _token(state)
    if found:
        return found
    made = secrets.token_urlsafe(32)
    write_atomically(state.host_token, made, 0o600)
    return made


def _token(state: StateDir) -> str:
    """Returns the token; empty if there is none, or others could have read or written it."""
    try:
        with state.host_token.open() as file:
            found = os.fstat(file.fileno())
            is_private = found.st_uid == os.geteuid() and not found.st_mode & 0o077
            return file.read().strip() if is_private else ""
    except OSError:
        return ""


def host_command(state: StateDir) -> list[str]:
    """Returns the command line of the daemon."""
    return [sys.executable, "-m", "cooperator.cli", "local", "host", "--state-dir", str(state.root)]


def start_host(state: StateDir, timeout_s: float = 30) -> None:
    """Starts the daemon, detached; returns when it answers.

    Raises ``HostFailed`` with its output, and ``StorageError`` where it could write none.
    """
    from cooperator.local import processes

    said = state.host_log.stat().st_size if state.host_log.exists() else 0
    child = processes.spawn(host_command(state), f"host-{os.getpid()}", state.host_log)
    deadline = time.monotonic() + timeout_s
    while True:
        with contextlib.suppress(HostAway):
            ask_host(state)
            return
        if child.poll() is not None and host_pid(state) is None:
            check_storage(state.root)
            raise HostFailed(_end_of(state, said) or f"it ended with code {child.returncode}")
        if time.monotonic() > deadline:
            check_storage(state.root)
            raise HostFailed(f"it did not answer within {timeout_s:.0f} s: {_end_of(state, said)}")
        time.sleep(_POLL_S)


def end_host(pid: int, state: StateDir, timeout_s: float = 20) -> None:
    """Ends the daemon by SIGTERM, then SIGKILL; members run on. Returns when it is gone."""
    for number, patience_s in ((signal.SIGTERM, timeout_s), (signal.SIGKILL, 5.0)):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
        if await_host_end(pid, state, patience_s):
            return


def await_host_end(pid: int, state: StateDir, timeout_s: float) -> bool:
    deadline = time.monotonic() + timeout_s
    while host_pid(state) == pid:
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_S)
    return True


def ask_host(state: StateDir) -> dict[str, Any]:
    """Returns the daemon's view (see ``view``), with its ``pid``. Raises ``HostAway``."""
    _, answer = _exchange(state, "GET", "/state", None, _ANSWER_S)
    try:
        value = json.loads(answer)
    except ValueError as error:
        raise HostAway from error
    if not isinstance(value, dict):
        raise HostAway
    return value


def tell_host(
    state: StateDir, path: str, body: dict[str, Any], timeout_s: float = 2 * _ANSWER_S
) -> dict[str, Any]:
    """POSTs ``body`` to the daemon; returns its answer. Raises ``HostAway``, and ``HostRefused`` with it."""
    code, answer = _exchange(state, "POST", path, json.dumps(body), timeout_s)
    if code >= 300:
        message = answer.decode(errors="replace")
        with contextlib.suppress(ValueError, KeyError, TypeError):
            message = str(json.loads(answer)["message"])
        raise HostRefused(message or f"it answered {code}")
    found: dict[str, Any] = json.loads(answer or b"{}")
    return found


def _exchange(
    state: StateDir, method: str, path: str, body: str | None, timeout_s: float
) -> tuple[int, bytes]:
    """Returns the status code and body of the daemon's answer. Raises ``HostAway``."""
    # Commands that only write manifests must not pay for it.
    from http.client import HTTPConnection, HTTPException

    address, token = read_json(state.host), _token(state)
    if address is None or not token or host_pid(state) is None:
        raise HostAway
    connection = HTTPConnection("127.0.0.1", int(address["port"]), timeout=timeout_s)
    try:
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        if answer.status in (401, 421):
            # Another program has the port, or another daemon is about to write its own address.
            raise HostAway
        return answer.status, answer.read()
    except (OSError, HTTPException) as error:
        raise HostAway from error
    finally:
        connection.close()


def _end_of(state: StateDir, offset: int) -> str:
    """Returns the last lines that the daemon wrote after ``offset``."""
    try:
        with state.host_log.open("rb") as file:
            file.seek(offset)
            lines = file.read().decode(errors="replace").strip().splitlines()
    except OSError:
        return ""
    return "\n".join(lines[-8:])
