"""A cluster as manifests: they compile to the config topic that they were made from, without secrets."""

from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from cooperator.crd import Connector, Worker, compile_desired, parse
from cooperator.crd.connect import Topics
from cooperator.crd.imported import ImportedCluster, imported
from cooperator.leader.reconcile import connector_records
from cooperator.model import ClusterConfig, ConnectorConfig, TargetState
from tests.harness.support import bounded_work

CLUSTER = ImportedCluster("kafka:9092", "etl", Topics(config="connect-configs"))
PLAIN = {"name": "orders", "connector.class": "a.B", "tasks.max": "4", "topics": "yes", "flush": "007"}


def config_of(*configs: Mapping[str, str], target: TargetState = TargetState.STARTED) -> ClusterConfig:
    return ClusterConfig(7, {c["name"]: ConnectorConfig(c, target, ({},)) for c in configs})


def text_of(*configs: Mapping[str, str]) -> str:
    return imported(CLUSTER, config_of(*configs), "etl", "data").text()


def test_applying_an_import_changes_no_record() -> None:
    without_number = {"name": "lonely", "connector.class": "a.C", "quoted": "'a: #b'\n", "empty": ""}
    config = config_of(PLAIN, without_number, target=TargetState.PAUSED)
    found = imported(CLUSTER, config, "etl", "data")
    worker, *connectors = parse(found.text(), "imported")
    assert isinstance(worker, Worker)
    spec = worker.spec
    assert (spec.group_id, spec.replicas, spec.bootstrap_servers) == ("etl", 0, "kafka:9092")
    assert (spec.runtime, spec.group_policy, spec.deletion_policy) == ("connect", "Adopt", "Orphan")
    assert spec.stock.topics.config == "connect-configs"
    desired = compile_desired(worker, [c for c in connectors if isinstance(c, Connector)], 1)
    assert desired.connectors.keys() == {"orders", "lonely"}
    assert connector_records(desired, config, owns_config=False) == ()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("database.password", "s3cr3t"),
        ("sasl.jaas.config", 'Login required username="u" password="s3cr3t";'),
        ("aws.secret.access.key", "s3cr3t"),
        ("consumer.override.sasl.jaas.config", "s3cr3t"),
        ("connection.url", "jdbc:postgresql://u:s3cr3t@host/db"),
        ("connection.url", "jdbc:mysql://host/db?user=u&password=s3cr3t"),
        ("basic.auth.user.info", "u:s3cr3t"),
    ],
)
def test_a_secret_is_named_but_not_copied(key: str, value: str) -> None:
    found = imported(CLUSTER, config_of({**PLAIN, key: value}), "etl", "data")
    text = found.text()
    assert "s3cr3t" not in text
    assert any(f"{key} holds a secret" in warning for warning in found.warnings)
    assert f"# {key} holds a secret" in text
    _, connector = parse(text, "imported")
    assert isinstance(connector, Connector)
    assert connector.spec.config[key].startswith("${env:ORDERS_")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("database.password", "${file:/secrets/db:password}"),
        ("ssl.keystore.type", "PKCS12"),
        ("header.token.name", "x-token"),
        ("connection.url", "jdbc:postgresql://host:5432/db"),
    ],
)
def test_values_that_are_no_secrets_are_copied(key: str, value: str) -> None:
    found = imported(CLUSTER, config_of({**PLAIN, key: value}), "etl", "data")
    _, connector = parse(found.text(), "imported")
    assert isinstance(connector, Connector)
    assert connector.spec.config[key] == value
    assert all(warning.startswith("Worker etl") for warning in found.warnings)


def test_a_connector_that_cannot_be_a_resource_is_left_out_and_named_without_its_values() -> None:
    bad = {"name": "bad", "connector.class": "a B", "password": "s3cr3t"}
    strange = {**PLAIN, "name": "strange", "tasks.max": "many"}
    found = imported(CLUSTER, config_of(PLAIN, bad, strange), "etl", "data")
    assert list(found.left_out) == ["bad", "strange"]
    assert "class" in found.left_out["bad"]
    assert "tasksMax" in found.left_out["strange"]
    assert "s3cr3t" not in found.text()
    assert len(parse(found.text(), "imported")) == 2


def test_the_text_does_not_depend_on_the_order_of_records() -> None:
    other = {**PLAIN, "name": "clicks"}
    assert text_of(PLAIN, other) == text_of(dict(reversed(other.items())), PLAIN)


def test_a_group_whose_name_a_worker_cannot_have_is_refused() -> None:
    with pytest.raises(ValidationError, match=r"metadata.name"):
        imported(CLUSTER, config_of(PLAIN), "My_Cluster", "default")


NAMES = st.text(st.characters(exclude_categories=["Cc", "Cs"]), min_size=1, max_size=20)


ALIKE = st.sampled_from(["A b", "a-b", "A_B", "a.b"])


@settings(max_examples=20)
@given(st.lists(NAMES, max_size=3, unique=True), st.lists(ALIKE, max_size=3, unique=True))
def test_connectors_with_any_name_are_imported_unchanged(names: list[str], alike: list[str]) -> None:
    config = config_of(*({**PLAIN, "name": name, "password": "x"} for name in {*names, *alike}))
    found = imported(CLUSTER, config, "etl", "data")
    assert found.left_out == {}
    worker, *connectors = parse(found.text(), "imported")
    assert isinstance(worker, Worker)
    ours = [c for c in connectors if isinstance(c, Connector)]
    desired = compile_desired(worker, ours, 1)
    assert desired.connectors.keys() == config.connectors.keys()
    assert all(each.orphan for each in desired.connectors.values()), "connectors are retained by default"
    without = {
        n: {k: v for k, v in c.config.items() if k != "password"} for n, c in desired.connectors.items()
    }
    assert without == {name: {**PLAIN, "name": name} for name in config.connectors}
    references = [each.config["password"] for each in desired.connectors.values()]
    assert len(set(references)) == len(references), "no two connectors share a secret"


def test_the_reasons_against_leading_the_group_come_first() -> None:
    found = imported(CLUSTER, config_of(PLAIN), "etl", "data", ["two workers have one name"])
    assert found.text().startswith("# This group cannot be led: two workers have one name\n")
    assert "this group cannot be led: two workers have one name" in found.warnings
    assert len(parse(found.text(), "imported")) == 2


@pytest.mark.parametrize("part", ["a:", "://", "://a:", "${", "${a:", "?password", "\n"])
def test_a_long_value_costs_linear_time(part: str) -> None:
    config = {**PLAIN, "url": "://" + part * 100_000}
    with bounded_work():
        imported(CLUSTER, config_of(config), "etl", "data")


@pytest.mark.parametrize("url", ["http://ada:pw@a/b", "redis://:pw@a", "x://a:b:c@d", "a://b c://d:e@f"])
def test_credentials_in_a_url_are_not_copied(url: str) -> None:
    assert url not in text_of({**PLAIN, "url": url})
