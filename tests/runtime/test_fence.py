"""The newest attempt holds a unit, in whatever order attempts have claimed it."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cooperator.connectors.fence import Fence, Fenced, claim
from cooperator.model import Epoch
from tests.harness.support import eventually
from tests.runtime.spark_bench import SparkBench, lines_in, query_to_files

ATTEMPT = st.tuples(st.integers(0, 12), st.integers(0, 12), st.integers(1, 12), st.sampled_from(["a/1", "b"]))


def holds(fence: Fence) -> bool:
    try:
        fence.check()
    except Fenced:
        return False
    return True


@given(attempts=st.lists(ATTEMPT, min_size=1, max_size=12))
def test_in_any_order_of_claims_only_the_newest_attempt_holds(
    attempts: list[tuple[int, int, int, str]],
) -> None:
    with tempfile.TemporaryDirectory() as checkpoint:
        fences: dict[tuple[int, int, int, str], Fence] = {}
        newest = attempts[0]
        for term, generation, attempt, owner in attempts:
            try:
                fence = claim(Path(checkpoint), Epoch(term, generation), attempt, owner)
                fences[term, generation, attempt, owner] = fence
            except Fenced:
                assert (term, generation, attempt) <= newest[:3]
            else:
                newest = max(newest, (term, generation, attempt, owner))
            assert [key for key, fence in fences.items() if holds(fence)] == [newest]


def test_without_epochs_the_last_claim_holds(tmp_path: Path) -> None:
    first = claim(tmp_path, Epoch(7, 3), 2, "a")
    second = claim(tmp_path, None, 1, "b")
    third = claim(tmp_path, None, 1, "c")
    assert [holds(first), holds(second), holds(third)] == [False, False, True]
    assert holds(claim(tmp_path, None, 1, "c"))
    assert holds(claim(tmp_path, Epoch(7, 4), 1, "a"))


def test_a_late_claim_is_refused_with_the_remedy_for_new_epochs(tmp_path: Path) -> None:
    claim(tmp_path, Epoch(7, 3), 1, "b")
    with pytest.raises(Fenced, match=r"newer than 1\.9.*topics were deleted.*reset or alter its offsets"):
        claim(tmp_path, Epoch(1, 9), 1, "a")


def test_a_claim_that_was_reset_holds_nothing(tmp_path: Path) -> None:
    fence = claim(tmp_path, Epoch(1, 1), 1, "a")
    (fence.directory / fence.claim).unlink()
    fence.directory.rmdir()
    with pytest.raises(Fenced, match="is held by no attempt"):
        fence.check()


@pytest.mark.real
def test_a_query_whose_unit_is_claimed_elsewhere_writes_no_batch_and_no_file_that_counts(
    spark: SparkBench, tmp_path: Path, unique: str
) -> None:
    """A process that was frozen wakes when its successor has claimed the unit and written nothing yet."""
    spark.produce(unique, ["before"])
    config = query_to_files(tmp_path / "out", unique, spark.settings.bootstrap_servers)
    del config["task.units"]
    instance, task = spark.start_connector(unique, config, 1)
    eventually(lambda: lines_in(tmp_path / "out").total() == 1, 120, "the first batch is there")
    checkpoint = spark.settings.checkpoints / unique / "unit-0"
    eventually((checkpoint / "commits" / "0").exists)
    claim(checkpoint, Epoch(1, 1), 1, "successor")

    spark.produce(unique, ["after"])
    attempt = spark.attempts[task]
    eventually(lambda: spark.heard.of(task)[-1] == ("failed", attempt), 60, "it is refused")
    assert "1-000000000001-successor holds the unit" in spark.heard.traces[task, attempt]
    assert sorted(file.name for file in (checkpoint / "offsets").glob("[0-9]*")) == ["0"]
    assert lines_in(tmp_path / "out") == {("one", "before"): 1}

    spark.start(task, spark.heard.configs[unique][-1][0])
    spark.wait_started(task)
    eventually(lambda: lines_in(tmp_path / "out").total() == 2, 60)
    assert lines_in(tmp_path / "out") == {("one", "before"): 1, ("one", "after"): 1}
    spark.stop(instance, task)
