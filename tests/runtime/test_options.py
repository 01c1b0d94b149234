"""Configurations are checked before anything runs, and every refusal has a remedy."""

import re
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cooperator.connectors import find, known_classes, validate
from cooperator.connectors.dead_letters import treats_rows_alone
from cooperator.connectors.files_source import FilesToKafkaOptions
from cooperator.connectors.options import OptionError, Options, option_names, parse
from cooperator.connectors.reference import CLASSES
from cooperator.connectors.tablelogs.options import TableToKafkaOptions

FILES = {"path": "/data/in", "topic": "lines"}
COPY = {"topics": "lines", "topic": "copy.{topic}"}
TABLES = {"topics": "orders", "connection.url": "jdbc:postgresql://db:5432/shop?sslmode=require"}
ROWS = {"tables": "orders", "mode": "incrementing", "connection.url": TABLES["connection.url"]}
TOPICS = {"topics": "lines, words", "path": "/data/out"}


def problems_of(class_name: str, config: dict[str, str]) -> list[str]:
    return [str(problem) for problem in validate(class_name, config)]


def test_the_required_options_suffice() -> None:
    assert validate("files-to-kafka", FILES) == []
    assert validate("kafka-to-files", TOPICS) == []
    assert validate("kafka-to-files", {"topics.regex": "lines-.*", "path": "/data/out"}) == []
    assert validate("kafka-to-kafka", COPY) == []
    assert validate("kafka-to-postgres", TABLES) == []
    assert validate("postgres-to-kafka", ROWS) == []
    assert validate("kafka-to-postgres", {**TABLES, "insert.mode": "insert"}) == []
    assert validate("noop", {}) == []


