"""The rows of the table of guarantees: faults that happen to a group in mid-stream.

Every fault hits member ``s-0`` (or a shared part), feeds more records while it lasts, and leaves two members.
Each one is a function that is listed in ``FAULTS``.
"""

import os
import signal
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

import psutil

from cooperator.connectors.base import Delivery
from tests.guarantees.checkpoint_faults import REFUSALS, Outcome, lost_checkpoints, older_checkpoints
from tests.guarantees.pipeline import Pipeline, Place
from tests.guarantees.pipelines_group import FEW, PATIENCE_S, SPARE, VICTIM, PipelinesGroup
from tests.harness.support import eventually

_PROMISED = {Delivery.EXACTLY_ONCE: Outcome.EXACTLY_ONCE, Delivery.AT_LEAST_ONCE: Outcome.AT_LEAST_ONCE}


@dataclass(frozen=True)
class Fault:
    """``otherwise`` has the outcomes that differ from the promise of the connector. ``on_executors``: members
    have executors of a Spark cluster.
    """

    name: str
    title: str
    strike: Callable[[PipelinesGroup], None]
    otherwise: Mapping[type[Pipeline], Outcome] = field(default_factory=dict)
    on_executors: bool = False

    def outcome(self, row: type[Pipeline], place: Place) -> Outcome:
        """The text of a cell."""
        return self.otherwise.get(row) or _PROMISED[row.delivery(place)]


def kill_python(pipelines_group: PipelinesGroup) -> None:
    """Only the watchdog ends the JVM then."""
    victim = pipelines_group.member(VICTIM)
    os.kill(victim.child.pid, signal.SIGKILL)
    victim.wait_ended()
    pipelines_group.proven()
    pipelines_group.feed()
    pipelines_group.start(VICTIM)


def kill_jvm(pipelines_group: PipelinesGroup) -> None:
    """The tasks fail, and restart in the same process with a new JVM."""
    victim = pipelines_group.member(VICTIM)
    jvm = victim.jvm()
    os.kill(jvm, signal.SIGKILL)
    pipelines_group.feed()
    eventually(lambda: victim.jvm() != jvm, PATIENCE_S, "a new JVM")


def kill_group(pipelines_group: PipelinesGroup) -> None:
    pipelines_group.member(VICTIM).kill()
    pipelines_group.proven()
    pipelines_group.feed()
    pipelines_group.start(VICTIM)


def frozen_at_rest(pipelines_group: PipelinesGroup) -> None:
    """The member wakes part by part, the JVM first, while its successor is frozen: no other process writes,
    and no other owns the batches that the JVM begins. Only the fence can refuse them."""
    pipelines_group.at_rest()
    held = pipelines_group.tasks_of(VICTIM)
    jvm = pipelines_group.member(VICTIM).jvm()
    _freeze_until_moved(pipelines_group, held)
    before, fenced = pipelines_group.contents(), pipelines_group.fenced(VICTIM)
    pipelines_group.member(SPARE).freeze()
    try:
        pipelines_group.feed()
        _wake(jvm)
        each = fenced + len(pipelines_group.queries_in(held))
        eventually(
            lambda: pipelines_group.fenced(VICTIM) >= each,
            PATIENCE_S,
            "each query of the JVM that woke is refused",
        )
        os.kill(pipelines_group.member(VICTIM).child.pid, signal.SIGCONT)
        assert pipelines_group.contents() == before, "the woken JVM has written"
    finally:
        pipelines_group.member(SPARE).signal(signal.SIGCONT)
    # If that took longer than a lease, the successor ends itself when it wakes.
    eventually(lambda: pipelines_group.has_ended(SPARE) or pipelines_group.is_member(SPARE), PATIENCE_S)
    if pipelines_group.has_ended(SPARE):
        pipelines_group.member(SPARE).wait_ended()
        pipelines_group.start(SPARE)
    _wake_and_start_anew(pipelines_group)


def frozen_in_mid_batch(pipelines_group: PipelinesGroup) -> None:
    """The successor has written the interrupted batch before the member wakes."""
    held = pipelines_group.tasks_of(VICTIM)
    victim, jvm = pipelines_group.member(VICTIM), pipelines_group.member(VICTIM).jvm()
    _freeze_until_moved(pipelines_group, held)
    pipelines_group.feed()
    refused = pipelines_group.refused(VICTIM)
    _wake(jvm)
    eventually(lambda: pipelines_group.refused(VICTIM) > refused, PATIENCE_S, "the JVM that woke is refused")
    os.kill(victim.child.pid, signal.SIGCONT)
    pipelines_group.complete()
    _wake_and_start_anew(pipelines_group)


