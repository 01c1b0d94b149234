"""Formats and options mean the same to Spark as to the checks, however they are spelled."""

import json
import sys
import time
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cooperator.connectors import find, validate
from cooperator.connectors.bounds import allowed_options, is_allowed
from cooperator.connectors.formats import FORMATS, Value, defaults
from cooperator.connectors.options import OptionError
from cooperator.connectors.pipeline_options import PipelineOptions
from cooperator.connectors.references import Resolver
from cooperator.connectors.sql_rules import FOLDED

FILES = [each.name for each in FORMATS.values() if each.source and each.source.get("path") is Value.PATH]
SINKS = [each.name for each in FORMATS.values() if each.sink and each.sink.get("path") is Value.PATH]


def java_upper(character: str) -> str:
    """Java's ``Character.toUpperCase``, which has one character for one."""
    upper = character.upper()
    return upper if len(upper) == 1 else character


def java_lower(character: str) -> str:
    lower = character.lower()
    return lower[0] if len(lower) == 1 or character == "\u0130" else character


def same_to_java(one: str, other: str) -> bool:
    """Java's ``equalsIgnoreCase``."""
    return len(one) == len(other) and all(
        a == b or java_upper(a) == java_upper(b) or java_lower(java_upper(a)) == java_lower(java_upper(b))
        for a, b in zip(one, other, strict=True)
    )


@cache
def spellings() -> dict[str, str]:
    """All characters that Java takes for each letter of ASCII."""
    found: dict[str, str] = {}
    for code in range(sys.maxunicode + 1):
        character = chr(code)
        for each in {java_lower(character), java_lower(java_upper(character)), character}:
            if each.isascii() and each.isprintable():
                found[each] = found.get(each, "") + character
    return found


@st.composite
def spelled(draw: st.DrawFn, words: list[str]) -> str:
    word = draw(st.sampled_from(words))
    return "".join(
        draw(st.just(each) | st.sampled_from(spellings().get(each.lower(), each))) for each in word
    )


def resolver(*allowed: str) -> Resolver:
    return Resolver({}, bootstrap_servers="b:1", allowed_paths=allowed)


def handed(config: dict[str, str], *allowed: str) -> PipelineOptions:
    """The options by which Spark's reader and writer are made; raises OptionError."""
    whole = {"connector.class": "spark", **config}
    options, _, _ = allowed_options(PipelineOptions, whole, resolver(*allowed))
    assert isinstance(options, PipelineOptions)
    return options


def refused(config: dict[str, str], *allowed: str) -> str:
    with pytest.raises(OptionError) as error:
        handed(config, *allowed)
    return str(error.value)


def test_java_takes_four_letters_beyond_ascii_for_letters_of_ascii() -> None:
    beyond = {each for found in spellings().values() for each in found if not each.isascii()}
    assert beyond == FOLDED == {"\u0130", "\u0131", "\u017f", "\u212a"}


@given(
    spelled([*FORMATS]),
    spelled(["path", "basePath", "sourceArchiveDir"]),
    st.sampled_from(["../x", "x", "a:x"]),
)
@example("c\u017fv", "path", "../../etc")
@example("b\u0131naryFile", "path", "../../etc")
@example("csv", "ba\u017fePath", "../../etc")
@example("csv", "\u017fourceArchiveDir", "../../etc")
def test_no_spelling_of_a_format_or_option_hides_a_path(name: str, option: str, path: str) -> None:
    config = {"source.format": name, "source.options.path": "/data", "sink.format": "noop"}
    refused({**config, f"source.options.{option}": path}, "/data")
    refused({**config, f"source.options.{option}": "/elsewhere"}, "/data")
    units = json.dumps([{f"source.options.{option}": path}])
    refused({**config, "units": units}, "/data")


