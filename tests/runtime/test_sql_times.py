"""Times that a SELECT writes as text by to_json and to_csv have microseconds, as those of file sinks do."""

import csv
import json
import threading
from random import Random
from typing import Any

import pytest

from cooperator.connectors import transform
from cooperator.connectors.formats import TIMES_WRITTEN
from cooperator.connectors.options import OptionError
from cooperator.connectors.sql_times import with_times
from cooperator.connectors.transform import selected
from tests.runtime.spark_bench import SparkBench
from tests.values.random_values import random_type, random_value
from tests.values.readings import json_text, moment_text, moment_us

MOMENTS = (
    "2026-11-28T12:30:45.123456Z",
    "2026-11-28T12:30:45.123000Z",
    "2026-11-28T12:30:45.000000Z",
    "2026-11-28T12:30:00.000000Z",
    "1969-12-31T23:59:59.999999Z",
    # Berlin's clocks were 53 minutes and 28 seconds ahead.
    "1890-01-01T00:00:00.000001Z",
    "0001-01-01T00:00:00.000001Z",
    "9999-12-31T23:59:59.999999Z",
)
ZONES = ("UTC", "Europe/Berlin", "Asia/Kathmandu")
CONTAINERS = {
    "{}": "{}",
    "struct({} AS inner)": '{"inner":{}}',
    "array({})": "[{}]",
    "map('k', {})": '{"k":{}}',
    "array(map('k', struct(array({}) AS inner)))": '[{"k":{"inner":[{}]}}]',
}
"""What a time is in, as SQL and as JSON."""


@pytest.fixture
def session(spark: SparkBench) -> Any:
    return spark.runtime.session(threading.Event()).newSession()


def times_of(session: Any) -> Any:
    """The moments, with the time that a clock without a zone shows of each."""
    values = ", ".join(f"('{each}', '{each.removesuffix('Z')}')" for each in MOMENTS)
    return session.sql(
        f"SELECT CAST(z AS TIMESTAMP) AS z, CAST(n AS TIMESTAMP_NTZ) AS n FROM VALUES {values} AS t(z, n)"
    )


def texts(frame: Any) -> list[str]:
    return [row[0] for row in frame.collect()]


def end_of(sql: str, text: str) -> int:
    return sql.index(text) + len(text) - 1


def call(name: str, sql: str, *arguments: str, options: Any = None) -> dict[str, Any]:
    """A call in ``sql`` of these texts."""
    whole = f"{name}({', '.join(arguments)})"
    ends = [end_of(sql, each) for each in (*arguments, whole)]
    return {"name": name, "arguments": [None, options][: len(arguments)], "ends": ends, "is_named": False}


def test_options_are_added_where_a_call_has_none() -> None:
    sql = "SELECT '\U0001f600', to_json(s) FROM input"
    written = with_times(sql, [call("to_json", sql, "s")])
    assert written.startswith("SELECT '\U0001f600', to_json(s, map('timeZone', 'UTC', 'timestampFormat', ")
    assert r"'yyyy-MM-dd\'T\'HH:mm:ss.SSSSSSXXX', " in written
    assert written.endswith(")) FROM input")
    sql = "SELECT to_json(s, map()) FROM input"
    assert "(s, map('timeZone', " in with_times(sql, [call("to_json", sql, "s", "map()", options=[])])


def test_options_of_a_call_are_kept_and_its_own_format_has_the_zone_of_the_session() -> None:
    options = "map('NULLVALUE', '-', 'TimestampFormat', 'yyyy')"
    sql = f"SELECT to_csv(s, {options}) FROM input"
    given = ["NULLVALUE", "-", "TimestampFormat", "yyyy"]
    written = with_times(sql, [call("to_csv", sql, "s", options, options=given)])
    assert "map('NULLVALUE', '-', 'TimestampFormat', 'yyyy', 'timestampNTZFormat', " in written
    assert "timeZone" not in written
    every = [each for name in TIMES_WRITTEN for each in (name, "x")]
    options = f"map({', '.join(map(repr, every))})"
    sql = f"SELECT to_csv(s, {options}) FROM input"
    assert with_times(sql, [call("to_csv", sql, "s", options, options=every)]) == sql