def _wake(jvm: int) -> None:
    """Wakes the JVM and its child processes: Hadoop resolves links in processes of their own, which were
    frozen too."""
    for process in (*psutil.Process(jvm).children(recursive=True), psutil.Process(jvm)):
        with suppress(psutil.NoSuchProcess):
            process.resume()


def _freeze_until_moved(pipelines_group: PipelinesGroup, held: set[str]) -> None:
    assert len(held) >= len(pipelines_group.pipelines), "the member has a task of each connector"
    pipelines_group.member(VICTIM).freeze()
    eventually(lambda: held <= pipelines_group.running_at(SPARE), PATIENCE_S, f"{held} run elsewhere")


def _wake_and_start_anew(pipelines_group: PipelinesGroup) -> None:
    """The watchdog wakes last and ends the member, since the lease is over."""
    victim = pipelines_group.member(VICTIM)
    with suppress(ProcessLookupError):
        victim.signal(signal.SIGCONT)
    victim.wait_ended()
    pipelines_group.proven()
    pipelines_group.start(VICTIM)


def restart_broker(pipelines_group: PipelinesGroup) -> None:
    pipelines_group.broker.kill()
    pipelines_group.broker.start()
    pipelines_group.feed()


def full_disk(pipelines_group: PipelinesGroup) -> None:
    """Fills the disk of checkpoints and files. Files that Spark removes may free enough space for the few
    records, so the disk is refilled, and connectors that are done get more records."""
    missing = {each.slug(): each for each in pipelines_group.pipelines if each.is_on_disk}

    def every_one_has_failed() -> bool:
        for name in pipelines_group.failed_with(pipelines_group.disk.error):
            missing.pop(name, None)
        pipelines_group.disk.fill()
        for pipeline in missing.values():
            if pipeline.complete():
                pipeline.feed(FEW)
        assert not missing, f"has not failed: {sorted(missing)}"
        return True

    with pipelines_group.disk_full():
        pipelines_group.feed()
        eventually(
            every_one_has_failed,
            PATIENCE_S,
            f"every connector has failed with {pipelines_group.disk.error!r}",
        )
        for pipeline in pipelines_group.pipelines:
            # Without a disk of their own members may not extend any file, which Spark needs for itself.
            if not pipeline.is_on_disk and pipelines_group.disk.mounted:
                eventually(pipeline.complete, PATIENCE_S, f"{pipeline.slug()} needs no disk")


def clean_move(pipelines_group: PipelinesGroup) -> None:
    victim = pipelines_group.member(VICTIM)
    victim.terminate()
    pipelines_group.leaving(VICTIM)
    pipelines_group.feed()
    assert victim.child.wait(120) == 0
    victim.wait_ended()
    pipelines_group.start(VICTIM)


def fewer_tasks_then_more(pipelines_group: PipelinesGroup) -> None:
    pipelines_group.tasks_max(1)
    pipelines_group.feed()
    pipelines_group.tasks_max(2)


def kill_executor(pipelines_group: PipelinesGroup) -> None:
    """One executor of each member; Spark's cluster starts another one."""
    before = pipelines_group.executors()
    assert [len(each) for each in before.values()] == [2, 2], "each member has two executors"
    killed = {each[0].pid for each in before.values()}
    for pid in killed:
        os.kill(pid, signal.SIGKILL)
    pipelines_group.feed()

    def replaced() -> bool:
        there = pipelines_group.executors()
        assert [len(there.get(application, ())) for application in before] == [2, 2]
        return not killed & {each.pid for pair in there.values() for each in pair}

    eventually(replaced, PATIENCE_S, "each member has two executors again")


FAULTS = (
    Fault("python", "kill -9 of Python", kill_python),
    Fault("jvm", "kill -9 of the JVM", kill_jvm),
    Fault("group", "kill -9 of the machine (process group)", kill_group),
    Fault("frozen", "frozen at rest until its tasks have moved, then woken", frozen_at_rest),
    Fault("frozen-mid", "frozen in mid-batch until its tasks have moved, then woken", frozen_in_mid_batch),
    Fault("broker", "broker killed and started again", restart_broker),
    Fault("disk", "full disk", full_disk),
    Fault("move", "clean move (drain)", clean_move),
    Fault("tasks-max", "`tasksMax` 2, 1, 2", fewer_tasks_then_more),
    Fault("older", "checkpoint storage restored from an older copy", older_checkpoints, otherwise=REFUSALS),
    Fault("lost", "checkpoint storage lost", lost_checkpoints, otherwise=REFUSALS),
    Fault("executor", "kill -9 of an executor (`spark://`)", kill_executor, on_executors=True),
)
