"""The name of a connector in Kafka and that of its resource, where they differ."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cooperator.crd import (
    Connector,
    ResourceError,
    Worker,
    compile_desired,
    forbidden_changes,
    from_object,
    parse,
)
from cooperator.crd.connector_names import named, resource_name
from cooperator.crd.rules import DNS_SUBDOMAIN

NAMES = st.one_of(
    st.sampled_from(
        ["Orders_2", "My Connector_1", "my-connector-1", "a/b", "a%2Fb", "ä", "-", ".", "..", "ORDERS"]
    ),
    st.text(st.characters(exclude_categories=["Cc", "Cs"]), min_size=1, max_size=80),
)


def worker(runtime: str = "connect", name: str = "pipes") -> Worker:
    found = from_object(
        {
            "apiVersion": "cooperator.dev/v1alpha1",
            "kind": "Worker",
            "metadata": {"name": name},
            "spec": {"runtime": runtime, "bootstrapServers": "k:9092"},
        }
    )
    assert isinstance(found, Worker)
    return found


def connector(resource: str, created: str = "", to: str = "pipes", **spec: object) -> Connector:
    metadata = {"name": resource, **({"creationTimestamp": created} if created else {})}
    found = from_object(
        {
            "apiVersion": "cooperator.dev/v1alpha1",
            "kind": "Connector",
            "metadata": metadata,
            "spec": {"workerRef": {"name": to}, "class": "a.B", **spec},
        }
    )
    assert isinstance(found, Connector)
    return found


@given(NAMES, NAMES)
def test_every_connector_has_a_resource_of_its_own(one: str, other: str) -> None:
    found = resource_name("pipes", one)
    assert DNS_SUBDOMAIN.check(found) == found
    assert found == resource_name("pipes", one)
    assert (found == resource_name("pipes", other)) is (one == other)
    if re.fullmatch(r"[a-z0-9]+", one):
        assert found == one
    if found != one:
        assert found != resource_name("ponds", one), (
            "two Workers of a namespace may both have one of that name"
        )


def test_the_resource_of_a_connector_stays_the_same_from_release_to_release() -> None:
    assert resource_name("pipes", "My Connector_1") == "my-connector-1-241d1fa406f1a281"
    assert resource_name("pipes", "Ä") == "connector-236385fd03e9ba2d"


@given(NAMES)
def test_the_leader_gets_a_connector_by_its_name_in_kafka(name: str) -> None:
    spec = {} if resource_name("pipes", name) == name else {"connectorName": name}
    one = connector(resource_name("pipes", name), **spec)
    desired = compile_desired(worker(), [one], 1)
    assert list(desired.connectors) == [name]
    assert desired.connectors[name].config["name"] == name


@pytest.mark.parametrize("name", ["", "a\nb", "\x7f", "a\x85", "x" * 1001])
def test_names_that_connect_refuses_are_refused(name: str) -> None:
    with pytest.raises(ResourceError, match="without control characters"):
        connector("a", connectorName=name)


def test_the_older_of_two_connectors_with_one_name_keeps_running() -> None:
    old = connector("zebra", "2026-01-01T00:00:00Z", connectorName="Orders", tasksMax=1)
    new = connector("aardvark", "2026-01-01T00:00:01Z", connectorName="Orders", tasksMax=2)
    for listed in ([old, new], [new, old]):
        found = named(worker(), listed)
        assert found.connectors == {"Orders": old}
        assert list(found.refused) == ["aardvark"]
        assert "is already the name in Kafka of Connector zebra of Worker pipes" in found.refused["aardvark"]
        assert compile_desired(worker(), listed, 1).connectors["Orders"].config["tasks.max"] == "1"
    assert named(worker(), [new]).connectors == {"Orders": new}


def test_a_resource_name_is_a_name_in_kafka_as_well() -> None:
    plain = connector("orders", "2026-01-01T00:00:00Z")
    other = connector("other", "2026-01-01T00:00:01Z", connectorName="orders")
    assert list(named(worker(), [plain, other]).refused) == ["other"]


def test_on_spark_a_connector_has_the_name_of_its_resource() -> None:
    odd, plain = connector("odd", connectorName="Orders"), connector("same", connectorName="same")
    found = named(worker("spark"), [odd, plain])
    assert list(found.connectors) == ["same"]
    assert "create it again without the field" in found.refused["odd"]


def test_two_of_one_name_in_a_file_are_refused() -> None:
    text = """
apiVersion: cooperator.dev/v1alpha1
kind: Connector
metadata: {name: NAME}
spec: {workerRef: {name: WORKER}, class: a.B, connectorName: Orders}
"""
    one, two = text.replace("NAME", "one"), text.replace("NAME", "two")
    with pytest.raises(
        ResourceError, match="is already the name in Kafka of Connector one of Worker pipes"
    ) as error:
        parse("---".join((one, two)).replace("WORKER", "pipes"), "m.yaml")
    [problem] = error.value.problems
    assert (problem.field, problem.line) == ("spec.connectorName", 10)
    assert len(parse("---".join((one.replace("WORKER", "a"), two.replace("WORKER", "b"))), "m.yaml")) == 2


def test_the_name_in_kafka_cannot_be_changed() -> None:
    plain = connector("orders")
    assert forbidden_changes(plain, connector("orders", connectorName="orders")) == ()
    [said] = forbidden_changes(plain, connector("orders", connectorName="Orders"))
    assert "spec.connectorName cannot be changed from 'orders' to 'Orders'" in said


def test_a_deletion_policy_reaches_the_leader_also_for_connectors_being_deleted() -> None:
    kept, going = connector("kept", deletionPolicy="Orphan"), connector("going", deletionPolicy="Orphan")
    gone = connector("gone")
    desired = compile_desired(worker(), [kept], 1, [going, gone], ["unreadable"])
    assert desired.connectors["kept"].orphan
    assert desired.ending == {"going": True, "gone": False}
    assert desired.kept == {"unreadable"}
    again = compile_desired(worker(), [going], 1, [going])
    assert again.ending == {}, "existing connectors are not being deleted"
