"""A Worker's ``spec.kafka`` and the contents of its Secrets as settings of the Kafka clients.

Pure, except for ``write_material``. No error shows the contents of a Secret.
"""

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from cooperator.crd.kafka import CaReference, Kafka, OAuthBearer, Sasl, SecretReference, SecurityProtocol
from cooperator.oauthbearer import MECHANISM, OAuthLogin, Tokens

CERTIFICATE_KEY: Final = "tls.crt"
PRIVATE_KEY: Final = "tls.key"
"""The key names in Secrets of type kubernetes.io/tls."""

Secrets = Mapping[str, Mapping[str, bytes]]
"""Secret to key to value. Missing Secrets are absent."""


class SecretProblem(ValueError):
    """A Secret lacks what spec.kafka refers to. Names field, Secret, key and remedy, never the value."""


@dataclass(frozen=True, slots=True)
class Security:
    """Security settings of a Kafka client.

    ``settings``: by kafka-python's names, which both the group and the logs accept. ``material``: contents of
    the files that the settings name; write them before use.
    """

    settings: Mapping[str, Any] = field(default_factory=dict, repr=False)
    material: Mapping[Path, bytes] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class OwnToken:
    """The projected ServiceAccount token of this process's pod, for brokers that expect ``audience``."""

    path: Path
    audience: str


def secret_names(kafka: Kafka) -> frozenset[str]:
    """The Secrets that it refers to."""
    tls = kafka.tls
    oauth = kafka.sasl and kafka.sasl.oauthbearer
    references = (
        kafka.sasl and kafka.sasl.secret_ref,
        oauth and oauth.ca_secret_ref,
        tls and tls.ca_secret_ref,
        tls and tls.certificate_secret_ref,
    )
    return frozenset(reference.name for reference in references if reference)


def security_of(kafka: Kafka, secrets: Secrets, folder: Path, own_token: OwnToken | None = None) -> Security:
    """The security settings of a client in the operator. Raises SecretProblem.

    ``own_token`` logs in where members use their ServiceAccounts; None: these brokers must not get it.
    File names in ``folder`` are derived from the contents, so that other certificates make other settings.
    """
    material: dict[Path, bytes] = {}

    def placed(value: bytes) -> Path:
        path = folder / f"{hashlib.sha256(value).hexdigest()[:32]}.pem"
        material[path] = value
        return path

    username = password = ""
    token_url, token_ca = "", None
    if kafka.sasl is not None and kafka.sasl.secret_ref is not None:
        username, password = _credentials(kafka.sasl, kafka.sasl.secret_ref, secrets)
    if kafka.sasl is not None and (oauth := kafka.sasl.oauthbearer) is not None:
        token_url = _token_url(oauth, own_token)
        if oauth.ca_secret_ref is not None:
            field_name = "spec.kafka.sasl.oauthbearer.caSecretRef"
            token_ca = placed(_authorities(oauth.ca_secret_ref, secrets, field_name))
    ca = certificate = key = None
    verify_hostname = True
    if kafka.tls is not None:
        verify_hostname = kafka.tls.verify_hostname
        if kafka.tls.ca_secret_ref is not None:
            ca = placed(_authorities(kafka.tls.ca_secret_ref, secrets, "spec.kafka.tls.caSecretRef"))
        if kafka.tls.certificate_secret_ref is not None:
            pair = _certificate(kafka.tls.certificate_secret_ref, secrets)
            certificate, key = placed(pair[0]), placed(pair[1])
    settings = client_settings(
        kafka.security_protocol,
        mechanism=kafka.sasl.mechanism.value if kafka.sasl else "",
        username=username,
        password=password,
        ca_file=ca,
        certificate_file=certificate,
        key_file=key,
        verify_hostname=verify_hostname,
        token_endpoint_url=token_url,
        scope=(kafka.sasl and kafka.sasl.oauthbearer and kafka.sasl.oauthbearer.scope) or "",
        token_ca_file=token_ca,
    )
    return Security(settings, material)


