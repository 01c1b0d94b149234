"""A stock connector's own clients never show the worker's credentials to somebody else."""

from itertools import combinations

import pytest

from cooperator.crd import Connector
from cooperator.crd.overrides import override_problem

CLIENTS = ("producer", "consumer", "admin")
LOGIN = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "PLAIN",
    "sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule required ${file:/c:own};",
}
SERVERS = {"bootstrap.servers": "elsewhere:9092"}


def of(client: str, settings: dict[str, str]) -> dict[str, str]:
    return {f"{client}.override.{name}": value for name, value in settings.items()}


def connector(config: dict[str, str]) -> Connector:
    spec = {"workerRef": {"name": "lake"}, "class": "x", "config": config}
    return Connector.model_validate({"metadata": {"name": "a"}, "spec": spec})


@pytest.mark.parametrize("client", CLIENTS)
def test_other_brokers_need_a_login_of_their_own(client: str) -> None:
    assert override_problem(of(client, {**SERVERS, **LOGIN})) == ""
    for count in range(len(LOGIN)):
        for some in combinations(LOGIN.items(), count):
            said = override_problem(of(client, {**SERVERS, **dict(some)}))
            missing = next(name for name in LOGIN if name not in dict(some))
            assert f"without {client}.override.{missing}, so that the worker's credentials" in said
            assert f"set {client}.override.{missing}, too, or remove {client}.override.bootstrap" in said
    others = {name: value for name, value in of("admin", LOGIN).items() if client != "admin"}
    assert override_problem({**of(client, SERVERS), **others}) != "", "each client has its own login"


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SSL", " plaintext "])
def test_without_a_login_nothing_is_shown(protocol: str) -> None:
    assert override_problem(of("producer", {**SERVERS, "security.protocol": protocol})) == ""


@pytest.mark.parametrize(
    "setting",
    [
        {"security.protocol": "SASL_PLAINTEXT"},
        {"sasl.mechanism": "PLAIN"},
        {"sasl.login.callback.handler.class": "x.Y"},
        {"sasl.client.callback.handler.class": "x.Y"},
        {"sasl.oauthbearer.token.endpoint.url": "http://elsewhere"},
        {"ssl.engine.factory.class": "x.Y"},
    ],
)
def test_another_way_to_the_same_brokers_needs_another_login(setting: dict[str, str]) -> None:
    assert "without consumer.override.sasl.jaas.config" in override_problem(of("consumer", setting))
    own = {**setting, "sasl.jaas.config": "x required;"}
    assert override_problem(of("consumer", own)) == ""


def test_other_overrides_need_nothing() -> None:
    assert override_problem(of("producer", {"acks": "all", "sasl.jaas.config": "x required;"})) == ""
    assert override_problem({"sasl.mechanism": "PLAIN", "producer.linger.ms": "1"}) == ""


@pytest.mark.parametrize("value", ["${cooperator-files:/etc/x:password}", "a${cooperator-env:POD_IP}b"])
def test_the_operators_own_providers_are_not_for_connectors(value: str) -> None:
    with pytest.raises(ValueError, match=r"operator's own provider cooperator-… in 'transforms.a.static"):
        connector({"transforms.a.static.value": value})


def test_a_connector_that_would_show_them_is_refused_with_the_remedy() -> None:
    with pytest.raises(ValueError, match=r"set producer\.override\.security\.protocol, too, or remove"):
        connector(of("producer", SERVERS))