@given(spelled([*FORMATS, "counting"]), st.sampled_from(["source", "sink"]))
@example("parqu\u00e9t", "sink")
def test_spark_is_given_the_word_that_was_checked(name: str, side: str) -> None:
    other = {"source": "rate", "sink": "noop"}
    config = {f"{each}.format": name if each == side else word for each, word in other.items()}
    if side == "sink":
        config["sink.options.path"] = "/data/out"
    else:
        config["source.options.path"] = "/data/in"
    try:
        options = handed(config, "/data")
    except OptionError:
        return
    found = options.source_format if side == "source" else options.sink_format
    assert found.isascii()
    known = [each.name for each in FORMATS.values() if same_to_java(each.name, name)]
    assert found == (known[0] if known else name)
    given_options = options.of_source(0) if side == "source" else options.of_sink(0)
    paths = [value for option, value in given_options.items() if same_to_java(option, "path")]
    assert paths == [config[f"{side}.options.path"]]
    assert all(is_allowed(path, ["/data"]) for path in paths)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize(
    "path",
    [
        *("relative", "../x", "./x", "file:x", "file:../x", "~/x", " /data", "\t/data", "C:/x", "data/x"),
        *("/data/../etc", "/data/./../etc", "/data/%2e%2e/etc", "/data/..%2fetc", "file:///data/%2E%2E/etc"),
        *(
            "/elsewhere",
            "file:/elsewhere",
            "FILE:///elsewhere",
            "File://host/elsewhere",
            "//data",
            "//etc/data",
        ),
        *(
            "/data,/etc/passwd",
            "/data,relative",
            "/data\0",
            "/data/\ud800",
            "/data/a\\..\\..",
            "/dat*",
            "/{data,etc}",
        ),
        *("http://10.0.0.1/data", "https://host/data", "ftp://host/data", "jar:file:/data!/x", "har:///data"),
        *("hdfs://host/data", "s3a://lake/in", "viewfs:///data", "local:///data", '["/data"]'),
    ],
)
def test_a_path_of_any_file_format_is_below_one_that_the_worker_allows(name: str, path: str) -> None:
    config = {"source.format": name, "sink.format": "noop", "source.options.path": "/data/in"}
    handed(config, "/data")
    refused({**config, "source.options.path": path}, "/data")
    refused({**config, "units": json.dumps([{"source.options.PATH": path}])}, "/data")
    if name in SINKS:
        refused({"source.format": "rate", "sink.format": name, "sink.options.path": path}, "/data")


@pytest.mark.parametrize(
    "scheme",
    [
        *("http", "HTTPS", "ftp", "sftp", "jar", "har", "viewfs"),
        *("pfile", "PFILE", "nullscan", "webhdfs", "SWebHdfs", "local"),
    ],
)
def test_a_url_is_no_path_unless_the_worker_allows_it(scheme: str) -> None:
    config = {"source.format": "text", "sink.format": "noop", "source.options.path": f"{scheme}://10.0.0.1/x"}
    assert "add its directory to spec.allowedPaths" in refused(config)


def test_a_path_that_only_a_reference_shows_is_checked_as_well(tmp_path: Path) -> None:
    """A file that a tenant writes can hold a relative path that looks like another reference."""
    (tmp_path / "path").write_text("../../etc/${x}/../cron.d")
    config = {
        "source.format": "rate",
        "sink.format": "json",
        "sink.options.path": f"${{file:{tmp_path}/path}}",
    }
    allowing = Resolver({}, bootstrap_servers="b:1", allowed_files=(str(tmp_path),))
    with pytest.raises(OptionError, match="is not a path that the Worker allows"):
        allowed_options(PipelineOptions, {"connector.class": "spark", **config}, allowing)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        *(("path", "data/${x}"), ("codec", "a.Class${x}"), ("compression", "${env.HOME}")),
        *(("maxColumns", "2000000000${x}"), ("rowValidationXSDPath", "x/${y}")),
        *(("minPartitions", "2000000000${x}"), ("subscribePattern", "(a+)+$|${x}")),
    ],
)
def test_a_value_that_looks_like_another_reference_is_checked_all_the_same(
    tmp_path: Path, option: str, value: str
) -> None:
    """A file that a tenant writes can hold such a value; references are resolved once."""
    (tmp_path / "value").write_text(value)
    name = next(each.name for each in FORMATS.values() if each.source and option in each.source)
    config = {"connector.class": "spark", "source.format": name, "sink.format": "noop"}
    config["source.options.subscribe" if name == "kafka" else "source.options.path"] = "/data"
    if option == "subscribePattern":
        del config["source.options.subscribe"]
    config[f"source.options.{option}"] = f"${{file:{tmp_path}/value}}"
    allowing = Resolver({}, bootstrap_servers="b:1", allowed_files=(str(tmp_path),))
    with pytest.raises(OptionError):
        allowed_options(PipelineOptions, config, allowing)


