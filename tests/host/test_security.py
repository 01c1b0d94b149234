"""spec.kafka and its Secrets as the settings of both Kafka clients."""

from pathlib import Path
from typing import Any

import pytest

from cooperator.crd.kafka import Kafka
from cooperator.group import GroupConfig
from cooperator.host.security import (
    OwnToken,
    SecretProblem,
    Security,
    secret_names,
    security_of,
    text_of,
    write_material,
)
from cooperator.logs.kafka.settings import client_settings as of_librdkafka
from cooperator.oauthbearer import OAuthLogin, Tokens
from cooperator.wire import Role

FOLDER = Path("/material")
PEM = b"-----BEGIN CERTIFICATE-----\nMII\n-----END CERTIFICATE-----\n"
SECRETS = {
    "login": {"username": b"ada\n", "password": b"open sesame\n", "other": b"another"},
    "authority": {"ca.crt": PEM},
    "shown": {"tls.crt": PEM + b"shown", "tls.key": b"-----BEGIN PRIVATE KEY-----\n"},
}
SASL = {"mechanism": "SCRAM-SHA-512", "secretRef": {"name": "login"}}
TLS = {"caSecretRef": {"name": "authority"}, "certificateSecretRef": {"name": "shown"}}


def kafka(protocol: str, **parts: Any) -> Kafka:
    return Kafka.model_validate({"securityProtocol": protocol, **parts})


def test_without_security_nothing_is_set() -> None:
    assert security_of(Kafka(), {}, FOLDER) == Security()
    assert secret_names(Kafka()) == frozenset()


def test_a_name_and_a_password_without_the_line_ends_of_editors() -> None:
    wanted = kafka("SASL_PLAINTEXT", sasl=SASL)
    assert secret_names(wanted) == {"login"}
    assert security_of(wanted, SECRETS, FOLDER) == Security(
        {
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": "SCRAM-SHA-512",
            "sasl_plain_username": "ada",
            "sasl_plain_password": "open sesame",
        }
    )


ENDPOINT = "https://idp.example/token"
OAUTH = {
    "mechanism": "OAUTHBEARER",
    "secretRef": {"name": "login"},
    "oauthbearer": {"tokenEndpointUrl": ENDPOINT, "scope": "kafka", "caSecretRef": {"name": "authority"}},
}
PROJECTED = {
    "mechanism": "OAUTHBEARER",
    "oauthbearer": {"serviceAccountToken": {"audience": "kafka"}},
}


def test_client_credentials_are_a_source_of_tokens_for_both_clients() -> None:
    wanted = kafka("SASL_SSL", sasl=OAUTH)
    assert secret_names(wanted) == {"login", "authority"}
    made = security_of(wanted, SECRETS, FOLDER)
    [ca] = made.material
    login = OAuthLogin(ENDPOINT, "ada", "open sesame", "kafka", str(ca))
    assert made.material[ca] == SECRETS["authority"]["ca.crt"]
    assert made.settings["sasl_oauth_token_provider"] == Tokens(login)
    assert "open sesame" not in repr(made.settings)
    assert of_librdkafka(made.settings)["sasl.oauthbearer.client.secret"] == "open sesame"
    GroupConfig("k:9092", "lake", "c", Role.WORKER, security=made.settings)


def test_the_operator_logs_in_with_its_own_token_where_members_use_theirs() -> None:
    wanted = kafka("SASL_SSL", sasl=PROJECTED)
    assert secret_names(wanted) == frozenset()
    settings = security_of(wanted, {}, FOLDER, OwnToken(Path("/t/token"), "kafka")).settings
    assert settings["sasl_oauth_token_provider"] == Tokens(OAuthLogin("file:///t/token"))


@pytest.mark.parametrize(
    ("own_token", "said"),
    [
        (None, r"the operator has no token for these brokers: set the chart's value"),
        (
            OwnToken(Path("/t/token"), "others"),
            r"audience is 'kafka', and the operator's own token is for 'others'",
        ),
    ],
)
def test_without_a_fitting_token_of_its_own_the_operator_says_what_to_set(
    own_token: OwnToken | None, said: str
) -> None:
    with pytest.raises(SecretProblem, match=rf"^spec.kafka.sasl.oauthbearer.serviceAccountToken.*{said}"):
        security_of(kafka("SASL_SSL", sasl=PROJECTED), {}, FOLDER, own_token)


