"""Connectors' access to Kafka: their Worker's, or their own; invalid combinations are refused."""

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cooperator.connectors import delivery, find, validate
from cooperator.connectors.access import KafkaOptions, of_librdkafka, of_spark
from cooperator.connectors.bounds import allowed_options
from cooperator.connectors.kafka_to_kafka import KafkaToKafkaOptions
from cooperator.connectors.options import OptionError, resolved_options
from cooperator.connectors.pipeline_options import PipelineOptions
from cooperator.connectors.references import Resolver, UnresolvedReference
from cooperator.oauthbearer import OAuthLogin, Tokens

PASSWORD = 'se"same\\'
WORKER: dict[str, Any] = {
    "security_protocol": "SASL_SSL",
    "sasl_mechanism": "SCRAM-SHA-512",
    "sasl_plain_username": "ada",
    "sasl_plain_password": PASSWORD,
    "ssl_check_hostname": False,
}
COPY = {"connector.class": "kafka-to-kafka", "topics": "in", "topic": "out"}
ENVIRONMENT = {"EVE": "barley"}


def options(config: Mapping[str, str], worker: Mapping[str, Any] = WORKER) -> KafkaOptions:
    resolver = Resolver(ENVIRONMENT, frozenset(ENVIRONMENT), (), "kafka:9093", worker)
    return resolved_options(KafkaToKafkaOptions, {**COPY, **config}, resolver)[0]


def test_a_connector_has_its_workers_access_by_default() -> None:
    assert of_librdkafka(options({})) == {
        "bootstrap.servers": "kafka:9093",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "ada",
        "sasl.password": PASSWORD,
        "ssl.endpoint.identification.algorithm": "none",
    }


def test_spark_gets_the_same_access_as_java_properties() -> None:
    assert of_spark(options({})) == {
        "kafka.bootstrap.servers": "kafka:9093",
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "SCRAM-SHA-512",
        "kafka.sasl.jaas.config": (
            "org.apache.kafka.common.security.scram.ScramLoginModule required "
            'username="ada" password="se\\"same\\\\";'
        ),
        "kafka.ssl.endpoint.identification.algorithm": "",
    }


def test_without_security_of_the_worker_none_is_set() -> None:
    assert of_librdkafka(options({}, {})) == {"bootstrap.servers": "kafka:9093"}
    assert of_spark(options({}, {})) == {"kafka.bootstrap.servers": "kafka:9093"}


@pytest.mark.parametrize(
    "config", [{"bootstrap.servers": "kafka:9093"}, {"bootstrap.servers": "${worker.bootstrap.servers}"}]
)
def test_naming_the_workers_own_brokers_changes_nothing(config: dict[str, str]) -> None:
    assert of_librdkafka(options(config)) == of_librdkafka(options({}))


def test_other_brokers_do_not_get_the_workers_credentials() -> None:
    elsewhere = options({"bootstrap.servers": "elsewhere:9092"})
    assert of_librdkafka(elsewhere) == {"bootstrap.servers": "elsewhere:9092"}
    assert PASSWORD not in repr(of_spark(elsewhere))


def test_another_user_name_has_its_own_password_and_the_workers_other_settings() -> None:
    settings = of_librdkafka(options({"sasl.username": "eve", "sasl.password": "${env:EVE}"}))
    assert (settings["sasl.username"], settings["sasl.password"]) == ("eve", "barley")
    assert (settings["security.protocol"], settings["sasl.mechanism"]) == ("SASL_SSL", "SCRAM-SHA-512")


OWN = {
    name: f"${{worker.{name}}}"
    for name in ("security.protocol", "sasl.mechanism", "sasl.username", "sasl.password")
}


@pytest.mark.parametrize(
    "way",
    [
        {"bootstrap.servers": "mirror:9093"},
        {"bootstrap.servers": "kafka:9093,mirror:9093"},
        {"security.protocol": "SASL_PLAINTEXT"},
        {"sasl.mechanism": "PLAIN"},
    ],
)
def test_the_workers_credentials_are_not_shown_in_another_way_than_its_own(way: dict[str, str]) -> None:
    assert of_librdkafka(options(OWN))["sasl.password"] == PASSWORD
    with pytest.raises(
        OptionError, match=r"'sasl.password' = .*would show the Worker's credentials.*\$\{env:"
    ):
        options({**OWN, **way})


