"""A Connector opens only paths that its Worker allows, and no topic of its Worker's group."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cooperator.connectors import find
from cooperator.connectors.bounds import allowed_options, is_allowed
from cooperator.connectors.options import OptionError
from cooperator.connectors.references import Resolver, own_topics

FILES = {"connector.class": "files-to-kafka", "path": "/data", "topic": "lines"}
COPY = {"connector.class": "kafka-to-kafka", "topics": "a", "topic": "b"}
SPARK = {"connector.class": "spark", "source.format": "text", "sink.format": "noop"}
KAFKA = {
    "connector.class": "spark",
    "source.format": "kafka",
    "source.options.subscribe": "a",
    "sink.format": "kafka",
}


def resolver(*allowed: str) -> Resolver:
    return Resolver({}, bootstrap_servers="b:1", allowed_paths=allowed, own_topics=own_topics("lake"))


def refused(config: dict[str, str], *allowed: str) -> str:
    with pytest.raises(OptionError) as error:
        allowed_options(find(config["connector.class"]).options, config, resolver(*allowed))
    return str(error.value)


@pytest.mark.parametrize(
    "config",
    [
        {**FILES, "path": "/proc/self"},
        {**FILES, "path": "/data/../etc"},
        {**SPARK, "source.options.path": "/proc/self/environ"},
        {**SPARK, "source.options.path": "file:///etc/passwd"},
        {**SPARK, "source.options.path": "/e*c/passwd"},
        {**SPARK, "source.options.paths": '["/data", "/etc/passwd"]'},
        {**SPARK, "source.options.path": "/data/{a/x,../etc}/*"},
        {**SPARK, "source.options.path": "/data/\\../etc/*"},
        {**SPARK, "source.options.path": "/"},
        {**SPARK, "source.options.path": "/data/\0"},
        {**SPARK, "source.options.path": "/data/\ud800"},
        {**SPARK, "sink.options.path": "/run/secrets"},
        {**SPARK, "units": '[{"source.options.path": "/etc/passwd"}]'},
        {**KAFKA, "source.options.kafka.ssl.keystore.location": "/etc/worker.p12"},
        {**COPY, "ssl.ca.location": "/etc/shadow"},
    ],
)
def test_no_option_opens_files_of_the_system_unless_the_worker_allows_it(config: dict[str, str]) -> None:
    assert "add its directory to spec.allowedPaths" in refused(config)


def test_with_allowed_paths_nothing_else_is_opened(tmp_path: Path) -> None:
    allowed, beside = tmp_path / "a", tmp_path / "ab"
    allowed.mkdir()
    beside.mkdir()
    (allowed / "link").symlink_to(beside)
    prefixes = (str(allowed), "s3a://lake/in")
    for path in (
        allowed,
        allowed / "new",
        "s3://lake/in/x",
        "s3a://lake/in",
        f"file://{allowed}/b",
        f"{allowed}/*",
    ):
        assert is_allowed(str(path), prefixes), path
    for path in (
        *(beside, allowed / "link", allowed / "link/x", allowed / "../ab", f"{allowed}/*/../../ab"),
        *(f"{allowed}/{{x,../../ab}}/*", f"{allowed}/\\../ab", f"{allowed}/{{a/..,..}}/../x"),
    ):
        assert not is_allowed(str(path), prefixes), path
    for uri in (
        "s3a://lake/input",
        "s3a://lake/in/../x",
        "s3a://other/in",
        "hdfs://lake/in",
        "s3a://lake/i*",
    ):
        assert not is_allowed(uri, prefixes), uri


@pytest.mark.parametrize(
    "config",
    [
        {**COPY, "topics": "a,lake-leader"},
        {**COPY, "topic": "lake-configs"},
        {**FILES, "topic": "lake-batches"},
        {**KAFKA, "source.options.subscribe": "a, lake-status"},
        {**KAFKA, "source.options.subscribe": "", "source.options.assign": '{"lake-leader": [0]}'},
        {**KAFKA, "source.options.subscribe": "a,\x01lake-status"},
        {**KAFKA, "source.options.subscribe": "a", "sink.options.topic": "lake-leader"},
        {**KAFKA, "units": '[{"sink.options.Topic": "lake-leader"}]'},
    ],
)
def test_the_topics_of_the_group_are_no_source_and_no_target(config: dict[str, str]) -> None:
    assert "a topic of the Worker's own group" in refused(config)


def test_no_option_sends_the_keys_of_the_workers_store_to_another_server() -> None:
    config = {
        **SPARK,
        "source.options.path": "s3a://lake/in",
        "source.options.fs.s3a.endpoint": "http://evil",
    }
    assert "set it in spec.spark.conf of the Worker" in refused(config)
    units = '[{"sink.options.FS.s3a.bucket.lake.endpoint": "http://evil"}]'
    assert "could send their keys to another server" in refused({**SPARK, "units": units})


def test_kafkas_client_reads_nothing_of_the_member() -> None:
    providers = {**KAFKA, "source.options.kafka.config.providers": "env", "source.options.subscribe": "a"}
    assert "lets Kafka's client read files and variables" in refused(providers)
    escaped = {**KAFKA, "units": r'[{"source.options.kafka.client.id": "$\u007benv:AWS\u007d"}]'}
    assert "has an escaped reference" in refused(escaped)


@pytest.mark.parametrize("side", ["source", "sink"])
def test_a_format_that_is_a_class_is_refused(side: str) -> None:
    config = {**KAFKA, f"{side}.format": "org.apache.spark.sql.kafka010.KafkaSourceProvider"}
    assert "is the name of a class; write a format's short name" in refused(config)


def test_files_of_formats_that_spark_has_beside_sources_are_paths() -> None:
    assert "is relative" in refused({**SPARK, "source.format": "libsvm", "source.options.path": "../x"})


SEGMENTS = st.lists(
    st.sampled_from(
        ["..", ".", "a", "ab", "*", "{a,..}", "{a/..", "..}", "\\..", "{", ",..", "", "etc", "[a]"]
    ),
    max_size=8,
)


@given(SEGMENTS, st.sampled_from(["/nowhere/a/", "file:///nowhere/a/", "file:/nowhere/a/", "//nowhere/a/"]))
def test_an_allowed_path_is_below_one_that_the_worker_allows(parts: list[str], root: str) -> None:
    path = root + "/".join(parts)
    if is_allowed(path, ["/nowhere/a"]):
        below = [part for part in parts if part not in ("", ".")]
        depth = 0
        for part in below:
            depth += -1 if part == ".." else 1
        assert depth >= 0
