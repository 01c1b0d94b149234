"""The columns of the table of guarantees: what happens to a group in the middle of its streams.

Every fault strikes member ``s-0`` (or what all share), feeds more while it lasts, and leaves a group of two
members behind. Adding a fault is one more function, in ``FAULTS``.
"""

import os
import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import psutil

from guarantees.world import FEW, PATIENCE_S, SPARE, VICTIM, World
from support import eventually


@dataclass(frozen=True)
class Fault:
    """``in_ci``: struck in every run. The others have tests of their own for one connector each."""

    name: str
    title: str
    strike: Callable[[World], None]
    in_ci: bool = False


def kill_python(world: World) -> None:
    """Its watchdog ends the JVM, which nobody else would."""
    victim = world.member(VICTIM)
    os.kill(victim.child.pid, signal.SIGKILL)
    victim.wait_ended()
    world.proven()
    world.feed()
    world.start(VICTIM)


def kill_jvm(world: World) -> None:
    """The tasks fail, and start again in the same process with a new JVM."""
    victim = world.member(VICTIM)
    jvm = victim.jvm()
    os.kill(jvm, signal.SIGKILL)
    world.feed()
    eventually(lambda: victim.jvm() != jvm, PATIENCE_S, "a new JVM")


def kill_group(world: World) -> None:
    world.member(VICTIM).kill()
    world.proven()
    world.feed()
    world.start(VICTIM)


def frozen_at_rest(world: World) -> None:
    """It wakes part by part, the JVM alone first, while its successor sleeps: nobody else could write, and
    the batches that it begins are nobody else's yet. The fence refuses them."""
    world.complete()
    held = world.tasks_of(VICTIM)
    jvm = world.member(VICTIM).jvm()
    _freeze_until_moved(world, held)
    before, fenced = world.contents(), world.fenced(VICTIM)
    world.member(SPARE).freeze()
    try:
        world.feed()
        _wake(jvm)
        each = fenced + len(world.queries_in(held))
        eventually(
            lambda: world.fenced(VICTIM) >= each, PATIENCE_S, "each query of the JVM that woke is refused"
        )
        os.kill(world.member(VICTIM).child.pid, signal.SIGCONT)
        assert world.contents() == before, "what woke has written"
    finally:
        world.member(SPARE).signal(signal.SIGCONT)
    # Where that took longer than a lease, its successor wakes to its own end.
    eventually(lambda: world.has_ended(SPARE) or world.is_member(SPARE), PATIENCE_S)
    if world.has_ended(SPARE):
        world.member(SPARE).wait_ended()
        world.start(SPARE)
    _wake_and_start_anew(world)


def frozen_in_mid_batch(world: World) -> None:
    """What it was writing, its successor has written before it wakes."""
    held = world.tasks_of(VICTIM)
    victim, jvm = world.member(VICTIM), world.member(VICTIM).jvm()
    _freeze_until_moved(world, held)
    world.feed()
    refused = world.refused(VICTIM)
    _wake(jvm)
    eventually(lambda: world.refused(VICTIM) > refused, PATIENCE_S, "the JVM that woke is refused")
    os.kill(victim.child.pid, signal.SIGCONT)
    world.complete()
    _wake_and_start_anew(world)


def _wake(jvm: int) -> None:
    """With what it has started: Hadoop looks at links by a process each, which was frozen as well."""
    for process in (*psutil.Process(jvm).children(recursive=True), psutil.Process(jvm)):
        with suppress(psutil.NoSuchProcess):
            process.resume()


def _freeze_until_moved(world: World, held: set[str]) -> None:
    assert len(held) >= len(world.pipelines), "it has a task of each connector"
    world.member(VICTIM).freeze()
    eventually(lambda: held <= world.running_at(SPARE), PATIENCE_S, f"{held} run elsewhere")


def _wake_and_start_anew(world: World) -> None:
    """Its watchdog wakes last, and ends what there is: the lease is over."""
    victim = world.member(VICTIM)
    with suppress(ProcessLookupError):
        victim.signal(signal.SIGCONT)
    victim.wait_ended()
    world.proven()
    world.start(VICTIM)


def restart_broker(world: World) -> None:
    world.broker.kill()
    world.broker.start()
    world.feed()


def full_disk(world: World) -> None:
    """The disk that checkpoints and files are on. What others remove may be room enough for the few records
    that are there, so the disk is kept full, and more comes for those that have got through."""
    missing = {pipeline.slug(): pipeline for pipeline in world.pipelines}

    def every_one_has_failed() -> bool:
        for name in world.failed_with(world.disk.error):
            missing.pop(name, None)
        world.disk.fill()
        for pipeline in missing.values():
            if pipeline.complete():
                pipeline.feed(FEW)
        assert not missing, f"has not failed: {sorted(missing)}"
        return True

    with world.disk_full():
        world.feed()
        eventually(every_one_has_failed, PATIENCE_S, f"every connector has failed with {world.disk.error!r}")


def clean_move(world: World) -> None:
    victim = world.member(VICTIM)
    victim.terminate()
    world.leaving(VICTIM)
    world.feed()
    assert victim.child.wait(120) == 0
    victim.wait_ended()
    world.start(VICTIM)


def fewer_tasks_then_more(world: World) -> None:
    world.tasks_max(1)
    world.feed()
    world.tasks_max(2)


FAULTS = (
    Fault("python", "kill -9 of Python", kill_python),
    Fault("jvm", "kill -9 of the JVM", kill_jvm),
    Fault("group", "kill -9 of the machine (process group)", kill_group, in_ci=True),
    Fault("frozen", "frozen at rest until its tasks have moved, then woken", frozen_at_rest, in_ci=True),
    Fault("frozen-mid", "frozen in mid-batch until its tasks have moved, then woken", frozen_in_mid_batch),
    Fault("broker", "broker killed and started again", restart_broker),
    Fault("disk", "full disk", full_disk, in_ci=True),
    Fault("move", "clean move (drain)", clean_move, in_ci=True),
    Fault("tasks-max", "`tasksMax` 2, 1, 2", fewer_tasks_then_more),
)
