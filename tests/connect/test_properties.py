"""A Worker as the settings of its stock workers: users' settings, the operator's, and the file format."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cooperator.connect.jvm import login_options
from cooperator.connect.log4j import LOG4J_1, LOG4J_2, logging_files
from cooperator.connect.properties import (
    COOPERATIVE,
    ENV,
    FILES,
    GROUP_PROTOCOL,
    POD,
    POD_PROVIDERS,
    STRATEGY,
    SecretFiles,
    WorkerAddress,
    properties_text,
    rolling,
    security_settings,
    worker_settings,
)
from cooperator.crd import Worker
from cooperator.crd.owned import OWNED

HERE = WorkerAddress("lake-0", "10.0.0.7", 8083)
SASL = {"mechanism": "SCRAM-SHA-512", "secretRef": {"name": "user"}}
SECRETS = SecretFiles(sasl="/s", ca="/c", certificate="/t")


def worker(connect: dict[str, Any] | None = None, **spec: Any) -> Worker:
    said = {"runtime": "connect", "connect": connect or {}, **spec}
    return Worker.model_validate(
        {
            "apiVersion": "cooperator.dev/v1alpha1",
            "kind": "Worker",
            "metadata": {"name": "lake", "namespace": "sea"},
            "spec": said,
        }
    )


def settings(made: Worker, place: WorkerAddress = HERE, **security: str) -> dict[str, str]:
    return worker_settings(made, "kafka:9092", place, security, POD_PROVIDERS)


def test_a_worker_knows_its_group_its_place_and_its_topics() -> None:
    made = settings(worker(heartbeatIntervalMs=1_000, sessionTimeoutMs=6_000, rebalanceTimeoutMs=20_000))

    assert made["bootstrap.servers"] == "kafka:9092"
    assert made["group.id"] == "cooperator-sea.lake"
    assert made["client.id"] == "lake-0"
    assert made["listeners"] == "http://0.0.0.0:8083"
    assert (made["rest.advertised.host.name"], made["rest.advertised.port"]) == ("10.0.0.7", "8083")
    assert [made[f"{kind}.storage.topic"] for kind in ("config", "offset", "status")] == [
        f"cooperator-sea.lake-{name}" for name in ("configs", "offsets", "status")
    ]
    assert (made["heartbeat.interval.ms"], made["session.timeout.ms"]) == ("1000", "6000")
    assert made["rebalance.timeout.ms"] == "20000"
    assert made["key.converter"] == made["value.converter"] == "org.apache.kafka.connect.json.JsonConverter"


def test_a_pod_takes_its_name_and_address_from_its_environment() -> None:
    made = settings(worker(), POD)

    assert made["client.id"] == f"${{{ENV}:POD_NAME}}"
    assert made["rest.advertised.host.name"] == f"${{{ENV}:POD_IP}}"
    assert made["config.providers"] == ENV
    assert re.fullmatch(made[f"config.providers.{ENV}.param.allowlist.pattern"], "POD_IP")


def test_settings_of_the_user_override_our_defaults() -> None:
    config = {
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "config.storage.replication.factor": 2,
        "config.providers": "vault, file",
        "config.providers.vault.class": "a.Vault",
        "producer.security.protocol": "PLAINTEXT",
    }

    made = settings(worker({"config": config}), **{"security.protocol": "SSL"})

    assert made["key.converter"] == config["key.converter"]
    assert made["config.storage.replication.factor"] == "2"
    assert made["config.providers"] == f"vault,file,{ENV}"
    assert made["config.providers.vault.class"] == "a.Vault"
    assert made["producer.security.protocol"] == "PLAINTEXT"
    assert made["consumer.security.protocol"] == made["security.protocol"] == "SSL"


def test_sinks_rebalance_cooperatively_unless_the_user_chooses() -> None:
    assert settings(worker())[f"consumer.{STRATEGY}"] == COOPERATIVE
    own = settings(worker({"config": {f"consumer.{STRATEGY}": "a.Own"}}))
    assert own[f"consumer.{STRATEGY}"] == "a.Own"
    for protocol in ("consumer", "classic"):
        chosen = settings(worker({"config": {f"consumer.{GROUP_PROTOCOL}": protocol}}))
        assert f"consumer.{STRATEGY}" not in chosen, "consumers of the new protocol refuse an assignor"


def test_the_topics_of_a_cluster_that_exists_are_its_own() -> None:
    topics = {"config": "connect-configs", "offset": "connect-offsets", "status": "connect-status"}

    made = settings(worker({"topics": topics}))

    assert [made[f"{kind}.storage.topic"] for kind in topics] == list(topics.values())


def test_every_reserved_setting_is_set_here_or_left_to_kafkas_default() -> None:
    made = settings(worker({"pluginPath": ["/a", "/b"]}), **security_settings(secured().spec.kafka, SECRETS))

    left = {name for name in OWNED if name not in made}
    assert left == {
        *(name for name in OWNED if name.startswith("inter.worker.")),
        "rest.advertised.listener",
        # Certificates are given as file names.
        "ssl.endpoint.identification.algorithm",
        "ssl.keystore.location",
        "ssl.truststore.certificates",
        # Only OAUTHBEARER has them.
        "sasl.login.callback.handler.class",
        "sasl.oauthbearer.token.endpoint.url",
    }
    assert made["plugin.path"] == "/a,/b"


def secured() -> Worker:
    tls = {"caSecretRef": {"name": "ca"}, "certificateSecretRef": {"name": "own"}}
    return worker(kafka={"securityProtocol": "SASL_SSL", "sasl": SASL, "tls": tls})


def test_secrets_are_written_as_references_only() -> None:
    made = security_settings(secured().spec.kafka, SECRETS)

    assert made["sasl.jaas.config"] == (
        "org.apache.kafka.common.security.scram.ScramLoginModule required "
        f'username="${{{FILES}:/s:username}}" password="${{{FILES}:/s:password}}";'
    )
    assert made["ssl.keystore.key"] == f"${{{FILES}:/t:tls.key}}"
    assert made["ssl.truststore.location"] == "/c/ca.crt"
    assert SECRETS.providers[FILES]["param.allowed.paths"] == "/s,/t"
    assert security_settings(worker().spec.kafka, SecretFiles()) == {}


OAUTH = {
    "mechanism": "OAUTHBEARER",
    "secretRef": {"name": "client"},
    "oauthbearer": {
        "tokenEndpointUrl": "https://idp.example/token",
        "scope": "kafka",
        "caSecretRef": {"name": "idp"},
    },
}
HANDLER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"


def test_a_worker_gets_its_tokens_by_references_to_client_id_and_secret() -> None:
    url = "https://idp.example/token"
    made = security_settings(
        worker(kafka={"securityProtocol": "SASL_SSL", "sasl": OAUTH}).spec.kafka,
        SecretFiles(sasl="/s", token_ca="/i", token_url=url),
    )
    assert made == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.jaas.config": (
            f'{MODULE} required clientId="${{{FILES}:/s:username}}" clientSecret="${{{FILES}:/s:password}}" '
            'scope="kafka" ssl.truststore.type="PEM" ssl.truststore.location="/i/ca.crt";'
        ),
        "sasl.login.callback.handler.class": HANDLER,
        "sasl.oauthbearer.token.endpoint.url": url,
    }
    assert login_options(url) == [
        "-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls=https://idp.example/token"
    ]


def test_a_worker_logs_in_by_the_token_of_its_pod() -> None:
    token = {"mechanism": "OAUTHBEARER", "oauthbearer": {"serviceAccountToken": {"audience": "kafka"}}}
    kafka = worker(kafka={"securityProtocol": "SASL_PLAINTEXT", "sasl": token}).spec.kafka
    made = security_settings(kafka, SecretFiles(token_url="file:///t/token"))

    assert made["sasl.jaas.config"] == f"{MODULE} required;"
    assert made["sasl.oauthbearer.token.endpoint.url"] == "file:///t/token"
    assert login_options("file:///t/token") == [
        "-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls=file:///t/token",
        "-Dorg.apache.kafka.sasl.oauthbearer.allowed.files=/t/token",
    ]


def test_host_name_verification_can_be_disabled() -> None:
    made = worker(kafka={"securityProtocol": "SSL", "tls": {"verifyHostname": False}})

    assert security_settings(made.spec.kafka, SecretFiles()) == {
        "security.protocol": "SSL",
        "ssl.endpoint.identification.algorithm": "",
    }


def test_a_delay_that_only_a_leading_worker_reads_replaces_no_worker() -> None:
    before, after = worker(), worker(scheduledRebalanceMaxDelayMs=7)

    assert settings(before) != settings(after)
    assert rolling(settings(before)) == rolling(settings(after))
    assert rolling(settings(before)) != rolling(settings(worker(sessionTimeoutMs=20_000)))


@pytest.mark.parametrize(
    ("file", "lines"),
    [
        (LOG4J_1, ("log4j.rootLogger=WARN, out", "log4j.logger.a.B=DEBUG")),
        (LOG4J_2, ("rootLogger.level=WARN", "logger.l0.name=a.B", "logger.l0.level=DEBUG")),
    ],
)
def test_levels_of_loggers_are_written_for_both_versions_of_log4j(file: str, lines: tuple[str, ...]) -> None:
    text = logging_files(worker({"logLevels": {"root": "WARN", "a.B": "DEBUG"}}))[file]

    assert set(lines) <= set(text.splitlines())


# --- file format


@given(st.dictionaries(st.text(min_size=1), st.text()))
def test_java_reads_the_settings_as_written(given_settings: dict[str, str]) -> None:
    text = properties_text(given_settings)

    assert text.isascii()
    assert dict(_read(line) for line in text.splitlines()) == given_settings


def _read(line: str) -> tuple[str, str]:
    """Parses a line as ``java.util.Properties.load`` does."""
    assert line.lstrip(" \t\f") == line, "Java would skip this line"
    assert line[0] not in "#!"
    match = re.match(r"((?:\\.|[^\\=: \t\f])*)[ \t\f]*[=:]?[ \t\f]*(.*)\Z", line)
    assert match is not None
    return _plain(match[1]), _plain(match[2])


def _plain(text: str) -> str:
    def one(match: re.Match[str]) -> str:
        word = match[1]
        if word[0] == "u":
            return chr(int(word[1:], 16))
        return {"n": "\n", "r": "\r", "t": "\t", "f": "\f"}.get(word, word)

    units = re.sub(r"\\(u[0-9a-f]{4}|.)", one, text)
    return units.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
