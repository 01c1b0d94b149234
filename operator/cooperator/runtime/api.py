"""The interface between a member and its runtime: values and two protocols.

Every call returns at once; the listener reports its effects later, from any thread. An attempt is the
caller's number for one execution of a task: it grows with each start of that task. All calls are idempotent
per (task, attempt), so a caller that is unsure simply repeats the call.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from cooperator.connectors.offset_operations import Subject
from cooperator.connectors.references import Resolver, own_topics
from cooperator.connectors.state_query import StateQuery
from cooperator.model import Epoch, TaskId

if TYPE_CHECKING:
    from cooperator.runtime.learners import Learned


@dataclass(frozen=True, slots=True)
class TaskSpec:
    """One task to run: its configuration as committed in the config log (secrets are references).

    ``paused``: the task is assigned but does not run. ``epoch`` is that of the assignment that gave the task.
    ``committed``, for a connector's instance, holds the task configurations in the config log, whose grouping
    the instance continues. ``is_learned``: other members may learn the task's state (decision 113).
    """

    task: TaskId
    config: Mapping[str, str]
    paused: bool = False
    epoch: Epoch | None = None
    committed: Sequence[Mapping[str, str]] = ()
    is_learned: bool = False


@dataclass(frozen=True, slots=True)
class RuntimeSettings:
    """The settings that a member's process gives its runtime.

    ``member`` and ``incarnation`` identify the process. ``group_id`` is the Worker's; it keeps the names that
    sinks use (transactional ids) apart from those of other Workers. ``checkpoints`` is the root directory
    that all members of the Worker share; a unit keeps its checkpoint in ``<connector>/<unit>`` below it.
    ``state_dir`` is private to this member (JVM log, scratch files). ``bootstrap_servers`` is the default of
    connectors that name none. ``spark_conf`` is the user's, on top of the built-in one. ``heap_mb`` is the
    JVM's heap. ``spark_packages`` are ``group:artifact:version``, fetched before Spark starts; ``spark_jars``
    are files. ``env_allowed`` holds the environment variables that ``${env:NAME}`` may name,
    ``allowed_files`` the paths below which ``${file:PATH}`` may name files,
    ``allowed_paths`` those of connectors' files (see ``connectors.bounds``). ``journal`` is where units of
    class ``noop`` record their starts and stops, unless their configuration names a file.
    ``security`` holds the member's security settings for its group's Kafka, by kafka-python's names; they are
    the default of connectors.
    """

    member: str
    incarnation: str
    checkpoints: Path | str
    state_dir: Path
    group_id: str = "cooperator"
    bootstrap_servers: str = ""
    spark_conf: Mapping[str, str] = field(default_factory=dict, repr=False)
    heap_mb: int = 1024
    spark_packages: tuple[str, ...] = ()
    spark_jars: tuple[Path, ...] = ()
    env_allowed: frozenset[str] = frozenset()
    allowed_files: tuple[str, ...] = ()
    allowed_paths: tuple[str, ...] = ()
    journal: Path | None = None
    security: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def resolver(self) -> Resolver:
        """Returns the resolver of this member's references."""
        return Resolver(
            os.environ,
            self.env_allowed,
            self.allowed_files,
            self.bootstrap_servers,
            self.security,
            self.allowed_paths,
            own_topics(self.group_id),
        )

    def resolved_conf(self) -> Mapping[str, str]:
        """Returns ``spark_conf`` with references resolved; the Worker's author may refer to any file."""
        return replace(self.resolver(), allowed_files=("/",)).resolve(self.spark_conf).config


class RuntimeListener(Protocol):
    """The runtime calls it from any of its threads; every method must return at once.

    One attempt gets any number of ``started`` and ``paused`` (each resume starts again), and ends with
    exactly one of ``stopped`` and ``failed``; ``stopped`` may be repeated in answer to a repeated stop.
    """

    def started(self, task: TaskId, attempt: int) -> None:
        """The whole task runs (an instance: it is looking for units)."""

    def paused(self, task: TaskId, attempt: int) -> None:
        """Nothing of the task runs, and it can be resumed."""

    def stopped(self, task: TaskId, attempt: int) -> None:
        """Nothing of the task runs in this process any more, and nothing will under this attempt."""

    def failed(self, task: TaskId, attempt: int, trace: str, reason: str = "") -> None:
        """The attempt ended with an error; nothing of it runs any more. ``trace`` contains no secrets.

        ``reason`` says in a word why another attempt would fail in the same way; empty if it might not.
        """

    def progress(self, task: TaskId, attempt: int, text: str) -> None:
        """``text`` is a JSON object (see ``progress.py``); only the newest one counts."""

    def units_changed(self, connector: str, task_configs: list[dict[str, str]]) -> None:
        """The connector's units, grouped into the configurations of its tasks 0, 1, …

        The instance reports them when it has started, and again whenever they differ from its last report.
        """

    def warmed_up(self) -> None:
        """The runtime is ready: later tasks start at once."""

    def warm_up_failed(self) -> None:
        """The runtime could not be started, for a reason that is in the log.

        The start is retried; ``warmed_up`` reports its success.
        """


class Runtime(Protocol):
    """Runs tasks: at most one attempt of a task at a time, whatever is asked."""

    def warm_up(self) -> bool:
        """Begins to start what tasks need, before the first task.

        Returns True if ``warmed_up`` or ``warm_up_failed`` will report the result, and False if there is
        nothing to start.
        """

    def start(self, spec: TaskSpec, attempt: int) -> None:
        """Runs ``spec``.

        An attempt that is known already, or older than a known one, changes nothing. A newer one waits until
        nothing of the older one runs (which is then reported as stopped).
        """

    def stop(self, task: TaskId, attempt: int) -> None:
        """Ends the attempt, even while it starts.

        The answer is ``stopped``, at once when nothing of it runs.
        """

    def pause(self, task: TaskId) -> None:
        """Stops the running task and keeps it; the answer is ``paused``."""

    def resume(self, task: TaskId) -> None:
        """Runs a paused task again; the answer is ``started``."""

    def state(self, subject: Subject, query: StateQuery) -> dict[str, Any]:
        """Returns rows of a connector's state (``state_reading.read_state``), whoever runs its tasks.

        It takes its time, and raises ``StateError``.
        """

    def learn(self, wanted: Mapping[TaskId, Mapping[str, str]]) -> None:
        """Learns the state of exactly these tasks from now on, given with their configurations.

        Called only in members that can learn (``WorkerOptions.learns``).
        """

    def learned(self) -> "Sequence[Learned]":
        """Returns how far each learned task is."""

    def close(self, timeout_s: float) -> bool:
        """Stops everything and waits for it.

        Returns False when something still runs after ``timeout_s`` (then only the end of the process group
        proves that nothing runs).
        """