def test_other_keys_of_the_secret_can_be_named() -> None:
    wanted = kafka("SASL_PLAINTEXT", sasl={**SASL, "usernameKey": "other", "passwordKey": "other"})
    settings = security_of(wanted, SECRETS, FOLDER).settings
    assert (settings["sasl_plain_username"], settings["sasl_plain_password"]) == ("another", "another")


def test_certificates_are_files_that_are_named_after_their_contents() -> None:
    wanted = kafka("SSL", tls={**TLS, "verifyHostname": False})
    assert secret_names(wanted) == {"authority", "shown"}
    made = security_of(wanted, SECRETS, FOLDER)
    read = {name: made.material[Path(made.settings[name])] for name in made.settings if "file" in name}
    assert read == {
        "ssl_cafile": SECRETS["authority"]["ca.crt"],
        "ssl_certfile": SECRETS["shown"]["tls.crt"],
        "ssl_keyfile": SECRETS["shown"]["tls.key"],
    }
    assert made.settings["ssl_check_hostname"] is False
    renewed = {**SECRETS, "shown": {**SECRETS["shown"], "tls.crt": PEM + b"renewed"}}
    again = security_of(wanted, renewed, FOLDER).settings
    assert {name for name in again if again[name] != made.settings[name]} == {"ssl_certfile"}


@pytest.mark.parametrize(
    ("protocol", "parts"),
    [("SASL_PLAINTEXT", {"sasl": SASL}), ("SSL", {}), ("SSL", {"tls": TLS}), ("SASL_SSL", {"sasl": SASL})],
)
def test_both_clients_know_every_setting(protocol: str, parts: dict[str, Any]) -> None:
    settings = security_of(kafka(protocol, **parts), SECRETS, FOLDER).settings
    GroupConfig("k:9092", "lake", "c", Role.WORKER, security=settings)
    assert of_librdkafka(settings)["security.protocol"] == protocol
    assert len(of_librdkafka(settings)) == len(settings)


@pytest.mark.parametrize(
    ("protocol", "parts", "secrets", "said"),
    [
        ("SASL_SSL", {"sasl": SASL}, {}, ("spec.kafka.sasl.secretRef", "no Secret 'login'", "create it")),
        (
            "SASL_SSL",
            {"sasl": SASL},
            {"login": {"username": b"ada", "pass": b"sesame"}},
            ("spec.kafka.sasl.secretRef", "'login' has no key 'password'", "spec.kafka.sasl.passwordKey"),
        ),
        (
            "SASL_SSL",
            {"sasl": SASL},
            {"login": {"username": b"ada", "password": b"\n"}},
            ("'password' of Secret 'login' is empty", "put the text there"),
        ),
        (
            "SASL_SSL",
            {"sasl": SASL},
            {"login": {"username": b"ada", "password": b"sesame\xff"}},
            ("'password' of Secret 'login' is not UTF-8 text",),
        ),
        ("SSL", {"tls": TLS}, {}, ("spec.kafka.tls.caSecretRef", "no Secret 'authority'", "'ca.crt'")),
        (
            "SSL",
            {"tls": TLS},
            {"authority": {"ca.crt": b"sesame"}},
            ("key 'ca.crt' of Secret 'authority' is not PEM text",),
        ),
        (
            "SSL",
            {"tls": TLS},
            {**SECRETS, "shown": {"tls.crt": PEM}},
            ("spec.kafka.tls.certificateSecretRef", "'shown' has no key 'tls.key': add it"),
        ),
    ],
)
def test_a_missing_key_is_named_without_the_secrets_contents(
    protocol: str, parts: dict[str, Any], secrets: dict[str, dict[str, bytes]], said: tuple[str, ...]
) -> None:
    with pytest.raises(SecretProblem) as problem:
        security_of(kafka(protocol, **parts), secrets, FOLDER)
    assert all(word in str(problem.value) for word in said), problem.value
    assert "sesame" not in str(problem.value)


def test_settings_are_not_shown() -> None:
    made = security_of(kafka("SASL_SSL", sasl=SASL, tls=TLS), SECRETS, FOLDER)
    assert "sesame" not in repr(made)
    assert "BEGIN" not in repr(made)


def test_files_are_for_their_owner_only(tmp_path: Path) -> None:
    made = security_of(kafka("SSL", tls=TLS), SECRETS, tmp_path)
    write_material(made)
    write_material(made)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == made.material
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}


def test_a_text_keeps_its_spaces() -> None:
    assert text_of(b" open sesame \r\n") == " open sesame "