def client_settings(
    protocol: SecurityProtocol,
    *,
    mechanism: str = "",
    username: str = "",
    password: str = "",
    ca_file: Path | None = None,
    certificate_file: Path | None = None,
    key_file: Path | None = None,
    verify_hostname: bool = True,
    token_endpoint_url: str = "",
    scope: str = "",
    token_ca_file: Path | None = None,
) -> Mapping[str, Any]:
    """Settings by kafka-python's names; empty for PLAINTEXT.

    With OAUTHBEARER, name and password are client id and client secret. Raises ValueError for settings of
    OAUTHBEARER that are invalid.
    """
    if protocol is SecurityProtocol.PLAINTEXT:
        return {}
    settings: dict[str, Any] = {"security_protocol": protocol.value}
    if protocol.authenticated:
        settings["sasl_mechanism"] = mechanism
        if mechanism == MECHANISM:
            ca = str(token_ca_file.absolute()) if token_ca_file is not None else ""
            login = OAuthLogin(token_endpoint_url, username, password, scope, ca)
            settings["sasl_oauth_token_provider"] = Tokens.of(login)
        else:
            settings["sasl_plain_username"] = username
            settings["sasl_plain_password"] = password
    if protocol.encrypted:
        settings["ssl_check_hostname"] = verify_hostname
        files = {"ssl_cafile": ca_file, "ssl_certfile": certificate_file, "ssl_keyfile": key_file}
        settings |= {name: str(path.absolute()) for name, path in files.items() if path is not None}
    return settings


def text_of(value: bytes) -> str:
    """A name or a password, without the trailing line end that editors and ``echo`` add.

    Raises ValueError, without the value, when it is empty or not UTF-8.
    """
    try:
        text = value.decode().rstrip("\r\n")
    except UnicodeDecodeError:
        raise ValueError("is not UTF-8 text") from None
    if not text:
        raise ValueError("is empty")
    return text


def write_material(security: Security) -> None:
    """Write the files, readable by this user only (0600). An existing file already has these contents."""
    for path, value in security.material.items():
        if path.exists():
            continue
        part = path.with_suffix(".part")
        part.unlink(missing_ok=True)
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(value)
        part.replace(path)


def _token_url(oauth: OAuthBearer, own_token: OwnToken | None) -> str:
    wanted = oauth.service_account_token
    if wanted is None:
        return oauth.token_endpoint_url or ""
    field_name = "spec.kafka.sasl.oauthbearer.serviceAccountToken"
    if own_token is None:
        raise SecretProblem(
            f"{field_name}: the operator has no token for these brokers: set the chart's value "
            "kafka.serviceAccountToken.audience, and use the chart's bootstrapServers"
        )
    if own_token.audience != wanted.audience:
        raise SecretProblem(
            f"{field_name}.audience is {wanted.audience!r}, and the operator's own token is for "
            f"{own_token.audience!r}: use this one, or change the chart's value "
            "kafka.serviceAccountToken.audience"
        )
    return own_token.path.absolute().as_uri()


def _credentials(sasl: Sasl, reference: SecretReference, secrets: Secrets) -> tuple[str, str]:
    field_name = "spec.kafka.sasl.secretRef"

    def text(key_field: str, key: str) -> str:
        value = _value(secrets, field_name, reference.name, key, f"spec.kafka.sasl.{key_field}")
        try:
            return text_of(value)
        except ValueError as error:
            raise SecretProblem(
                f"{field_name}: key {key!r} of Secret {reference.name!r} {error}: put the text there"
            ) from None

    return text("usernameKey", sasl.username_key), text("passwordKey", sasl.password_key)


def _authorities(reference: CaReference, secrets: Secrets, field_name: str) -> bytes:
    return _pem(secrets, field_name, reference.name, reference.key, f"{field_name}.key")


def _certificate(reference: SecretReference, secrets: Secrets) -> tuple[bytes, bytes]:
    field_name = "spec.kafka.tls.certificateSecretRef"
    certificate, key = (
        _pem(secrets, field_name, reference.name, key, "") for key in (CERTIFICATE_KEY, PRIVATE_KEY)
    )
    return certificate, key


def _pem(secrets: Secrets, field_name: str, name: str, key: str, key_field: str) -> bytes:
    value = _value(secrets, field_name, name, key, key_field)
    if b"-----BEGIN " not in value:
        raise SecretProblem(
            f"{field_name}: key {key!r} of Secret {name!r} is not PEM text: store a PEM certificate there"
        )
    return value


def _value(secrets: Secrets, field_name: str, name: str, key: str, key_field: str) -> bytes:
    secret = secrets.get(name)
    if secret is None:
        raise SecretProblem(
            f"{field_name}: there is no Secret {name!r} in the Worker's namespace: create it with the key "
            f"{key!r}, or name another one"
        )
    if key not in secret:
        other = f", or name another key in {key_field}" if key_field else ""
        raise SecretProblem(f"{field_name}: Secret {name!r} has no key {key!r}: add it{other}")
    return secret[key]