def test_other_calls_are_left_as_they_are() -> None:
    sql = "SELECT from_json(s, 'a TIMESTAMP'), to_json() FROM input"
    other = call("from_json", sql, "s", "'a TIMESTAMP'")
    assert with_times(sql, [other, {"name": "to_json", "arguments": [], "ends": [40]}]) == sql


@pytest.mark.real
@pytest.mark.parametrize("zone", ZONES)
def test_times_have_microseconds_in_whatever_they_are(session: Any, zone: str) -> None:
    session.conf.set("spark.sql.session.timeZone", zone)
    rows = times_of(session)
    clocks = [each.removesuffix("Z") for each in MOMENTS]
    for within, due in CONTAINERS.items():
        for column, times in (("z", MOMENTS), ("n", clocks)):
            sql = f"SELECT to_json(struct({within.format(column)} AS v)) FROM input"
            assert texts(selected(rows, sql)) == [
                f'{{"v":{due.replace("{}", json.dumps(each))}}}' for each in times
            ]
            sql = f"SELECT to_csv(struct({within.format(column)} AS v, 'x' AS x)) FROM input"
            for line, each in zip(texts(selected(rows, sql)), times, strict=True):
                [fields] = csv.reader([line])
                assert each in fields[0], sql


SPELLINGS = (
    "SELECT TO_JSON(struct(z)) FROM input",
    "SELECT `to_json`(struct(z)) FROM input",
    "SELECT To_Json /* a ( */ ( struct(z) -- a )\n ) FROM input",
    "SELECT to_json((struct(z))) FROM input",
    "SELECT to_json(struct(z), map('ignoreNullFields', 'false')) FROM input",
    "SELECT to_json(struct(z), `MAP`('allowNonNumericNumbers', 'false' /* ) */ ) ) FROM input",
    "SELECT to_json(struct(z), (map('ignoreNullFields', 'false'))) FROM input",
    "SELECT to_json(struct(z), map()) FROM input",
    "SELECT '\U0001f600)' || to_json(struct(z)) FROM input",
    "SELECT concat(to_json(struct(z)), upper(to_json(struct(z)))) FROM input",
    "SELECT to_json(named_struct('z', z, 'text', to_json(struct(z)))) FROM input",
    "SELECT CASE WHEN true THEN to_json(struct(z)) END FROM input",
    "SELECT transform(array(struct(z)), x -> to_json(x))[0] FROM input",
    "SELECT aggregate(array(z), '', (a, x) -> concat(a, to_json(struct(x AS z)))) FROM input",
    "SELECT max(to_json(struct(z))) FROM input GROUP BY z",
    "SELECT j FROM input LATERAL VIEW explode(array(to_json(struct(z)))) AS j",
    "SELECT explode(array(to_json(struct(z)))) FROM input",
    "SELECT v FROM input, LATERAL (SELECT to_json(struct(z)) AS v)",
    "SELECT (SELECT max(to_json(struct(z))) FROM input) FROM input",
    "SELECT v FROM (SELECT to_json(struct(z)) AS v FROM input)",
    "WITH a AS (SELECT to_json(struct(z)) AS v FROM input) SELECT v FROM a",
    "WITH a AS (SELECT to_json(struct(z)) AS v FROM input), b AS (SELECT v FROM a) "
    "SELECT v FROM a UNION ALL SELECT v FROM b",
    "SELECT last_value(to_json(struct(z))) OVER (ORDER BY to_json(struct(z))) FROM input",
    "FROM input |> SELECT to_json(struct(z)) AS v",
    "FROM input |> EXTEND to_json(struct(z)) AS v |> SELECT v",
    "SELECT from_json(to_json(struct(to_json(struct(z)) AS v)), 'v STRING').v FROM input",
    "SELECT to_csv(struct(z)) FROM input",
    "SELECT TO_CSV(struct(z, n), map('sep', ';')) FROM input",
)
"""Ways to write the same call."""


