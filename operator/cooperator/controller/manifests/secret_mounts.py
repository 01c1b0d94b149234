"""The Secrets and the token of ``spec.kafka`` as files of a member, and the options that name them. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Final

from cooperator.crd.kafka import Kafka, OAuthBearer
from cooperator.host.security import CERTIFICATE_KEY, PRIVATE_KEY

_ROOT: Final = PurePosixPath("/etc/cooperator/kafka")
SASL: Final = _ROOT / "sasl"
CA: Final = _ROOT / "ca"
CERTIFICATE: Final = _ROOT / "certificate"
TOKEN_CA: Final = _ROOT / "token-ca"
TOKEN: Final = _ROOT / "token" / "token"
"""The pod's projected ServiceAccount token."""
_MODE: Final = 0o440
"""Readable by the member's group, which is the volume's (fsGroup)."""


@dataclass(frozen=True, slots=True)
class SecretMount:
    """A Secret mounted at ``path``, limited to ``files``: file name to key."""

    name: str
    path: PurePosixPath
    secret: str
    files: Mapping[str, str]

    def volume(self) -> dict[str, Any]:
        items = [{"key": key, "path": file} for file, key in self.files.items()]
        return {
            "name": self.name,
            "secret": {"secretName": self.secret, "defaultMode": _MODE, "items": items},
        }


@dataclass(frozen=True, slots=True)
class TokenMount:
    """A token of the pod's ServiceAccount, mounted at ``path``. The kubelet renews it there."""

    name: str
    path: PurePosixPath
    audience: str
    expiration_seconds: int

    def volume(self) -> dict[str, Any]:
        token = {
            "audience": self.audience,
            "expirationSeconds": self.expiration_seconds,
            "path": TOKEN.name,
        }
        sources = [{"serviceAccountToken": token}]
        return {"name": self.name, "projected": {"defaultMode": _MODE, "sources": sources}}


def kafka_mounts(kafka: Kafka) -> Iterator[SecretMount | TokenMount]:
    """Yield the mounts that a member needs, with only the keys it needs."""
    if kafka.sasl is not None and kafka.sasl.secret_ref is not None:
        keys = {"username": kafka.sasl.username_key, "password": kafka.sasl.password_key}
        yield SecretMount("kafka-sasl", SASL, kafka.sasl.secret_ref.name, keys)
    if kafka.sasl is not None and (oauth := kafka.sasl.oauthbearer) is not None:
        if (ca := oauth.ca_secret_ref) is not None:
            yield SecretMount("kafka-token-ca", TOKEN_CA, ca.name, {"ca.crt": ca.key})
        if (token := oauth.service_account_token) is not None:
            yield TokenMount("kafka-token", TOKEN.parent, token.audience, token.expiration_seconds)
    if kafka.tls is not None:
        if (ca := kafka.tls.ca_secret_ref) is not None:
            yield SecretMount("kafka-ca", CA, ca.name, {"ca.crt": ca.key})
        if (shown := kafka.tls.certificate_secret_ref) is not None:
            files = {key: key for key in (CERTIFICATE_KEY, PRIVATE_KEY)}
            yield SecretMount("kafka-certificate", CERTIFICATE, shown.name, files)


def token_url(oauth: OAuthBearer) -> str:
    """The URL from which a member gets its tokens: an endpoint, or the file of its pod."""
    return oauth.token_endpoint_url or f"file://{TOKEN}"


def security_options(kafka: Kafka) -> Sequence[str]:
    """Options of ``cooperator worker``: they name the files and never contain secrets."""
    if kafka == Kafka():
        return []
    options = {"--security-protocol": kafka.security_protocol.value}
    if kafka.sasl is not None:
        options["--sasl-mechanism"] = kafka.sasl.mechanism.value
        if kafka.sasl.secret_ref is not None:
            options["--sasl-username-file"] = str(SASL / "username")
            options["--sasl-password-file"] = str(SASL / "password")
        if (oauth := kafka.sasl.oauthbearer) is not None:
            options["--sasl-oauthbearer-token-endpoint-url"] = token_url(oauth)
            if oauth.scope is not None:
                options["--sasl-oauthbearer-scope"] = oauth.scope
            if oauth.ca_secret_ref is not None:
                options["--sasl-oauthbearer-ca-file"] = str(TOKEN_CA / "ca.crt")
    flags = []
    if kafka.tls is not None:
        if kafka.tls.ca_secret_ref is not None:
            options["--ssl-ca-file"] = str(CA / "ca.crt")
        if kafka.tls.certificate_secret_ref is not None:
            options["--ssl-certificate-file"] = str(CERTIFICATE / CERTIFICATE_KEY)
            options["--ssl-key-file"] = str(CERTIFICATE / PRIVATE_KEY)
        if not kafka.tls.verify_hostname:
            flags.append("--no-ssl-verify-hostname")
    return [*(word for option in options.items() for word in option), *flags]
