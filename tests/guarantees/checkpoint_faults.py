"""The storage with the checkpoints is lost, or restored from an older copy, while no member runs.

The classes whose positions are with the sink do not notice. The others are refused or begin anew; then the
newest checkpoints come back, as the message of the refusal asks, and all tasks go on.
"""

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path

from tests.guarantees.pipeline import Pipeline
from tests.guarantees.pipelines import FilesToKafka, PostgresToKafka, SparkToFiles, SparkWithState
from tests.guarantees.pipelines_group import BACKLOG, PATIENCE_S, WORKERS, PipelinesGroup
from tests.harness.support import eventually


class Outcome(StrEnum):
    """The text of a cell. ``REFUSED``: the task fails before it writes anything, and the sink is exact
    once the newest checkpoints are back. ``BEGINS_ANEW``: each record is there, and those of before twice."""

    EXACTLY_ONCE = "exactly once"
    AT_LEAST_ONCE = "at least once"
    REFUSED = "refused"
    BEGINS_ANEW = "begins anew: at least once"


OLDER: Mapping[type[Pipeline], Outcome] = {
    FilesToKafka: Outcome.REFUSED,
    PostgresToKafka: Outcome.REFUSED,
    SparkToFiles: Outcome.REFUSED,
    SparkWithState: Outcome.REFUSED,
}
LOST: Mapping[type[Pipeline], Outcome] = {
    FilesToKafka: Outcome.BEGINS_ANEW,
    PostgresToKafka: Outcome.BEGINS_ANEW,
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
        _others_go_on_and(pipelines_group, OLDER, _BEHIND)


def lost_checkpoints(pipelines_group: PipelinesGroup) -> None:
    pipelines_group.complete()
    anew = [each for each in pipelines_group.pipelines if LOST.get(type(each)) is Outcome.BEGINS_ANEW]
    fed = {each.slug(): each.fed for each in anew}
    with _checkpoints_are(pipelines_group, None):
        pipelines_group.feed()
        _others_go_on_and(pipelines_group, LOST, _ANOTHER)
        for each in anew:
            twice = dict.fromkeys(each.values(0, fed[each.slug()]), 1)
            eventually(lambda e=each, twice=twice: e.wrong() == twice, PATIENCE_S, f"{each.slug()} is anew")
    for each in anew:
        # The earlier checkpoint has not seen what was fed meanwhile.
        twice = dict.fromkeys(each.values(0, each.fed), 1)
        eventually(lambda e=each, twice=twice: e.wrong() == twice, PATIENCE_S, f"{each.slug()} goes on")
        each.accept_doubled()


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