REFERENCES = [f"${{worker.{name}}}" for name in ("sasl.username", "sasl.password", "ssl.key.location")]


@pytest.mark.parametrize("reference", REFERENCES)
@pytest.mark.parametrize(
    ("class_name", "option"),
    [
        ("noop", "start.failure"),
        ("noop", "journal"),
        ("kafka-to-kafka", "topic"),
        ("kafka-to-kafka", "ssl.ca.location"),
        ("kafka-to-kafka", "transform.sql"),
        ("kafka-to-files", "path"),
        ("kafka-to-files", "schema.registry.url"),
        ("kafka-to-files", "schema.registry.basic.auth.user.info"),
        ("kafka-to-postgres", "connection.url"),
        ("kafka-to-postgres", "connection.user"),
        ("kafka-to-postgres", "connection.password"),
        ("spark", "source.options.path"),
        ("spark", "source.options.kafka.sasl.jaas.config"),
        ("spark", "sink.options.topic"),
        ("spark", "units"),
    ],
)
def test_the_workers_credentials_are_values_of_the_options_of_access_alone(
    class_name: str, option: str, reference: str
) -> None:
    config = {"connector.class": class_name, option: f"a {reference}"}
    said = f"uses {reference}, which only option {reference[9:-1]} may be"
    assert said in " ".join(str(problem) for problem in validate(class_name, config))
    resolver = Resolver({}, bootstrap_servers="kafka:9093", security=WORKER)
    with pytest.raises(OptionError) as error:
        resolved_options(find(class_name).options, config, resolver)
    assert said in str(error.value)


def test_a_reference_to_the_workers_password_is_the_whole_value() -> None:
    config = {**COPY, "sasl.password": "x${worker.sasl.password}"}
    assert "which only option sasl.password may be" in str(validate("kafka-to-kafka", config)[0])
    assert validate("kafka-to-kafka", {**COPY, "sasl.password": "${worker.sasl.password}"}) == []


def test_certificates_are_files_here_and_their_contents_for_spark(tmp_path: Path) -> None:
    files = {}
    for name in ("ca", "certificate", "key"):
        (tmp_path / name).write_text(f"-----BEGIN {name}-----")
        files[f"ssl.{name}.location"] = str(tmp_path / name)
    shown = options({"bootstrap.servers": "b:1", "security.protocol": "SSL", **files})
    assert of_librdkafka(shown) == {"bootstrap.servers": "b:1", "security.protocol": "SSL", **files}
    assert of_spark(shown) == {
        "kafka.bootstrap.servers": "b:1",
        "kafka.security.protocol": "SSL",
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.certificates": "-----BEGIN ca-----",
        "kafka.ssl.keystore.type": "PEM",
        "kafka.ssl.keystore.certificate.chain": "-----BEGIN certificate-----",
        "kafka.ssl.keystore.key": "-----BEGIN key-----",
    }
    (tmp_path / "ca").unlink()
    for made in (of_librdkafka, of_spark):
        with pytest.raises(OptionError, match=r"'ssl.ca.location' = .*No such file.*put it there on every m"):
            made(shown)


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (
            {"security.protocol": "TLS"},
            "option 'security.protocol' = 'TLS': is unknown; use one of PLAINTEXT, SSL, "
            "SASL_PLAINTEXT, SASL_SSL",
        ),
        (
            {"security.protocol": "SASL-SLL"},
            "option 'security.protocol' = 'SASL-SLL': is unknown; did you mean 'SASL_SSL'? "
            "use one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL",
        ),
        (
            {"sasl.mechanism": "GSSAPI"},
            "option 'sasl.mechanism' = 'GSSAPI': is unknown; use one of PLAIN, SCRAM-SHA-256, "
            "SCRAM-SHA-512, OAUTHBEARER",
        ),
        (
            {"sasl.username": "eve", "sasl.password": "barley"},
            "option 'sasl.password' = '***': would be stored in clear text in Kafka; write ${file:/path:KEY} "
            "or "
            "${env:NAME}",
        ),
        (
            {"bootstrap.servers": "b:1", "security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"},
            "option 'sasl.username': is required by security.protocol SASL_SSL; set the user name, or remove "
            "bootstrap.servers to use the Worker's access",
        ),
        (
            {"security.protocol": "SASL_SSL", "sasl.username": "eve"},
            "option 'sasl.password': is required by security.protocol SASL_SSL; set a reference to the "
            "password, or remove bootstrap.servers to use the Worker's access",
        ),
        (
            {"ssl.certificate.location": "/c.pem"},
            "option 'ssl.key.location': is required, too; set both certificate and key, or neither",
        ),
    ],
)
def test_incomplete_access_is_refused_when_it_is_applied(config: dict[str, str], said: str) -> None:
    assert [str(problem) for problem in validate("kafka-to-kafka", {**COPY, **config})] == [said]