@pytest.mark.parametrize("pattern", ["(a+)+b", "(.*a){20}", "a|(b|b)*c", ".*a" * 9, "(?:(x+x+)+y)"])
def test_a_pattern_of_topics_is_matched_in_bounded_time(pattern: str) -> None:
    """Kafka's client matches it in a thread that a stop cannot interrupt."""
    config = {"source.format": "kafka", "sink.format": "noop"}
    assert "backtrack" in refused({**config, "source.options.SUBSCRIBEPATTERN": pattern})
    assert "backtrack" in refused(
        {**config, "units": json.dumps([{"source.options.subscribePattern": pattern}])}
    )
    for ordinary in ("orders-.*", "(?:a|b)-[0-9]+", ".*", "shop[.](orders|returns)[.].*"):
        handed({**config, "source.options.subscribePattern": ordinary})


@pytest.mark.parametrize(
    "name",
    [
        "org.apache.spark.sql.execution.datasources.csv.CSVFileFormat",
        "com.databricks.spark.csv",
        *(
            "jdbc",
            "JDBC",
            "hive",
            "statestore",
            "state-metadata",
            "foreach",
            "table",
            "\u0131mage",
            "l\u0131bsvm",
        ),
        *("csv ", " csv", "csv\n", "csv\0", "csv;", "csv`", "", "a" * 200),
    ],
)
def test_other_words_are_no_formats(name: str) -> None:
    path = {"source.options.path": "/data/in"}
    assert validate("spark", {"source.format": name, "sink.format": "noop", **path})
    assert validate("spark", {"source.format": "rate", "sink.format": name, "sink.options.path": "/data/out"})


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("paths", '["/data"]'),
        ("fs.s3a.endpoint", "http://evil"),
        ("mapreduce.input.pathFilter.class", "evil.Filter"),
        ("parquet.crypto.factory.class", "evil.Factory"),
        ("net.topology.script.file.name", "/data/script"),
        ("checkpointLocation", "/data/x"),
        ("checkpo\u0131ntLocation", "/data/x"),
        ("asyncProgressTrackingEnabled", "true"),
        ("unknown", "x"),
        ("compression", "evil.Codec"),
        ("codec", "org.apache.hadoop.io.compress.GzipCodec"),
        ("maxColumns", "2000000000"),
        ("inputBufferSize", "2000000000"),
        ("maxCharsPerColumn", "\u0662000"),
    ],
)
@pytest.mark.parametrize("side", ["source", "sink"])
def test_an_option_that_loads_allocates_or_reconfigures_is_refused(
    side: str, option: str, value: str
) -> None:
    for name in (option, option.upper()):
        config = {"source.format": "csv", "source.options.path": "/data/in"}
        config |= {"sink.format": "csv", "sink.options.path": "/data/out"}
        assert refused({**config, f"{side}.options.{name}": value})


@pytest.mark.parametrize(
    "braces", ["/{a/b,c/d}" * 30, "{a,b}" * 10, "/{a,{b,{c,d}}}" * 5, "{" + "a," * 1_000 + "b}"]
)
def test_a_path_stands_for_few_paths(braces: str) -> None:
    """Hadoop's clients write braces out, in the driver, before they look for a file."""
    config = {"source.format": "text", "sink.format": "noop"}
    assert "stands for more than 1000 paths" in refused({**config, "source.options.path": f"/data{braces}"})
    units = json.dumps([{"source.options.PATH": f"/data{braces}"}])
    assert "stands for more than 1000 paths" in refused({**config, "units": units})
    handed({**config, "source.options.path": "/data/{a,b}/{2024,2025}-{01,02,03}/*.json"})


@pytest.mark.parametrize(
    ("name", "option"),
    [
        *(("kafka", "minPartitions"), ("kafka", "maxRecordsPerPartition"), ("rate", "numPartitions")),
        *(
            ("rate-micro-batch", "numPartitions"),
            ("rate", "rowsPerSecond"),
            ("rate-micro-batch", "rowsPerBatch"),
        ),
    ],
)
def test_an_option_makes_few_tasks_and_rows(name: str, option: str) -> None:
    config = {"source.format": name, "sink.format": "noop"}
    if name == "kafka":
        config["source.options.subscribe"] = "a"
    for value in ("2000000000", "1000001", "x", "\u0661"):
        assert refused({**config, f"source.options.{option.upper()}": value})
    if option != "maxRecordsPerPartition":
        handed({**config, f"source.options.{option}": "100"})


