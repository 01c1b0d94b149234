"""The small parts of the logs."""

import socket
from pathlib import Path

import pytest

from cooperator.logs import LogsConfig, LogUnavailable, Topics
from cooperator.logs.kafka.clients import Clients
from cooperator.logs.kafka.settings import Access, client_settings
from cooperator.logs.kafka.topic_reader import KafkaTopicReader
from cooperator.logs.outages import Outages
from cooperator.logs.transport import Batch


class Follower:
    """Ignores everything; there is nothing to read."""

    def take(self, batch: Batch) -> None:
        raise AssertionError(batch)

    def caught_up(self) -> None:
        raise AssertionError

    def start_over(self) -> None:
        raise AssertionError


def test_an_outage_is_reported_once_and_its_end_when_all_are_over() -> None:
    reports: list[str] = []
    outages = Outages(reports.append)

    outages.report("configs", "no broker")
    outages.report("configs", "no broker")
    outages.report("leader", "no broker")
    outages.report("status", "records wait")
    outages.clear("configs")
    assert reports == ["no broker"], "the leader log still reports the same outage"
    outages.clear("leader")
    outages.clear("status")
    outages.clear("status")

    assert reports == ["no broker", "records wait", ""]
    assert outages.of("status") is None


def test_an_outage_lasts_until_every_client_has_seen_its_end() -> None:
    outages = Outages()
    outages.report("writer of status", "records wait")
    assert outages.outage() is None, "a failure of one topic is no outage of the broker"
    outages.report("configs", "no broker", outage=True)
    outages.report("leader", "no broker, it says", outage=True)
    assert outages.outage() == "no broker"
    outages.report("configs", "the topic is gone")
    assert outages.outage() == "no broker, it says"
    outages.clear("leader")
    assert outages.outage() is None


def test_a_reader_reports_an_outage_that_other_clients_have_noticed() -> None:
    outages = Outages()
    outages.report("leader", "Kafka cannot be reached, says the other reader", outage=True)
    # A connected reader without answers has nothing to report for a while.
    silent = socket.create_server(("127.0.0.1", 0))
    address = f"127.0.0.1:{silent.getsockname()[1]}"
    topic_reader = KafkaTopicReader(Clients(address, "lake", {}), "configs", Follower(), outages)
    try:
        with silent, pytest.raises(LogUnavailable, match="Kafka cannot be reached, says the other reader"):
            topic_reader.read_to_end(100)
    finally:
        topic_reader.close()


def test_one_mapping_of_security_serves_both_libraries() -> None:
    security = {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "ada",
        "sasl_plain_password": "secret",
        "ssl_cafile": "/ca.pem",
        "ssl_check_hostname": False,
        "ssl.keystore.location": "/keys",
    }

    assert client_settings(security) == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "ada",
        "sasl.password": "secret",
        "ssl.ca.location": "/ca.pem",
        "ssl.endpoint.identification.algorithm": "none",
        "ssl.keystore.location": "/keys",
    }


def test_an_unknown_security_setting_is_refused_without_its_value() -> None:
    with pytest.raises(
        ValueError, match=r"'sasl_password' has no counterpart .* sasl_plain_password"
    ) as refusal:
        client_settings({"sasl_password": "secret"})
    assert "'secret'" not in str(refusal.value)


def test_the_topics_are_named_after_the_group_unless_told_otherwise() -> None:
    assert LogsConfig("b", "lake").topic_names == Topics("lake-configs", "lake-status", "lake-leader")
    assert LogsConfig("b", "lake", topics=Topics("c", "s", "l")).topic_names == Topics("c", "s", "l")


def test_secrets_are_in_no_repr() -> None:
    assert "secret" not in repr(LogsConfig("b", "lake", {"sasl_plain_password": "secret"}))


def test_clients_are_shared_by_address_and_credentials(tmp_path: Path) -> None:
    ca = tmp_path / "ca.pem"
    ca.write_text("one")
    security = {"sasl_plain_password": "secret", "ssl_cafile": str(ca)}
    access = Access.of("b:1", security)

    assert access == Access.of("b:1", dict(reversed(security.items())))
    assert hash(access) == hash(Access.of("b:1", security))
    assert access == Access.of("b:1", {"sasl.password": "secret", "ssl.ca.location": str(ca)})
    assert access != Access.of("b:2", security)
    assert access != Access.of("b:1", security | {"sasl_plain_password": "another"})
    assert "secret" not in f"{access} {access!r}"
    ca.write_text("another")
    assert access != Access.of("b:1", security), "the file was rewritten"
