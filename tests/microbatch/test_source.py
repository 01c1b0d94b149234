"""Ranges of offsets are read exactly, whatever is between the records."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from cooperator.connectors.microbatch.ranges import Partition
from cooperator.connectors.microbatch.spark_batches import SOURCE
from tests.harness.support import eventually
from tests.microbatch.cluster import Cluster

pytestmark = pytest.mark.real
ReadRange = tuple[Partition, int, int]


def read(session: Any, cluster: Cluster, *partitions: Sequence[ReadRange], **options: object) -> list[Any]:
    ranges = [[[*place, start, end] for place, start, end in partition] for partition in partitions]
    reader = session.read.format(SOURCE).option("ranges", json.dumps(ranges))
    reader = reader.option("kafka.bootstrap.servers", cluster.java["bootstrap.servers"])
    for name, value in options.items():
        reader = reader.option(name.replace("_", "."), str(value))
    return list(reader.load().collect())


def values(rows: Sequence[Any]) -> list[str]:
    return [bytes(row.value).decode() for row in rows]


def offsets(rows: Sequence[Any]) -> list[tuple[int, int]]:
    return sorted((row.partition, row.offset) for row in rows)


def test_rows_have_the_columns_of_sparks_source(session: Any, cluster: Cluster, unique: str) -> None:
    [place] = cluster.create(unique)
    cluster.produce(place, [b"one"], key=b"k")
    both = {"kafka_isolation_level": "read_committed", "includeHeaders": "true"}
    [row] = read(session, cluster, [(place, 0, 1)], **both)
    spark = session.read.format("kafka").option("kafka.bootstrap.servers", cluster.java["bootstrap.servers"])
    theirs = spark.option("subscribe", unique).option("includeHeaders", "true").load()
    # Instead of the type of its timestamp, ours has the timestamp as it is.
    [kept] = theirs.drop("timestampType").collect()
    found = row.asDict()
    assert found.pop("timestampMs") == kept.timestamp.timestamp() * 1000
    assert found == kept.asDict()
    ours = session.read.format(SOURCE).options(slots=2, includeHeaders="true").load()
    assert ours.drop("timestampMs").dtypes == theirs.drop("timestampType").dtypes


def test_a_range_begins_and_ends_exactly_and_a_spark_partition_may_have_many(
    session: Any, cluster: Cluster, unique: str
) -> None:
    places = cluster.create(unique, 5)
    cluster.fill(places, 50)
    first = [(place, place.number, 30) for place in places[:3]]
    rows = read(session, cluster, first, [(places[3], 49, 50), (places[4], 7, 7)])
    wanted = [(place.number, offset) for place in places[:3] for offset in range(place.number, 30)]
    assert offsets(rows) == [*wanted, (3, 49)]
    assert all(bytes(row.value).decode() == f"{unique}-{row.partition}:{row.offset}" for row in rows)


def test_ranges_one_after_the_other_miss_nothing_and_repeat_nothing(
    session: Any, cluster: Cluster, unique: str
) -> None:
    """The consumer keeps what it has fetched beyond a range, and must not keep it for another one."""
    places = cluster.create(unique, 3)
    cluster.fill(places, 100)
    for start, end in [(0, 1), (1, 10), (10, 11), (11, 60), (20, 25), (25, 26), (60, 100), (0, 100)]:
        rows = read(session, cluster, [(place, start, end) for place in places], pool=unique)
        assert offsets(rows) == [(place.number, offset) for place in places for offset in range(start, end)]
    # A partition that is not read for a while.
    rows = read(session, cluster, [(places[0], 0, 5)], pool=unique)
    rows += read(session, cluster, [(places[1], 0, 5)], pool=unique)
    rows += read(session, cluster, [(places[0], 5, 9), (places[1], 4, 6)], pool=unique)
    assert offsets(rows) == sorted(
        [(0, offset) for offset in range(9)] + [(1, offset) for offset in (0, 1, 2, 3, 4, 4, 5)]
    )


def test_markers_and_aborted_records_are_gaps(session: Any, cluster: Cluster, unique: str) -> None:
    [place] = cluster.create(unique)
    cluster.transact(place, [b"a", b"b"])  # offsets 0, 1; marker 2
    cluster.transact(place, [b"x", b"y", b"z"], abort=True)  # 3 to 5; marker 6
    cluster.transact(place, [b"c"])  # 7; marker 8
    end = cluster.end(place)
    assert end == 9
    assert values(read(session, cluster, [(place, 0, end)])) == ["a", "b", "c"]
    assert values(read(session, cluster, [(place, 1, 4)])) == ["b"]
    assert read(session, cluster, [(place, 2, 3)]) == []
    assert read(session, cluster, [(place, 3, 7)]) == []
    assert read(session, cluster, [(place, 8, 9)]) == []
    uncommitted = read(session, cluster, [(place, 3, 9)], kafka_isolation_level="read_uncommitted")
    assert values(uncommitted) == ["x", "y", "z", "c"]


def test_records_of_an_open_transaction_are_waited_for(session: Any, cluster: Cluster, unique: str) -> None:
    [place] = cluster.create(unique)
    cluster.transaction(unique, place, [b"a"])
    assert cluster.end(place, committed=True) == 0
    with pytest.raises(Exception, match=r"nothing was read for 2000 ms: offsets 0 to 1 of .* at 0"):
        read(session, cluster, [(place, 0, 1)], pollTimeoutMs=2_000)


def test_records_removed_by_compaction_are_a_gap(session: Any, cluster: Cluster, unique: str) -> None:
    [place] = cluster.create(
        unique,
        cleanup_policy="compact",
        segment_ms="100",
        min_cleanable_dirty_ratio="0.001",
        min_compaction_lag_ms="0",
        max_compaction_lag_ms="100",
    )
    cluster.produce(place, [b"%d" % number for number in range(200)], key=b"same")

    def compacted() -> bool:
        cluster.produce(place, [b"more"], key=b"other")  # rolls a segment
        return len([each for each in cluster.read(unique) if each.key == b"same"]) == 1

    eventually(compacted, 120)
    end = cluster.end(place)
    wanted = [each.offset for each in cluster.read(unique)]
    assert [row.offset for row in read(session, cluster, [(place, 0, end)])] == wanted
    assert read(session, cluster, [(place, 0, 150)]) == []
    assert [row.offset for row in read(session, cluster, [(place, 5, 201)])] == [
        199,
        *[200] * (200 in wanted),
    ]


def test_deleted_offsets_are_an_error_with_their_place(session: Any, cluster: Cluster, unique: str) -> None:
    places = cluster.create(unique, 2)
    cluster.fill(places, 20)
    cluster.delete_before(places[1], 15)
    text = rf"offsets 3 to 18 of {unique}-1 cannot be read at 3: the partition has offsets 15 to 20"
    with pytest.raises(Exception, match=text):
        read(session, cluster, [(place, 3, 18) for place in places])
    rows = read(session, cluster, [(place, 3, 18) for place in places], failOnDataLoss="false")
    assert offsets(rows) == [(0, offset) for offset in range(3, 18)] + [(1, 15), (1, 16), (1, 17)]
    rest = [(places[1], 3, 9)]
    assert read(session, cluster, rest, failOnDataLoss="false") == []
    with pytest.raises(Exception, match=f"offsets 90 to 95 of {unique}-0 .* has offsets 0 to 20"):
        read(session, cluster, [(places[0], 90, 95)])


def test_wrong_options_name_themselves(session: Any, cluster: Cluster) -> None:
    with pytest.raises(Exception, match="set option ranges, or slots to 1 or more"):
        session.read.format(SOURCE).load().collect()
    with pytest.raises(
        Exception, match=r"option ranges: use \[\[\[topic, partition, from, to\], …\], …\], not no"
    ):
        session.read.format(SOURCE).option("ranges", "no").load().collect()
    with pytest.raises(Exception, match=r"another Spark task than .*remove what moves rows"):
        session.read.format(SOURCE).option("slots", 2).load().collect()
