"""Spark itself refuses what a transform may not do, should it read the text otherwise than the check."""

import threading

import pytest

from cooperator.connectors.options import OptionError
from cooperator.connectors.transform import selected
from tests.runtime.spark_bench import SparkBench


@pytest.mark.real
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT reflect('java.lang.System', 'getProperty', 'a') FROM input",
        "SELECT from_avro(id, '{}', map('avroSchemaUrl', '/etc/passwd')) FROM input",
        "SELECT * FROM text.`/etc/passwd`",
        "SELECT TRANSFORM(id) USING 'cat' AS a FROM input",
        "SELECT (SELECT max(a) FROM (MAP id USING r'cat' AS a FROM input)) FROM input",
    ],
)
def test_spark_opens_nothing_for_a_transform(spark: SparkBench, sql: str) -> None:
    session = spark.runtime.session(threading.Event()).newSession()
    with pytest.raises(OptionError, match="is refused"):
        selected(session.range(1), sql)
    [row] = selected(session.range(1), "SELECT '${env:HOME}' AS a FROM input").collect()
    assert row.a == "${env:HOME}"
