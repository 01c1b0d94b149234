"""The version of Spark is the same wherever it is written, and so are those that follow from it."""

import re
import tomllib
import xml.etree.ElementTree as ET
import zipfile
from pathlib import Path

import pytest

from cooperator.artifacts import BUNDLES, SPARK_VERSION, resolve, spark_jars
from cooperator.runtime.class_path import packaged

ROOT = Path(__file__).parents[2]
TEXTS = ("docs/spark.md", "docs/reference.md", "crds/cooperator.dev_workers.yaml")


def test_pyspark_has_the_version_of_the_kafka_source() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert f"pyspark=={SPARK_VERSION}" in project["optional-dependencies"]["spark"]


@pytest.mark.parametrize("name", TEXTS)
def test_examples_of_packages_are_of_that_version(name: str) -> None:
    found = set(re.findall(r"org\.apache\.spark:[a-z-]+_2\.13:([\w.]+)", (ROOT / name).read_text()))
    assert found == {SPARK_VERSION}


def test_the_store_client_has_the_version_of_sparks_hadoop() -> None:
    (inside,) = {jar.stem.rpartition("-")[2] for jar in spark_jars() if jar.name.startswith("hadoop-client-")}
    assert {root.version for root in BUNDLES["spark-s3"].roots} == {inside}


def test_the_loggers_that_are_quiet_exist() -> None:
    """Spark moves classes between packages, and a logger that nobody uses quiets nothing."""
    names = [each.attrib["name"] for each in ET.parse(packaged("log4j2.xml")).iter("Logger")]
    jars = [*spark_jars(), *resolve("spark-kafka")]
    there = {entry for jar in jars for entry in zipfile.ZipFile(jar).namelist() if entry.endswith(".class")}
    assert names
    assert [name for name in names if f"{name.replace('.', '/')}.class" not in there] == []
