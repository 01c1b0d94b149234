"""The Worker's Kafka credentials are never sent to servers that a Connector names."""

import pytest

from cooperator.logs.kafka.fence import fencing_client
from cooperator.logs.logs import LogsConfig

SECURITY = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "PLAIN",
    "sasl.username": "worker",
    "sasl.password": "hunter2",
    "ssl.key.location": "/etc/worker.key",
}
WORKER = LogsConfig("a:1,b:1", "g", security=SECURITY)


@pytest.mark.parametrize(
    "overrides",
    [
        {"bootstrap.servers": "tenant:1"},
        {"bootstrap.servers": "a:1,b:1,tenant:1"},
        {"security.protocol": "SASL_PLAINTEXT"},
        {"bootstrap.servers": "tenant:1", "security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"},
    ],
)
def test_overrides_that_lead_elsewhere_inherit_nothing(overrides: dict[str, str]) -> None:
    client = fencing_client(WORKER, overrides)
    assert client.security.keys() <= {"security.protocol", "sasl.mechanism"}


@pytest.mark.parametrize(
    "overrides", [{}, {"bootstrap.servers": "b:1, A:1"}, {"security.protocol": "SASL_SSL"}]
)
def test_overrides_that_lead_to_the_same_brokers_keep_the_workers_access(overrides: dict[str, str]) -> None:
    assert fencing_client(WORKER, overrides).security == SECURITY
