"""What a member asks of its runtime, and what the runtime tells back: values and two protocols.

Every call returns at once; what it leads to is told by the listener, later, from any thread.
An attempt is the caller's number of one life of a task: it grows with each start of that task. All
calls are idempotent per (task, attempt), so a caller that is unsure simply repeats itself.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from cooperator.model import Epoch, TaskId
from cooperator.runtime.references import Resolver


@dataclass(frozen=True, slots=True)
class TaskSpec:
    """One task to run: its configuration as committed in the config log (secrets are references).

    ``paused``: take the task up without running it. ``epoch``: the share that gave it. ``committed``: of a
    connector's instance, the configurations of its tasks in the config log, whose grouping it goes on from.
    """

    task: TaskId
    config: Mapping[str, str]
    paused: bool = False
    epoch: Epoch | None = None
    committed: Sequence[Mapping[str, str]] = ()


@dataclass(frozen=True, slots=True)
class RuntimeSettings:
    """What a member's process gives its runtime.

    ``member``, ``incarnation``: who runs here. ``group_id``: of the Worker; it keeps the names that sinks
    use (transactional ids) apart from those of other Workers. ``checkpoints``: root directory
    that all members of the Worker share; a unit keeps its checkpoint in ``<connector>/<unit>`` below
    it. ``state_dir``: private to this member (JVM log, scratch files). ``bootstrap_servers``: default
    of connectors that name none. ``spark_conf``: the user's, on top of ours. ``heap_mb``: of the JVM.
    ``spark_packages``: ``group:artifact:version``, fetched before Spark starts; ``spark_jars``: files.
    ``env_allowed``: the environment variables that ``${env:NAME}`` may name. ``journal``: where units
    of class ``noop`` write when they start and stop, unless their configuration says it. ``security``: how
    the member gets into its group's Kafka, by kafka-python's names; connectors that name no other go in so.
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
    journal: Path | None = None
    security: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def resolver(self) -> Resolver:
        """For what configurations refer to on this member."""
        return Resolver(os.environ, self.env_allowed, self.bootstrap_servers, self.security)


class RuntimeListener(Protocol):
    """Told by the runtime, from any of its threads; every method must return at once.

    Of one attempt: any number of ``started`` and ``paused`` (each resume starts again), then exactly one
    of ``stopped`` and ``failed`` ends it; ``stopped`` may be repeated in answer to a repeated stop.
    """

    def started(self, task: TaskId, attempt: int) -> None:
        """All of the task runs (an instance: it is looking for units)."""

    def paused(self, task: TaskId, attempt: int) -> None:
        """Nothing of the task runs, and it can be resumed."""

    def stopped(self, task: TaskId, attempt: int) -> None:
        """Nothing of the task runs in this process any more, nor will it under this attempt."""

    def failed(self, task: TaskId, attempt: int, trace: str) -> None:
        """The attempt is over by an error; nothing of it runs any more. ``trace`` holds no secret."""

    def progress(self, task: TaskId, attempt: int, text: str) -> None:
        """``text``: a JSON object (see ``progress.py``); only the newest one counts."""

    def units_changed(self, connector: str, task_configs: list[dict[str, str]]) -> None:
        """The connector's units, grouped into the configurations of its tasks 0, 1, …; told by the
        instance when it has started, and again whenever they differ from the last ones told."""

    def warmed_up(self) -> None:
        """What tasks need of the runtime is up: those to come start at once."""

    def warm_up_failed(self) -> None:
        """What tasks need could not be started, for a reason that is in the log. It is tried again; if that
        succeeds, ``warmed_up`` says so."""


class Runtime(Protocol):
    """Runs tasks. At most one attempt of a task at a time, whatever is asked."""

    def warm_up(self) -> bool:
        """Begin to start what tasks will need, before there are any. True: ``warmed_up`` or
        ``warm_up_failed`` will say what has become of it. False: nothing needs time."""

    def start(self, spec: TaskSpec, attempt: int) -> None:
        """Run ``spec``. An attempt that is known already, or older than a known one, changes nothing;
        a newer one waits until nothing of the older one runs (which is then reported as stopped)."""

    def stop(self, task: TaskId, attempt: int) -> None:
        """End the attempt, also one that is still starting; answered by ``stopped``, at once when
        nothing of it runs."""

    def pause(self, task: TaskId) -> None:
        """Stop what runs and keep the task; answered by ``paused``."""

    def resume(self, task: TaskId) -> None:
        """Run a paused task again; answered by ``started``."""

    def close(self, timeout_s: float) -> bool:
        """Stop everything and wait for it; False when something still runs after ``timeout_s``
        (then only the end of the process group is proof)."""
