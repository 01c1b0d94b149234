"""Directories of file sinks: which spellings are equal, and which are in which."""

import pytest

from cooperator.connectors import outputs
from cooperator.connectors.output_paths import above, normal


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


@pytest.mark.parametrize(
    ("directory", "found"),
    [
        ("file:/a/b", ["file:/a/b", "file:/a", "file:"]),
        ("claim x/lake: /a", ["claim x/lake: /a", "claim x/lake: "]),
        ("s3://lake/a/b", ["s3://lake/a/b", "s3://lake/a", "s3://lake"]),
    ],
)
def test_a_directory_is_in_those_above_it(directory: str, found: list[str]) -> None:
    assert list(above(directory))[: len(found)] == found


def test_connectors_name_their_directories() -> None:
    to_files = {"path": "/out/", "topics": "a,b"}
    assert outputs("kafka-to-files", to_files) == ("/out",)
    assert outputs("kafka-to-files", {"path": "/out", "topics.regex": "a.*"}) == ("/out",)
    spark = {"source.format": "rate", "sink.format": "Parquet", "sink.options.path": "/out"}
    assert outputs("spark", spark) == ("/out",)
    units = '[{"sink.options.path": "/a"}, {"sink.options.path": "/b"}]'
    assert outputs("spark", {**spark, "units": units}) == ("/a", "/b")
    assert outputs("spark", {**spark, "sink.format": "console"}) == ()
    assert outputs("spark", {**spark, "sink.options.path": "${env:OUT}/a"}) == (), (
        "the value of a reference is unknown"
    )
    assert outputs("kafka-to-files", {"path": "out", "topics": "a"}) == (), "the configuration is invalid"
    assert outputs("not-installed", {}) == outputs("files-to-kafka", {"path": "/in", "topic": "a"}) == ()
