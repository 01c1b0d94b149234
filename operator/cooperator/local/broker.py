"""A real Kafka broker of one node (KRaft), as a child process with its own directory.

The directory defines the broker: it holds its port, its cluster id and its data, so that opening the same
directory later gives the same broker.

    server.properties   written at each start; the ports are read back from it
    data/               logs, with meta.properties once formatted
    broker.log          the broker's log; broker.out: other output of the JVM
    broker.pid          the process that runs on it; found again by its command line if this is lost
"""

import base64
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import psutil

from cooperator.artifacts import FILE_NAMES, find_java, resolve, use_archive, write_archive
from cooperator.local.layout import StorageError, check_storage, write_atomically, writing
from cooperator.local.probe import answers_metadata
from cooperator.local.settings import (
    DATA,
    HOST,
    JVM_FLAGS,
    LOG,
    free_port,
    log4j_properties,
    port_taken,
    server_properties,
)

_ARCHIVE: Final = "kafka"
"""The name of the class archive."""

_MAIN: Final = "kafka.Kafka"
_POLL_S: Final = 0.05
_STOP_GRACE_S: Final = 15.0
_ARCHIVED_S: Final = 120.0
_FORMAT_TIMEOUT_S: Final = 60.0

# The subshell waits for the end of the parent's side of a pipe, even by kill -9, and then ends the process
# group.
_DIE_WITH_PARENT: Final = 'exec 3<&0; (read -r _ <&3; kill -9 0) & exec "$@" </dev/null 3<&-'


class BrokerError(Exception):
    """The broker did not start; the message has the reason, as far as its log shows it."""


