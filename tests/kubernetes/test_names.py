"""Names of services are answered as a cluster's DNS does."""

import dns.message
import dns.rcode
import pytest

from tests.kubernetes.names import answer

SERVICES = {("shop", "kafka"): "10.0.0.7", ("shop", "lake"): "None"}


def asked(name: str, kind: str = "A") -> dns.message.Message:
    return answer(dns.message.make_query(name, kind), SERVICES.get)


def test_a_service_has_its_address() -> None:
    [found] = asked("kafka.shop.svc.cluster.local").answer
    assert [record.address for record in found] == ["10.0.0.7"]


@pytest.mark.parametrize(
    ("name", "kind"), [("kafka.shop.svc.cluster.local", "AAAA"), ("lake.shop.svc.cluster.local", "A")]
)
def test_a_name_without_such_an_address_exists(name: str, kind: str) -> None:
    found = asked(name, kind)
    assert (found.answer, found.rcode()) == ([], dns.rcode.NOERROR)


@pytest.mark.parametrize(
    "name", ["kafka.svc.cluster.local", "kafka.home.svc.cluster.local", "kafka", "example.org", "."]
)
def test_other_names_do_not_exist(name: str) -> None:
    assert asked(name).rcode() == dns.rcode.NXDOMAIN