@pytest.mark.parametrize(
    ("class_name", "config", "problem"),
    [
        (
            "files-to-kafka",
            {"path": "/in"},
            "option 'topic': is required; use the topic to write to",
        ),
        (
            "files-to-kafka",
            {**FILES, "units": "0"},
            "option 'units' = '0': should be greater than or equal to 1; "
            "use a number of file buckets, 1 to 1000",
        ),
        (
            "files-to-kafka",
            {**FILES, "units": "many"},
            "option 'units' = 'many': should be a valid integer, unable to parse string as an integer; "
            "use a number of file buckets, 1 to 1000",
        ),
        (
            "files-to-kafka",
            {**FILES, "max_files_per_trigger": "3"},
            "option 'max_files_per_trigger' = '3': is not an option of this class; "
            "did you mean 'max.files.per.trigger'?",
        ),
        (
            "files-to-kafka",
            {**FILES, "path": "data/in"},
            "option 'path' = 'data/in': is relative; "
            "write an absolute path, or a URI such as s3a://bucket/path",
        ),
        (
            "files-to-kafka",
            {**FILES, "path": "/data/*.txt"},
            "option 'path' = '/data/*.txt': has a character by which Spark reads it as a pattern "
            "(one of *?[]{}\\); "
            "name one directory, and rename it if its name has such a character",
        ),
        (
            "files-to-kafka",
            {**FILES, "max.files.per.trigger": "3", "max.bytes.per.trigger": "9"},
            "option 'max.bytes.per.trigger' = '9': cannot be combined with max.files.per.trigger; "
            "use one of them",
        ),
        (
            "kafka-to-files",
            {**TOPICS, "topics": " , "},
            "option 'topics' = ' , ': names no topic; set topics, separated by commas, or topics.regex",
        ),
        (
            "kafka-to-files",
            {**TOPICS, "topics.regex": "l.*"},
            "option 'topics.regex' = 'l.*': cannot be combined with topics; use one of them",
        ),
        (
            "kafka-to-files",
            {"path": "/out", "topics.regex": "lines["},
            "option 'topics.regex' = 'lines[': is not a valid regular expression (missing ]: [); "
            "write a regular expression of RE2 for complete names, such as orders[.].*, without lookaround "
            "and backreferences, and in at most 1,000 characters",
        ),
        (
            "kafka-to-files",
            {**TOPICS, "topics": "a b"},
            "option 'topics' = 'a b': is not a valid topic name; "
            "use up to 249 letters, digits, dots, underscores and dashes",
        ),
        (
            "kafka-to-files",
            {**TOPICS, "format": "avro"},
            "option 'format' = 'avro': should be 'parquet', 'json' or 'csv'; use parquet, json or csv",
        ),
        (
            "kafka-to-files",
            {**TOPICS, "transform.sql": "SELECT value FRM input"},
            "option 'transform.sql' = 'SELECT value FRM input': is not valid SQL (line 1, column 22: "
            "Invalid expression / Unexpected token); "
            "write one SELECT from the view input, such as SELECT * FROM input",
        ),
        (
            "files-to-kafka",
            {**FILES, "transform.sql": "DROP TABLE input"},
            "option 'transform.sql' = 'DROP TABLE input': is not one SELECT; "
            "write one SELECT from the view input, such as SELECT * FROM input",
        ),
        (
            "kafka-to-kafka",
            {**COPY, "transform.sql": "SELECT value FROM inputs"},
            "option 'transform.sql' = 'SELECT value FROM inputs': does not read the view input; "
            "write one SELECT from the view input, such as SELECT * FROM input",
        ),
        (
            "kafka-to-files",
            {**TOPICS, "sql": "SELECT 'a FROM input"},
            "option 'sql' = \"SELECT 'a FROM input\": is not valid SQL (an unterminated quote or comment); "
            "write one SELECT from the view input, such as SELECT * FROM input",
        ),
        (
            "kafka-to-files",
            {**TOPICS, "sql": "SELECT * FROM input", "transform.sql": "SELECT * FROM input"},
            "option 'sql' = 'SELECT * FROM input': cannot be combined with transform.sql; use one of them",
        ),
        (
            "kafka-to-kafka",
            {**COPY, "errors.tolerance": "all"},
            "option 'errors.tolerance' = 'all': has no effect here; "
            "set transform.sql, or remove it: without transform.sql nothing is converted",
        ),
        (
            "kafka-to-kafka",
            {**COPY, "errors.tolerance": "all", "transform.sql": "SELECT max(value) AS value FROM input"},
            "option 'errors.tolerance' = 'all': requires a SELECT that treats each row by itself; remove "
            "aggregates, windows, DISTINCT, joins, hints, LIMIT, OFFSET and ORDER, SORT, DISTRIBUTE or "
            "CLUSTER BY, or set it to none",
        ),
        (
            "kafka-to-kafka",
            {**COPY, "errors.deadletterqueue.topic.name": "dead"},
            "option 'errors.deadletterqueue.topic.name' = 'dead': is not used with errors.tolerance = none; "
            "set errors.tolerance to all",
        ),
        (
            "kafka-to-kafka",
            {**COPY, "topic": "copy of {topic}"},
            "option 'topic' = 'copy of {topic}': is not a valid topic name; use letters, digits, "
            "dots, underscores "
            "and dashes, and {topic} for the source topic's name",
        ),
        (
            "kafka-to-kafka",
            {"topics.regex": "lines.*", "topic": "lines-copy"},
            "option 'topic' = 'lines-copy': would be read by this connector again; "
            "name a topic that topics and topics.regex do not match",
        ),
        (
            "kafka-to-postgres",
            {"topics": "orders", "connection.url": "jdbc:mysql://db/shop"},
            "option 'connection.url' = 'jdbc:mysql://db/shop': is not for PostgreSQL, the only supported "
            "database; write it as jdbc:postgresql://host:5432/database",
        ),
        (
            "kafka-to-postgres",
            {**TABLES, "transform.sql": "SELECT value FROM input LIMIT 5"},
            "option 'transform.sql' = 'SELECT value FROM input LIMIT 5': does not treat each row by itself; "
            "remove aggregates, windows, DISTINCT, joins, hints, LIMIT, OFFSET and ORDER, SORT, DISTRIBUTE "
            "or CLUSTER BY",
        ),
        (
            "kafka-to-postgres",
            {"topics": "orders", "connection.url": "jdbc:postgresql://me:secret@db/shop"},
            "option 'connection.url' = 'jdbc:postgresql://me:***@db/shop': contains a password; "
            "use connection.user and connection.password instead",
        ),
        (
            "kafka-to-postgres",
            {"topics": "orders", "connection.url": "jdbc:postgresql://db/shop?user=me&password=secret"},
            "option 'connection.url' = 'jdbc:postgresql://db/shop?user=me&password=***': contains a "
            "password; "
            "use connection.user and connection.password instead",
        ),
        (
            "kafka-to-postgres",
            {**TABLES, "connection.password": "secret"},
            "option 'connection.password' = '***': would be stored in clear text in Kafka; "
            "write ${file:/path:KEY} or ${env:NAME}",
        ),
        (
            "kafka-to-postgres",
            {**TABLES, "table.name.format": "a.b.c"},
            "option 'table.name.format' = 'a.b.c': is not a valid table name; "
            "write table or schema.table; {topic} stands for the source topic's name",
        ),
        (
            "kafka-to-postgres",
            {**TABLES, "pk.fields": "id"},
            "option 'pk.fields' = 'id': is not used with insert.mode = append; set insert.mode to upsert",
        ),
        (
            "kafka-to-postgres",
            {**TABLES, "insert.mode": "update"},
            "option 'insert.mode' = 'update': should be 'append' or 'upsert'; use append (each row is "
            "inserted) or upsert (it replaces the row with its key)",
        ),
        (
            "kafka-to-nowhere",
            {},
            "option 'connector.class' = 'kafka-to-nowhere': is not an installed class; "
            "install the plug-in that provides it, here and on every member of its Worker (docs/plugins.md); "
            "installed are: files-to-kafka, kafka-to-files, kafka-to-kafka, kafka-to-postgres, "
            "noop, postgres-to-kafka, spark",
        ),
        (
            "postgres-to-kafka",
            {**ROWS, "tables": ""},
            "option 'tables' = '': names no table; set tables, separated by commas, or tables.regex",
        ),
        (
            "postgres-to-kafka",
            {**ROWS, "mode": "bulk"},
            "option 'mode' = 'bulk': should be 'incrementing', 'timestamp' or 'timestamp+incrementing'; use "
            "incrementing (new rows), timestamp or timestamp+incrementing (changed rows, too)",
        ),
        (
            "postgres-to-kafka",
            {**ROWS, "mode": "timestamp"},
            "option 'timestamp.column.name': is required by mode timestamp; "
            "name the column, or set mode to incrementing",
        ),
        (
            "postgres-to-kafka",
            {**ROWS, "timestamp.column.name": "at"},
            "option 'timestamp.column.name' = 'at': is not used by mode incrementing; "
            "set mode to timestamp+incrementing, or remove it",
        ),
        (
            "postgres-to-kafka",
            {**ROWS, "value.converter": "org.apache.kafka.connect.json.JsonConverter"},
            "option 'value.converter' = 'org.apache.kafka.connect.json.JsonConverter': should be 'json', "
            "'json-schema', 'avro' or 'string'; use json, json-schema (Connect's envelope with schema and "
            "payload), avro (schema.registry.url) or string",
        ),
        (
            "postgres-to-kafka",
            {**ROWS, "value.converter": "avro"},
            "option 'value.converter' = 'avro': requires a schema registry; set schema.registry.url",
        ),
        (
            "kafka-to-postgres",
            {**TABLES, "value.converter": "json"},
            "option 'value.converter' = 'json': has no columns; "
            "set value.schema (id LONG, name STRING), or use string and get_json_object",
        ),
        (
            "kafka-to-files",
            {**TOPICS, "value.schema": "id LONG"},
            "option 'value.schema' = 'id LONG': is not used with value.converter = string; "
            "set value.converter to json, or remove it",
        ),
        (
            "kafka-to-files",
            {**TOPICS, "value.converter": "json", "value.schema": "id LONG ( name"},
            "option 'value.schema' = 'id LONG ( name': is not a list of columns; "
            "write names with types: id LONG, name STRING",
        ),
        (
            "kafka-to-files",
            {**TOPICS, "key.converter": "avro", "schema.registry.url": "http://me:secret@registry"},
            "option 'schema.registry.url' = 'http://me:***@registry': is not the URL of a registry; write "
            "http://host:8081; put credentials into schema.registry.basic.auth.user.info",
        ),
        (
            "kafka-to-files",
            {**TOPICS, "errors.tolerance": "all"},
            "option 'errors.tolerance' = 'all': has no effect here; set transform.sql, or remove it: "
            "without transform.sql nothing is converted",
        ),
    ],
)
def test_a_refusal_names_option_value_and_remedy(
    class_name: str, config: dict[str, str], problem: str
) -> None:
    assert problems_of(class_name, config) == [problem]