class EmbeddedBroker:
    """Starts and stops the broker of a directory.

    ``port`` is chosen once and kept in the directory if it is not given. ``java`` is found if it is not
    given. ``overrides`` are lines of server.properties with precedence. ``detached``: the broker outlives
    this process, and the next process that starts the same directory takes it over; otherwise it ends with
    this process, however that ends. ``java_options`` replace those that use the class archive.
    """

    def __init__(
        self,
        directory: Path,
        port: int | None = None,
        java: Path | None = None,
        overrides: Mapping[str, str] | None = None,
        *,
        detached: bool = False,
        java_options: Sequence[str] | None = None,
    ) -> None:
        self._directory = directory.absolute()
        self._java = java
        self._overrides = dict(overrides or {})
        self._detached = detached
        self._java_options = java_options
        self._child: subprocess.Popen[bytes] | None = None
        earlier = self._earlier_ports()
        self._port = port or earlier.get("PLAINTEXT") or free_port()
        self._controller_port = earlier.get("CONTROLLER") or free_port()

    @property
    def bootstrap_servers(self) -> str:
        """``host:port``; the same for the lifetime of the directory, also while the broker is down."""
        return f"{HOST}:{self._port}"

    @property
    def log(self) -> Path:
        return self._directory / LOG

    @property
    def pid(self) -> int | None:
        """The process that runs on this directory, started here or by an earlier process; otherwise None."""
        if self._child is not None:
            return self._child.pid if self._child.poll() is None else None
        try:
            pid = int(self._pid_file.read_text())
        except (OSError, ValueError):
            return None
        # The number alone may belong to another process by now.
        return pid if self._runs_here(pid) else None

    def start(self, timeout_s: float = 60) -> None:
        """Runs the broker; returns when it answers clients. A running broker is left as it is.

        Formats a new directory. The time-out covers start and formatting, not the download of the jars.
        Raises :exc:`BrokerError`, :exc:`StorageError`, and :exc:`cooperator.artifacts.ArtifactError`.
        """
        java = self._java or find_java()
        class_path = os.pathsep.join(map(str, resolve("kafka")))
        deadline = time.monotonic() + timeout_s
        if self._found_pid() is None:
            self._check_ports()
            self._prepare(java, class_path, timeout_s)
            self._spawn(java, class_path)
        self._await_answer(deadline, timeout_s)

    def format(self) -> None:
        """Formats the directory unless it is formatted; starts no broker. Raises the errors of ``start``."""
        self._prepare(self._java or find_java(), os.pathsep.join(map(str, resolve("kafka"))))

    def stop(self, grace_s: float = _STOP_GRACE_S) -> None:
        """Stops the broker cleanly, and by SIGKILL when it takes too long. Returns when it is gone."""
        pid = self._found_pid()
        if pid is not None:
            os.kill(pid, signal.SIGTERM)
            if not self._gone_within(pid, grace_s):
                os.killpg(pid, signal.SIGKILL)
                self._gone_within(pid, _STOP_GRACE_S)
        self._forget()

    def kill(self) -> None:
        """Ends the broker by SIGKILL, as a crash would. Returns when it is gone."""
        pid = self._found_pid()
        if pid is not None:
            os.killpg(pid, signal.SIGKILL)
            self._gone_within(pid, _STOP_GRACE_S)
        self._forget()

    def _found_pid(self) -> int | None:
        """Returns ``pid``, also of a broker whose number was not written down: the disk was full, or the
        process that started it was killed. Writes it down."""
        pid = self.pid
        if pid is None:
            pid = next((each for each in _session_leaders() if self._runs_here(each)), None)
            if pid is not None:
                with suppress(StorageError):
                    write_atomically(self._pid_file, f"{pid}\n")
        return pid

    def _runs_here(self, pid: int) -> bool:
        return _arguments(pid)[-2:] == [_MAIN, str(self._properties)]

    @property
    def _data(self) -> Path:
        return self._directory / DATA

    @property
    def _properties(self) -> Path:
        return self._directory / "server.properties"

    @property
    def _log4j(self) -> Path:
        return self._directory / "log4j2.properties"

    @property
    def _pid_file(self) -> Path:
        return self._directory / "broker.pid"

    @property
    def _output(self) -> Path:
        return self._directory / "broker.out"

    def _earlier_ports(self) -> dict[str, int]:
        try:
            listeners = re.search(r"^listeners=(.*)$", self._properties.read_text(), re.MULTILINE)
        except OSError:
            return {}
        found = re.findall(r"(\w+)://[^:,]*:(\d+)", listeners.group(1)) if listeners else []
        return {name: int(port) for name, port in found}

    def _check_ports(self) -> None:
        for port in (self._port, self._controller_port):
            if port_taken(port):
                raise BrokerError(
                    f"port {port} on {HOST}, which belongs to the broker in {self._directory}, is in use by "
                    "another process: end that one, or choose another port for the broker"
                )

    def _environment(self, class_path: str) -> dict[str, str]:
        # The class path is a variable: a hundred paths as an argument would bury everything else in `ps`.
        return {**os.environ, **FILE_NAMES, "CLASSPATH": class_path}

    def _command(self, java: Path, *main: str) -> list[str]:
        options = self._java_options
        if options is None:
            options = use_archive(_ARCHIVE, resolve("kafka"))
        return [str(java), *JVM_FLAGS, *options, f"-Dlog4j2.configurationFile={self._log4j.as_uri()}", *main]

    def _prepare(self, java: Path, class_path: str, timeout_s: float = _FORMAT_TIMEOUT_S) -> None:
        write_atomically(
            self._properties,
            server_properties(self._port, self._controller_port, self._overrides),
        )
        write_atomically(self._log4j, log4j_properties())
        # Kafka has no word for it: without space it ends, or is killed by its own mapped files.
        check_storage(self._directory)
        if not (self._data / "meta.properties").exists():
            self._format(java, class_path, timeout_s)

    def _format(self, java: Path, class_path: str, timeout_s: float) -> None:
        is_new = not self._data.exists()
        try:
            self._run_format(java, class_path, timeout_s)
        except BaseException:
            if is_new:
                # A directory that is formatted in part cannot be formatted again.
                shutil.rmtree(self._data, ignore_errors=True)
            raise

    def _run_format(self, java: Path, class_path: str, timeout_s: float) -> None:
        try:
            run = subprocess.run(
                self._command(
                    java,
                    *("kafka.tools.StorageTool", "format", "--ignore-formatted"),
                    *("--cluster-id", _new_cluster_id(), "--config", str(self._properties)),
                ),
                env=self._environment(class_path),
                cwd=self._directory,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=timeout_s,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise BrokerError(f"formatting {self._data} took longer than {timeout_s:.0f} s") from None
        if run.returncode != 0:
            check_storage(self._directory)
            raise BrokerError(f"formatting {self._data} failed: {(run.stderr or run.stdout).strip()}")

    def _spawn(self, java: Path, class_path: str) -> None:
        command = self._command(java, _MAIN, str(self._properties))
        if not self._detached:
            command = ["sh", "-c", _DIE_WITH_PARENT, "sh", *command]
        with writing(self._output):
            output = self._output.open("wb")
        with output:
            self._child = subprocess.Popen(
                command,
                env=self._environment(class_path),
                cwd=self._directory,
                stdin=subprocess.DEVNULL if self._detached else subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        write_atomically(self._pid_file, f"{self._child.pid}\n")

    def _await_answer(self, deadline: float, timeout_s: float) -> None:
        while not answers_metadata(HOST, self._port, timeout_s=2):
            if self.pid is None:
                self._forget()
                check_storage(self._directory)
                raise BrokerError(f"the broker in {self._directory} ended at its start: {self._last_words()}")
            if time.monotonic() > deadline:
                self.kill()
                check_storage(self._directory)
                raise BrokerError(
                    f"the broker in {self._directory} did not answer within {timeout_s:.0f} s: "
                    + self._last_words()
                )
            time.sleep(_POLL_S)

    def _last_words(self) -> str:
        lines: list[str] = []
        for file in (self.log, self._output):
            if file.exists():
                lines += [line for line in file.read_text(errors="replace").splitlines() if line][-5:]
        return "\n".join([f"the end of {self.log} and {self._output.name}:", *lines])

    def _gone_within(self, pid: int, timeout_s: float) -> bool:
        deadline = time.monotonic() + timeout_s
        while self._lives(pid):
            if time.monotonic() > deadline:
                return False
            time.sleep(_POLL_S)
        return True

    def _lives(self, pid: int) -> bool:
        """A process that ends loses its command line first, then its main thread, and its ports last."""
        if self._child is not None and self._child.pid == pid:
            return self._child.poll() is None
        try:
            return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return False

    def _forget(self) -> None:
        if self._child is not None and self._child.stdin is not None:
            # This also releases the subshell that waits for the end of this pipe.
            self._child.stdin.close()
        self._child = None
        self._pid_file.unlink(missing_ok=True)


def write_broker_classes() -> Path:
    """Returns the class archive of brokers; runs one broker for it unless it exists.

    Raises :exc:`BrokerError` and :exc:`cooperator.artifacts.ArtifactError`.
    """

    def run(java_options: Sequence[str]) -> None:
        with tempfile.TemporaryDirectory() as scratch:
            directory = Path(scratch, "broker")
            # The directory is formatted first; otherwise the JVM that formats it would write the archive.
            EmbeddedBroker(directory).format()
            broker = EmbeddedBroker(directory, java_options=java_options)
            broker.start()
            broker.stop(_ARCHIVED_S)

    return write_archive(_ARCHIVE, resolve("kafka"), run)


def _new_cluster_id() -> str:
    """Returns a Kafka UUID: URL-safe base64 without padding, without a leading dash (it is an argument)."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
        if not text.startswith("-"):
            return text


def _arguments(pid: int) -> list[str]:
    """Returns the command line of a living process; empty when there is none."""
    try:
        return psutil.Process(pid).cmdline()
    except (psutil.Error, OSError):
        return []


def _session_leaders() -> Iterator[int]:
    for pid in psutil.pids():
        with suppress(OSError):
            if os.getsid(pid) == pid:
                yield pid
