"""The storage with the checkpoints is lost, or restored from an older copy, while no member runs.

The classes whose positions are with the sink go on. The others are refused; then the newest checkpoints come
back, as the message of the refusal asks, and all tasks go on.
"""

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path

from tests.guarantees.pipeline import Pipeline
from tests.guarantees.pipelines import SparkToFiles, SparkWithState
from tests.guarantees.pipelines_group import BACKLOG, PATIENCE_S, WORKERS, PipelinesGroup
from tests.harness.support import eventually


class Outcome(StrEnum):
    """The text of a cell. ``REFUSED``: the task fails before it writes anything, and the sink is exact
    once the newest checkpoints are back."""

    EXACTLY_ONCE = "exactly once"
    AT_LEAST_ONCE = "at least once"
    REFUSED = "refused"


REFUSALS: Mapping[type[Pipeline], Outcome] = {
    SparkToFiles: Outcome.REFUSED,
    SparkWithState: Outcome.REFUSED,
}
_BEHIND = "restored from an older copy"
_ANOTHER = "belongs to another checkpoint"


def older_checkpoints(pipelines_group: PipelinesGroup) -> None:
    pipelines_group.complete()
    older = _copied(pipelines_group)
    pipelines_group.feed(BACKLOG)
    pipelines_group.complete()
    with _checkpoints_are(pipelines_group, older):
        pipelines_group.feed()
        _others_go_on_and(pipelines_group, REFUSALS, _BEHIND)


def lost_checkpoints(pipelines_group: PipelinesGroup) -> None:
    pipelines_group.complete()
    with _checkpoints_are(pipelines_group, None):
        pipelines_group.feed()
        _others_go_on_and(pipelines_group, REFUSALS, _ANOTHER)


def _copied(pipelines_group: PipelinesGroup) -> Path:
    """A copy of the checkpoints as they are at one moment without batches."""
    copy = pipelines_group.group.directory / "older"

    def copied() -> bool:
        shutil.rmtree(copy, ignore_errors=True)
        try:
            shutil.copytree(pipelines_group.checkpoints, copy)
        except shutil.Error as error:
            # Spark removes entries of its logs during the copy.
            raise AssertionError(str(error)) from error
        return True

    eventually(copied, PATIENCE_S, "a copy")
    return copy


@contextmanager
def _checkpoints_are(pipelines_group: PipelinesGroup, copy: Path | None) -> Iterator[None]:
    """All members end, and begin with other checkpoints (None: with none); then they get the newest back."""
    there, newest = pipelines_group.checkpoints, pipelines_group.group.directory / "newest"
    pipelines_group.kill_all()
    shutil.move(there, newest)
    if copy is not None:
        shutil.move(copy, there)
    for worker in WORKERS:
        pipelines_group.start(worker)
    yield
    pipelines_group.kill_all()
    shutil.rmtree(there)
    shutil.move(newest, there)
    for worker in WORKERS:
        pipelines_group.start(worker)


def _others_go_on_and(
    pipelines_group: PipelinesGroup, outcomes: Mapping[type[Pipeline], Outcome], message: str
) -> None:
    """Those that ``outcomes`` refuse fail with the message, and double nothing; all others deliver."""
    refused = {
        each.slug() for each in pipelines_group.pipelines if outcomes.get(type(each)) is Outcome.REFUSED
    }
    missing = set(refused)

    def all_are_refused() -> bool:
        missing.difference_update(pipelines_group.failed_with(message))
        return not missing

    eventually(all_are_refused, PATIENCE_S, f"{missing} say {message!r}")
    assert not pipelines_group.failed_with(message) - refused, "no other class is refused"
    for pipeline in pipelines_group.pipelines:
        if pipeline.slug() in refused:
            assert max(pipeline.wrong().values(), default=0) <= 0, f"{pipeline.slug()} wrote rows again"
        else:
            eventually(pipeline.complete, PATIENCE_S, f"{pipeline.slug()} goes on")
