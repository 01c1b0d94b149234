"""A broker that accepts only authenticated clients, over encrypted connections."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from cooperator.artifacts import resolve, use_archive
from cooperator.local.broker import EmbeddedBroker
from cooperator.local.settings import HOST, free_port
from tests.kubernetes.certificates import Authority, Certificate

PASSWORDS = {"ada": 'open "sesame" \\ now', "eve": "shut-sesame-then"}
"""They contain characters that have to be quoted somewhere."""

_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
_LISTENERS = {"PLAINTEXT": "PLAINTEXT", "LOGIN": "SASL_SSL", "SHOWN": "SSL"}


@dataclass
class SecuredBroker:
    """Bootstrap servers: ``plain`` for the test's own reads, ``login`` with name and password (SASL_SSL),
    ``shown`` with a client certificate (SSL)."""

    broker: EmbeddedBroker
    plain: str
    login: str
    shown: str
    authority: Path
    client: Certificate


def login_broker(folder: Path, password: str, **overrides: str) -> tuple[EmbeddedBroker, str]:
    """A broker that is not started yet, and the servers of its listener that knows ada and her password
    (SASL_PLAINTEXT, PLAIN). Its own ``bootstrap_servers`` need no authentication."""
    ports, settings = _listening({"PLAINTEXT": "PLAINTEXT", "LOGIN": "SASL_PLAINTEXT"}, {"ada": password})
    return EmbeddedBroker(
        folder, ports["PLAINTEXT"], overrides=settings | overrides
    ), f"{HOST}:{ports['LOGIN']}"


def oauth_broker(
    folder: Path, jwks: str, audience: str, max_reauth_ms: int, **overrides: str
) -> tuple[EmbeddedBroker, str]:
    """A broker that is not started yet, and the servers of its listener that accepts tokens which ``jwks``
    verifies (SASL_PLAINTEXT, OAUTHBEARER), each for ``max_reauth_ms`` at most. ``folder`` exists."""
    keys = folder / "jwks.json"
    keys.write_text(jwks)
    ports, settings = _listening({"PLAINTEXT": "PLAINTEXT", "LOGIN": "SASL_PLAINTEXT"}, {})
    login = "listener.name.login.oauthbearer"
    package = "org.apache.kafka.common.security.oauthbearer"
    settings |= {
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": keys.as_uri(),
        "sasl.oauthbearer.expected.audience": audience,
        f"{login}.sasl.jaas.config": f"{package}.OAuthBearerLoginModule required;",
        f"{login}.sasl.server.callback.handler.class": f"{package}.OAuthBearerValidatorCallbackHandler",
        f"{login}.connections.max.reauth.ms": str(max_reauth_ms),
    }
    allowed = "-Dorg.apache.kafka.sasl.oauthbearer.allowed"
    broker = EmbeddedBroker(
        folder / "broker",
        ports["PLAINTEXT"],
        overrides=settings | overrides,
        java_options=[
            *use_archive("kafka", resolve("kafka")),
            *(f"{allowed}.urls={keys.as_uri()}", f"{allowed}.files={keys}"),
        ],
    )
    return broker, f"{HOST}:{ports['LOGIN']}"


def scram_broker(folder: Path, host: str) -> tuple[EmbeddedBroker, str, Path]:
    """A broker that is not started yet, the servers of its listener that asks for a name and a password
    (SASL_SSL, SCRAM-SHA-512), and the file with the authority of its certificate. ``folder`` exists; ``host``
    is an address of this machine. ``add_scram_user`` makes users."""
    authority, store = _serving(folder, host)
    ports, settings = _listening({"PLAINTEXT": "PLAINTEXT", "LOGIN": "SASL_SSL"}, {}, host)
    settings |= {
        "sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "listener.name.login.scram-sha-512.sasl.jaas.config": f"{_SCRAM} required;",
        **store,
    }
    broker = EmbeddedBroker(folder / "broker", ports["PLAINTEXT"], overrides=settings)
    return broker, f"{host}:{ports['LOGIN']}", authority.own.certificate


def add_scram_user(servers: str, name: str, password: str) -> None:
    """``servers`` need no authentication."""
    credential = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    wanted = UserScramCredentialUpsertion(name, credential, password.encode())
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    for done in admin.alter_user_scram_credentials([wanted]).values():
        done.result(30)


def secured_broker(folder: Path) -> SecuredBroker:
    """Returns a broker that is not started yet. ``folder`` exists."""
    authority, store = _serving(folder, HOST)
    client = authority.client("ada")
    key = folder / "ada.key"
    key.write_text(_pkcs8(client.key))
    ports, settings = _listening(_LISTENERS, PASSWORDS)
    broker = EmbeddedBroker(
        folder / "broker",
        ports["PLAINTEXT"],
        overrides={
            **settings,
            **store,
            "listener.name.shown.ssl.client.auth": "required",
        },
    )
    servers = {name: f"{HOST}:{port}" for name, port in ports.items()}
    certificate = Certificate(client.certificate, key)
    return SecuredBroker(
        broker,
        servers["PLAINTEXT"],
        servers["LOGIN"],
        servers["SHOWN"],
        authority.own.certificate,
        certificate,
    )


def _serving(folder: Path, host: str) -> tuple[Authority, dict[str, str]]:
    """An authority, and a broker's settings for a certificate that it has signed."""
    authority = Authority(folder / "signed")
    server = authority.server("broker", [host])
    store = folder / "broker.pem"
    store.write_text(_pkcs8(server.key) + server.certificate.read_text())
    return authority, {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(store),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.own.certificate),
    }


def _listening(
    protocols: Mapping[str, str], passwords: Mapping[str, str], host: str = HOST
) -> tuple[dict[str, int], dict[str, str]]:
    """The ports of listeners, by name, and a broker's settings for them. LOGIN asks for a password."""
    ports = _ports(*protocols, "CONTROLLER")
    told = ",".join(f"{name}://{host}:{ports[name]}" for name in protocols)
    opened = told if host == HOST else told.replace(f"//{host}:", "//0.0.0.0:")
    mapped = ",".join(f"{name}:{protocol}" for name, protocol in protocols.items())
    users = " ".join(f"user_{name}={_quoted(password)}" for name, password in passwords.items())
    return ports, {
        "listeners": f"{opened},CONTROLLER://{HOST}:{ports['CONTROLLER']}",
        "advertised.listeners": told,
        "controller.quorum.voters": f"1@{HOST}:{ports['CONTROLLER']}",
        "listener.security.protocol.map": f"{mapped},CONTROLLER:PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        **({"listener.name.login.plain.sasl.jaas.config": f"{_PLAIN} required {users};"} if users else {}),
    }


def _ports(*names: str) -> dict[str, int]:
    """Different ports for the names; no port is bound before the broker starts."""
    found: dict[int, None] = {}
    while len(found) < len(names):
        found[free_port()] = None
    return dict(zip(names, found, strict=True))


def _pkcs8(key: Path) -> str:
    """The key in the format that Kafka's Java clients and brokers read."""
    loaded = load_pem_private_key(key.read_bytes(), password=None)
    return loaded.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