@pytest.mark.parametrize(
    "option",
    [
        "batch.size",
        "max.partition.fetch.bytes",
        "fetch.max.bytes",
        "receive.buffer.bytes",
        "max.request.size",
    ],
)
def test_a_property_of_kafkas_client_allocates_no_buffer_of_any_size(option: str) -> None:
    of_sink = {"source.format": "rate", "sink.format": "kafka", "sink.options.topic": "a"}
    of_source = {"source.format": "kafka", "source.options.subscribe": "a", "sink.format": "noop"}
    for value in ("2000000000", "134217729", " 2000000000", "+2000000000", "\u0662000000000", ""):
        assert "allocates as much" in refused({**of_sink, f"sink.options.kafka.{option}": value})
        assert "allocates as much" in refused({**of_source, f"source.options.KAFKA.{option.upper()}": value})
    for value in ("-1", "1048576", "134217728"):
        handed({**of_sink, f"sink.options.kafka.{option}": value})


def test_an_option_is_set_once_however_it_is_spelled() -> None:
    config = {
        "source.format": "rate",
        "sink.format": "json",
        "sink.options.path": "/a",
        "sink.options.PATH": "/b",
    }
    assert "sets path twice; remove one of both" in refused(config)
    del config["sink.options.path"]
    assert handed(config).of_sink(0) == {**defaults("json", "sink"), "path": "/b"}
    units = json.dumps([{"sink.options.Path": "/c"}])
    assert handed({**config, "units": units}).of_sink(0) == {**defaults("json", "sink"), "path": "/c"}
    assert find("spark").outputs(handed({**config, "units": units}))[0] == "/c"


def test_ordinary_options_pass_under_sparks_own_names() -> None:
    config = {
        "source.format": "CSV",
        "source.options.path": "s3a://lake/in/{a,b}/*.csv",
        "source.options.HEADER": "true",
        "source.options.maxfilespertrigger": "3",
        "source.options.compression": "gzip",
        "sink.format": "Parquet",
        "sink.options.path": "/data/my%20out",
        "sink.options.compression": "ZSTD",
    }
    options = handed(config)
    assert (options.source_format, options.sink_format) == ("csv", "parquet")
    assert options.of_source(0) == {
        **defaults("csv", "source"),
        "path": "s3a://lake/in/{a,b}/*.csv",
        "header": "true",
        "maxFilesPerTrigger": "3",
        "compression": "gzip",
    }
    assert options.of_sink(0) == {
        **defaults("parquet", "sink"),
        "path": "/data/my%20out",
        "compression": "ZSTD",
    }


def test_a_connector_overrides_a_default_however_it_is_spelled() -> None:
    config = {"source.format": "csv", "source.options.path": "/a", "source.options.MULTILINE": "false"}
    given = handed({**config, "sink.format": "noop"}).of_source(0)
    assert given == {**defaults("csv", "source"), "path": "/a", "multiLine": "false"}


@pytest.mark.parametrize(
    "columns",
    [
        "a INT DEFAULT reflect('a', 'b')",
        "a INT GENERATED ALWAYS AS (reflect('a', 'b'))",
        "a INT) USING text OPTIONS (path '/etc') --",
        "a INT); SELECT 1 --",
        "a INT, CHECK (reflect('a', 'b'))",
        '{"type": "struct", "fields": []}',
    ],
)
def test_columns_are_names_with_types_and_nothing_that_is_evaluated(columns: str) -> None:
    path: dict[str, Any] = {"source.options.path": "/data/in"}
    config = {"source.format": "json", "sink.format": "noop", "source.schema": columns, **path}
    assert "is not a list of columns" in refused(config)
    to_kafka = {"topics": "a", "topic": "b", "value.converter": "json", "value.schema": columns}
    assert "is not a list of columns" in str(validate("kafka-to-kafka", to_kafka)[0])


def test_many_units_are_checked_in_bounded_time() -> None:
    units = json.dumps([{"source.options.path": "/a", "sink.options.path": f"/{n}"} for n in range(5_000)])
    config = {"source.format": "csv", "source.schema": "a INT", "sink.format": "csv", "units": units}
    began = time.process_time()
    assert validate("spark", config) == []
    assert time.process_time() - began < 3