@pytest.mark.parametrize(
    ("sql", "is_alone"),
    [
        ("SELECT upper(value) AS value FROM input WHERE key IS NOT NULL", True),
        ("WITH a AS (SELECT * FROM input) SELECT value FROM a", True),
        ("SELECT w AS value FROM input LATERAL VIEW explode(split(value, ' ')) t AS w", True),
        ("SELECT max(value) AS value FROM input", False),
        ("SELECT DISTINCT value FROM input", False),
        ("SELECT value FROM input LIMIT 1", False),
        ("SELECT value FROM input OFFSET 1", False),
        ("SELECT value FROM input FETCH FIRST 1 ROWS ONLY", False),
        ("SELECT value FROM input SORT BY value", False),
        ("SELECT value FROM input DISTRIBUTE BY key", False),
        ("SELECT value FROM input CLUSTER BY key", False),
        ("SELECT /*+ COALESCE(1) */ value FROM input", False),
        ("SELECT value FROM input UNION ALL SELECT value FROM input", False),
        ("SELECT value FROM input WHERE key IN (SELECT key FROM input)", False),
        ("SELECT lag(value) OVER (PARTITION BY key ORDER BY offset) AS value FROM input", False),
    ],
)
def test_rows_may_be_left_out_only_where_each_is_converted_by_itself(sql: str, is_alone: bool) -> None:
    assert treats_rows_alone(sql) is is_alone


