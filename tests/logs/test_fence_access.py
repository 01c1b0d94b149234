"""Whom the client that fences producers shows the Worker's credentials to."""

import pytest

from cooperator.logs import LogsConfig
from cooperator.logs.kafka.fence import access

SECURITY = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.password": "sesame"}
CONFIG = LogsConfig("kafka-0:9092,kafka-1:9092", "lake", security=SECURITY)


def test_the_workers_own_brokers_see_its_credentials() -> None:
    assert access(CONFIG, {}) == (CONFIG.bootstrap_servers, SECURITY)
    servers, security = access(CONFIG, {"bootstrap.servers": "KAFKA-1:9092", "client.id": "x"})
    assert (servers, security["sasl.password"]) == ("KAFKA-1:9092", "sesame")


@pytest.mark.parametrize("servers", ["evil:9092", "kafka-0:9092,evil:9092", "kafka-0:9093"])
def test_other_brokers_see_none_of_them(servers: str) -> None:
    assert access(CONFIG, {"bootstrap.servers": servers}) == (servers, {})
    assert access(CONFIG, {"bootstrap.servers": servers, "security.protocol": "SSL"})[1] == {
        "security.protocol": "SSL"
    }


def test_to_log_in_at_other_brokers_is_refused_with_the_remedy() -> None:
    asked = {"bootstrap.servers": "evil:9092", "security.protocol": "SASL_PLAINTEXT"}
    with pytest.raises(ValueError, match=r"names other brokers than the Worker's \(evil:9092\).*remove it"):
        access(CONFIG, asked)