def test_delivery_is_known_before_references_are_resolved() -> None:
    promised = delivery("kafka-to-kafka", COPY)
    assert promised is not None
    assert promised.level.value == "ExactlyOnce"


def test_the_workers_password_is_redacted_in_messages_also_in_quotes() -> None:
    resolver = Resolver({}, bootstrap_servers="b:1", security=WORKER)
    resolved = resolver.resolve({name: f"${{worker.{name}}}" for name in ("sasl.password", "sasl.username")})
    assert resolved.scrub('ada: se"same\\ or "se\\"same\\\\"') == 'ada: *** or "***"'
    assert PASSWORD not in repr(resolver)


def test_a_missing_setting_of_the_worker_is_refused_by_name() -> None:
    with pytest.raises(
        UnresolvedReference, match=r"\$\{worker.sasl.token\} is not a reference; .*sasl.username"
    ):
        Resolver({}).resolve({"sasl.password": "${worker.sasl.token}"})


def test_the_class_spark_has_the_workers_access_unless_brokers_are_named() -> None:
    config = {"connector.class": "spark", "source.format": "kafka", "sink.format": "console"}
    config["source.options.subscribe"] = "in"
    resolver = Resolver({}, frozenset(), (), "kafka:9093", WORKER)
    made = resolved_options(PipelineOptions, config, resolver)[0]
    given = {"subscribe": "in"}
    assert made.with_access("kafka", given) == {**of_spark(made), "subscribe": "in"}
    assert made.with_access("json", given) == given
    own = {**given, "kafka.bootstrap.servers": "elsewhere:9092"}
    assert made.with_access("kafka", own) == own


@pytest.mark.parametrize("name", ["kafka.security.protocol", "Kafka.SASL.mechanism", "kafka.ssl.protocol"])
@pytest.mark.parametrize("where", ["source", "sink", "units"])
def test_options_of_a_format_change_nothing_of_the_workers_access(name: str, where: str) -> None:
    config = {"connector.class": "spark", "source.format": "kafka", "sink.format": "kafka"}
    config["source.options.subscribe"] = "a"
    option = f"{'source' if where == 'units' else where}.options.{name}"
    more = {"units": json.dumps([{option: "x"}])} if where == "units" else {option: "x"}
    [problem] = validate("spark", {**config, **more})
    assert problem.option == ("units" if where == "units" else option)
    assert "would change the connector's own access to Kafka" in problem.problem
    servers = {f"{option.partition('.')[0]}.options.kafka.bootstrap.servers": "b:1"}
    assert validate("spark", {**config, **more, **servers}) == []


# --- OAUTHBEARER


def of_spark_login(options: KafkaOptions) -> str:
    """The login of Java's clients, without the files of authorities."""
    return of_spark(options.model_copy(update={"oauth_ca": ""}))["kafka.sasl.jaas.config"]


ENDPOINT = "https://idp.example/token"
TOKENS = Tokens.of(OAuthLogin(ENDPOINT, "lake", PASSWORD, "kafka"))
BY_TOKENS = {
    "security_protocol": "SASL_SSL",
    "sasl_mechanism": "OAUTHBEARER",
    "sasl_oauth_token_provider": TOKENS,
}
URL = "sasl.oauthbearer.token.endpoint.url"
SECRET = "sasl.oauthbearer.client.secret"