@pytest.mark.real
def test_no_spelling_leaves_a_time_cut(session: Any) -> None:
    rows = times_of(session).where("z = TIMESTAMP'2026-11-28T12:30:45.123456Z'")
    for sql in SPELLINGS:
        found = texts(selected(rows, sql))
        assert found, sql
        for text in found:
            assert MOMENTS[0] in text, sql
    [column] = selected(rows, SPELLINGS[0]).columns
    assert column == "to_json(struct(z))"


@pytest.mark.real
def test_what_a_call_sets_is_kept(session: Any) -> None:
    session.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    rows = times_of(session).limit(1)

    def written(options: str) -> Any:
        [text] = texts(selected(rows, f"SELECT to_json(struct(z, n), map({options})) FROM input"))
        return json.loads(text)

    assert written("'TIMESTAMPFORMAT', 'HH:mm'") == {"z": "13:30", "n": "2026-11-28T12:30:45.123456"}
    assert written("'timestampNTZFormat', 'HH'") == {"z": MOMENTS[0], "n": "12"}
    assert written("'timezone', 'Asia/Kathmandu'")["z"] == "2026-11-28T18:15:45.123456+05:45"


@pytest.mark.real
def test_a_call_over_a_window_is_refused(session: Any) -> None:
    for over in ("OVER w", "OVER (ORDER BY z)", "FILTER (WHERE true)"):
        with pytest.raises(OptionError, match=r"transform\.sql"):
            selected(
                times_of(session), f"SELECT to_json(struct(z)) {over} FROM input WINDOW w AS (ORDER BY z)"
            )


@pytest.mark.real
def test_a_server_is_sent_the_same_select() -> None:
    class Elsewhere:
        sent = ""

        def sql(self, text: str) -> None:
            self.sent = text

    session = Elsewhere()
    transform._read_elsewhere(session, "SELECT to_json(struct(z)) FROM input")
    assert session.sent.startswith("SELECT to_json(struct(z), map('timeZone', 'UTC', ")


COLUMNS = [f"c{seed}" for seed in range(80)]
"""Each name is the seed of a random type and of a random value of it."""


@pytest.mark.real
@pytest.mark.parametrize("zone", ZONES)
def test_what_is_written_is_read_back_equal(session: Any, zone: str) -> None:
    session.conf.set("spark.sql.session.timeZone", zone)
    kinds = {name: random_type(Random(name)) for name in COLUMNS}
    given = {name: random_value(Random(name), kind) for name, kind in kinds.items()}
    ddl = ", ".join(f"{name} {kind}" for name, kind in kinds.items())
    rows = session.createDataFrame([(json_text(given),)], "given STRING")
    back = selected(
        rows.selectExpr(f"from_json(given, '{ddl}') AS v"),
        f"SELECT v, from_json(to_json(v), '{ddl}') AS back FROM input",
    )
    # Maps cannot be compared; their texts have all digits.
    pairs = [f"struct(CAST(v.{name} AS STRING), CAST(back.{name} AS STRING)) AS {name}" for name in COLUMNS]
    [row] = back.selectExpr(*pairs).collect()
    different = {str(kinds[name]): tuple(row[name]) for name in COLUMNS if row[name][0] != row[name][1]}
    assert different == {}
    assert sum("TIMESTAMP" in str(kind) and row[name][0] is not None for name, kind in kinds.items()) > 10


@pytest.mark.real
@pytest.mark.parametrize("zone", ZONES)
def test_times_of_csv_are_read_back_equal(session: Any, zone: str) -> None:
    session.conf.set("spark.sql.session.timeZone", zone)
    back = selected(
        times_of(session),
        "SELECT z, n, c.z AS of_z, c.n AS of_n FROM (SELECT z, n, from_csv(to_csv(struct(z, n)), "
        "'z TIMESTAMP, n TIMESTAMP_NTZ') AS c FROM input)",
    )
    assert back.where("NOT (z <=> of_z AND n <=> of_n)").count() == 0
    assert back.count() == len(MOMENTS)
    micros = [row[0] for row in back.selectExpr("unix_micros(of_z)").collect()]
    assert list(map(moment_text, micros)) == [moment_text(moment_us(each)) for each in MOMENTS]
