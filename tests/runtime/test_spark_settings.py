"""The settings of the Spark session: ours, the user's, and those for the processes of a cluster."""

from dataclasses import replace
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from cooperator.connectors.spark import spread
from cooperator.connectors.sql_functions import XML_OPTIONS
from cooperator.runtime import RuntimeSettings
from cooperator.runtime.session import spark_conf

JARS = (Path("/jars/kafka.jar"), Path("/jars/ours.jar"))


def test_the_users_settings_win_and_class_paths_are_joined(settings: RuntimeSettings) -> None:
    user = {"spark.sql.shuffle.partitions": "9", "spark.driver.extraClassPath": "/mine.jar", "a.b": "c"}
    conf = spark_conf(replace(settings, heap_mb=700), JARS, user)
    assert conf["spark.sql.shuffle.partitions"] == "9"
    assert conf["a.b"] == "c"
    assert conf["spark.driver.extraClassPath"] == "/jars/kafka.jar:/jars/ours.jar:/mine.jar"
    assert conf["spark.driver.memory"] == "700m"
    assert "spark.jars" not in conf


def test_a_cluster_gets_the_jars_and_a_driver_that_it_can_reach(settings: RuntimeSettings) -> None:
    user = {"spark.master": "spark://master:7077", "spark.jars": "/mine.jar"}
    conf = spark_conf(settings, JARS, user)
    assert conf["spark.jars"] == "/jars/kafka.jar,/jars/ours.jar,/mine.jar"
    assert "spark.driver.host" not in conf
    assert spark_conf(settings, JARS, {**user, "spark.driver.host": "pod"})["spark.driver.host"] == "pod"


def test_no_jvm_opens_what_a_document_of_xml_names(settings: RuntimeSettings) -> None:
    """``xpath`` reads documents of anybody who may write the data: they may name files and servers."""
    for process in ("driver", "executor"):
        name = f"spark.{process}.defaultJavaOptions"
        for user in ({}, {name: "-Xss4m"}, {f"spark.{process}.extraJavaOptions": "-Xss4m"}):
            given = spark_conf(settings, JARS, user, ("-Xshare:auto",))[name].split()
            assert {*XML_OPTIONS} <= {*given}
            assert len(XML_OPTIONS) == 4
            assert name not in user or "-Xss4m" in given


def test_neither_settings_nor_paths_show_secrets(settings: RuntimeSettings) -> None:
    assert "hunter2" not in repr(replace(settings, spark_conf={"spark.hadoop.fs.s3a.secret.key": "hunter2"}))


@given(interval_ms=st.integers(0, 100_000), name=st.text())
def test_intervals_are_spread_by_at_most_an_eighth(interval_ms: int, name: str) -> None:
    name = name.encode("utf-8", "replace").decode()
    assert interval_ms <= spread(interval_ms, name) <= interval_ms + interval_ms / 8
    assert spread(interval_ms, name) == spread(interval_ms, name)
