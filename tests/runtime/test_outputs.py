"""Directories of file sinks: which spellings are equal, and which outputs share one."""

import random
from itertools import product

import pytest

from cooperator.connectors import outputs
from cooperator.connectors.outputs import Output, normal, shared


@pytest.mark.parametrize(
    ("directory", "default", "expected"),
    [
        ("/a/b", "file:", "file:/a/b"),
        ("/a/b/", "file:", "file:/a/b"),
        ("//a//b", "file:", "file:/a/b"),
        ("/a/./x/../b", "file:", "file:/a/b"),
        ("file:/a/b", "file:", "file:/a/b"),
        ("file:///a/b", "file:", "file:/a/b"),
        ("FILE://localhost/a/b", "file:", "file:/a/b"),
        ("file:/a/b", "hdfs://names:8020", "file:/a/b"),
        ("/a:b/c", "file:", "file:/a:b/c"),
        ("/a b/%20", "file:", "file:/a b/%20"),
        ("/a/b", "hdfs://names:8020", "hdfs://names:8020/a/b"),
        ("hdfs:///a/b", "hdfs://names:8020", "hdfs://names:8020/a/b"),
        ("hdfs://NAMES:8020/a/b/", "file:", "hdfs://names:8020/a/b"),
        ("s3a://lake/a", "file:", "s3://lake/a"),
        ("s3n://lake//a/", "file:", "s3://lake/a"),
        ("s3a://lake", "file:", "s3://lake"),
        ("/a", "s3a://lake", "s3://lake/a"),
        ("abfss://c@account.dfs.core.windows.net/a", "file:", "abfss://c@account.dfs.core.windows.net/a"),
    ],
)
def test_each_directory_has_one_spelling(directory: str, default: str, expected: str) -> None:
    assert normal(directory, default) == expected
    assert normal(expected, default) == expected


TOPICS = ("a", "a-1", "b", "orders.eu")
REGEXES = ("a.*", "b|orders.*", ".*", "x")


def concrete(output: Output, topics: tuple[str, ...]) -> set[str]:
    """The directories that its units had, if each of those topics has two partitions."""
    import re

    read = output.topics or {t for t in topics if re.fullmatch(output.topics_regex, t)}
    return {f"{output.directory}/{topic}-{number}" for topic, number in product(read, range(2))}


def test_outputs_share_plain_directories_and_those_of_their_units() -> None:
    seeded = random.Random(11)

    def some() -> Output:
        root = seeded.choice(("file:/out", "file:/out/a-0", "s3://lake/out"))
        kind = seeded.randrange(3)
        if kind == 0:
            topic, number = seeded.choice(TOPICS), seeded.choice(("-0", "-1", ""))
            return Output(f"{root}/{topic}{number}" if seeded.random() < 0.7 else root)
        if kind == 1:
            return Output(root, frozenset(seeded.sample(TOPICS, seeded.randrange(1, 3))))
        return Output(root, topics_regex=seeded.choice(REGEXES))

    found = 0
    for _ in range(3000):
        one, other = some(), some()
        directory = shared(one, other)
        assert (directory is None) == (shared(other, one) is None), (one, other)
        assert directory is None or one.keys & other.keys, (one, other)
        if one.directory == other.directory or one.is_of_topics == other.is_of_topics:
            assert (directory is not None) == (one.directory == other.directory), (one, other)
            continue
        unit, plain = (other, one) if one.is_of_topics else (one, other)
        # A pattern may match topics that do not exist yet.
        assert directory is not None or unit.directory not in concrete(plain, TOPICS), (one, other)
        if directory is not None and plain.topics_regex != "x":
            assert unit.directory in concrete(plain, TOPICS), (one, other, directory)
            found += 1
    assert found > 100


def test_internal_topics_are_not_matched() -> None:
    regex = Output("file:/out", topics_regex=".*")
    assert shared(regex, Output("file:/out/__consumer_offsets-0")) is None
    assert shared(regex, Output("file:/out/lines-0")) == "file:/out/lines-0"


def test_connectors_name_their_directories() -> None:
    to_files = {"path": "/out/", "topics": "a,b"}
    assert outputs("kafka-to-files", to_files) == (Output("/out", frozenset("ab")),)
    assert outputs("kafka-to-files", {"path": "/out", "topics.regex": "a.*"}) == (
        Output("/out", topics_regex="a.*"),
    )
    spark = {"source.format": "rate", "sink.format": "Parquet", "sink.options.path": "/out"}
    assert outputs("spark", spark) == (Output("/out"),)
    units = '[{"sink.options.path": "/a"}, {"sink.options.path": "/b"}]'
    assert outputs("spark", {**spark, "units": units}) == (Output("/a"), Output("/b"))
    assert outputs("spark", {**spark, "sink.format": "console"}) == ()
    assert outputs("spark", {**spark, "sink.options.path": "${env:OUT}/a"}) == (), (
        "the value of a reference is unknown"
    )
    assert outputs("kafka-to-files", {"path": "out", "topics": "a"}) == (), "the configuration is invalid"
    assert outputs("not-installed", {}) == outputs("files-to-kafka", {"path": "/in", "topic": "a"}) == ()
