"""Names of visible files tell topic, partition, first offset and attempt, and fit into any file system."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cooperator.connectors.intents.naming import folder_of, placed, visible_name
from cooperator.connectors.microbatch.claims import Claim
from cooperator.connectors.microbatch.ranges import OffsetRange, Partition
from cooperator.model import Epoch

CLAIM = Claim(Epoch(3, 14), 15, "m-0")
JOB = "1b4e28ba-2fa1-11d2-883f-0016d3cca427"


def name(path: str, topic: str = "orders.eu", number: int = 0) -> str:
    return visible_name(path, OffsetRange(Partition(topic, 7), 42, 50), CLAIM, "9f3a2c1b", number)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (f"part-00012-{JOB}-c000.snappy.parquet.staged", ".snappy.parquet"),
        (f"part-00012-{JOB}.c003.csv.gz.staged", "-2.csv.gz"),
        (f"day=a.b%2Fc/part-00012-{JOB}.c000.json.staged", ".json"),
    ],
    ids=["parquet", "second", "partitioned"],
)
def test_a_name_tells_where_its_rows_are_from(path: str, expected: str) -> None:
    assert placed(path) == (12, path)
    assert placed(f"{folder_of(3)}/{path}") == (3, path)
    folder = "day=a.b%2Fc/" if path.startswith("day") else ""
    number = 2 if expected.startswith("-2") else 0
    wanted = f"{folder}orders.eu+7+00000000000000000042.3-14-15-9f3a2c1b{expected}"
    assert name(path, number=number) == wanted


@given(st.text("abc.-_", min_size=1, max_size=249), st.text("abc.-_", min_size=1, max_size=249))
def test_names_of_any_topics_are_short_and_differ(one: str, other: str) -> None:
    path = f"part-00000-{JOB}-c000.zstd.parquet.staged"
    assert len(name(path, one)) < 240
    assert (name(path, one) == name(path, other)) == (one == other)


@given(st.text("abc.-_", min_size=1, max_size=249))
def test_no_topic_has_files_that_readers_pass_over(topic: str) -> None:
    assert not name(f"part-00000-{JOB}-c000.json.staged", topic).startswith(("_", "."))


def test_a_file_of_another_program_is_told() -> None:
    with pytest.raises(ValueError, match=r"data\.parquet is not named as Spark names files"):
        placed("data.parquet")