def test_all_problems_are_reported_at_once() -> None:
    problems = validate("files-to-kafka", {"path": "x", "units": "0", "colour": "red"})
    assert {problem.option for problem in problems} == {"path", "topic", "units", "colour"}


def test_the_value_of_a_reference_is_not_checked() -> None:
    assert validate("files-to-kafka", {**FILES, "units": "${env:UNITS}", "path": "${env:WHERE}"}) == []


@given(st.dictionaries(st.text(max_size=12), st.text(max_size=12), max_size=4))
def test_any_configuration_gets_an_answer_and_no_exception(config: dict[str, str]) -> None:
    for class_name in known_classes():
        for problem in validate(class_name, config):
            assert problem.remedy
            assert repr(problem.option) in str(problem)


@pytest.mark.parametrize("options", list(CLASSES.values()))
def test_every_option_has_a_description(options: type[Options]) -> None:
    for name, field in option_names(options).items():
        assert field.description, name


def test_the_repr_of_options_shows_no_value() -> None:
    options = parse(FilesToKafkaOptions, {"connector.class": "x", "bootstrap.servers": "k:1", **FILES})
    shown = "FilesToKafkaOptions(bootstrap_servers, connector_class, path, topic)"
    assert (repr(options), str(options)) == (shown, shown)


def _choices() -> Iterator[tuple[str, str, str]]:
    """The class, option and value of everything that can be listed."""
    for class_name in known_classes():
        for name, field in option_names(find(class_name).options).items():
            text = str(field.annotation)
            for words in re.findall(r"Literal\[([^]]*)\]", text):
                yield from ((class_name, name, word) for word in re.findall(r"'([^']+)'", words))
            if field.annotation is bool:
                yield class_name, name, "true"


CHOICES = sorted(_choices())


@pytest.mark.parametrize("class_name", sorted({class_name for class_name, _, _ in CHOICES}))
def test_a_misspelt_value_gets_a_suggestion(class_name: str) -> None:
    for _, name, word in (one for one in CHOICES if one[0] == class_name):
        wrong = word[:-2] + word[-1]
        [problem] = [one for one in validate(class_name, {name: wrong}) if one.option == name]
        assert f"did you mean {word!r}? Otherwise use " in problem.remedy, (name, wrong, problem)


def test_a_misspelt_format_gets_a_suggestion() -> None:
    problems = [str(one) for one in validate("kafka-to-files", {**TOPICS, "format": "parqet"})]
    assert problems == [
        "option 'format' = 'parqet': should be 'parquet', 'json' or 'csv'; did you mean 'parquet'? "
        "Otherwise use parquet, json or csv"
    ]


def test_references_get_no_suggestions() -> None:
    written = {"connector.class": "kafka-to-files", **TOPICS, "format": "${env:FORMAT}"}
    with pytest.raises(OptionError) as refused:
        parse(find("kafka-to-files").options, {**written, "format": "parqet"}, written)
    [problem] = refused.value.problems
    assert (problem.value, problem.remedy) == ("${env:FORMAT}", "use parquet, json or csv")


@given(
    tables=st.lists(st.from_regex(r"([ab_]{1,2}\.)?[ab_]{1,2}", fullmatch=True), min_size=1, unique=True),
    topic=st.sampled_from(["{table}", "{schema}.{table}", "{schema}_{table}", "all", "of.{schema}"]),
)
def test_two_tables_share_a_topic_only_if_it_is_not_named_after_a_table(
    tables: list[str], topic: str
) -> None:
    config = {**ROWS, "connector.class": "postgres-to-kafka", "topic": topic}
    del config["tables"]
    options = parse(TableToKafkaOptions, {**config, "tables.regex": ".*"})
    topics = [options.target(table) for table in tables]
    assert (options.together(tables) is None) == (len(set(topics)) == len(tables) or "{table}" not in topic)
    if found := options.together(tables):
        with pytest.raises(OptionError, match="stands for one topic of two of the tables; write"):
            parse(TableToKafkaOptions, {**config, "tables": ",".join(found)})