def test_a_connector_has_its_workers_source_of_tokens_by_default() -> None:
    assert of_librdkafka(options({}, BY_TOKENS)) == {
        "bootstrap.servers": "kafka:9093",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.method": "oidc",
        URL: ENDPOINT,
        "sasl.oauthbearer.client.id": "lake",
        SECRET: PASSWORD,
        "sasl.oauthbearer.scope": "kafka",
    }
    spark = of_spark(options({}, BY_TOKENS))
    assert spark[f"kafka.{URL}"] == ENDPOINT
    assert spark["kafka.sasl.login.callback.handler.class"].endswith(".OAuthBearerLoginCallbackHandler")
    assert 'clientSecret="se\\"same\\\\"' in spark["kafka.sasl.jaas.config"]


def test_a_connector_has_its_workers_token_file_by_default() -> None:
    file = Tokens.of(OAuthLogin("file:///etc/cooperator/kafka/token/token"))
    inherited = options({}, {**BY_TOKENS, "sasl_oauth_token_provider": file})
    assert of_librdkafka(inherited)["oauth_cb"] is file
    spark = of_spark(inherited)
    assert spark[f"kafka.{URL}"] == file.login.token_endpoint_url
    # Kafka's own handler reads a file once, in the release that Spark has.
    assert spark["kafka.sasl.login.callback.handler.class"] == "dev.cooperator.spark.TokenFileLogin"


def test_the_workers_token_file_is_not_opened_by_another_name() -> None:
    resolver = Resolver({}, bootstrap_servers="kafka:9093", security=BY_TOKENS)
    other = {**COPY, URL: "file:///etc/cooperator/kafka/token/token"}
    with pytest.raises(OptionError, match=f"{URL}.*is not a path that the Worker allows"):
        allowed_options(KafkaToKafkaOptions, other, resolver)
    allowed_options(KafkaToKafkaOptions, COPY, replace(resolver, allowed_paths=("/data",)))


OTHER_WAYS = {
    "another endpoint": {URL: "https://mirror.example/token"},
    "another authority of the endpoint": {"https.ca.location": "/tmp/ca.crt"},
    "another client": {"sasl.oauthbearer.client.id": "eve"},
    "other brokers": {"bootstrap.servers": "mirror:9093"},
    "without encryption": {"security.protocol": "SASL_PLAINTEXT"},
}


@pytest.mark.parametrize("way", OTHER_WAYS.values(), ids=OTHER_WAYS)
def test_the_workers_client_secret_goes_to_its_own_endpoint_only(way: dict[str, str]) -> None:
    asked = {SECRET: f"${{worker.{SECRET}}}", URL: f"${{worker.{URL}}}"}
    asked["sasl.oauthbearer.client.id"] = "${worker.sasl.oauthbearer.client.id}"
    with pytest.raises(OptionError, match="would show the Worker's credentials"):
        options({**asked, **way}, BY_TOKENS)
    own = {"sasl.oauthbearer.client.id": "eve", SECRET: "${env:EVE}", URL: ENDPOINT}
    own |= {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}
    with_own_secret = options({**own, **way}, BY_TOKENS)
    assert (with_own_secret.oauth_client_secret, PASSWORD in repr(of_spark_login(with_own_secret))) == (
        "barley",
        False,
    )


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({}, f"option '{URL}': is required by security.protocol SASL_SSL; set the URL of the token endpoint"),
        ({URL: ENDPOINT}, "option 'sasl.oauthbearer.client.id': is required by .*; set the client id"),
        (
            {URL: ENDPOINT, "sasl.oauthbearer.client.id": "eve"},
            f"option '{SECRET}': is required by .*; set a reference to the client secret",
        ),
        ({URL: "idp"}, f"option '{URL}' = 'idp': is not the URL of a token endpoint; use https://HOST/PATH"),
        ({SECRET: "barley"}, rf"option '{SECRET}' = '\*\*\*': would be stored in clear text"),
    ],
)
def test_an_incomplete_source_of_tokens_is_refused_when_it_is_applied(
    config: dict[str, str], said: str
) -> None:
    elsewhere = {"bootstrap.servers": "b:1", "security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}
    problems = [str(problem) for problem in validate("kafka-to-kafka", {**COPY, **elsewhere, **config})]
    assert any(re.match(said, problem) for problem in problems), problems
