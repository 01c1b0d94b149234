"""The settings of a login by OAUTHBEARER, by Kafka's names. Pure."""

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Final
from urllib.parse import unquote, urlsplit

MECHANISM: Final = "OAUTHBEARER"
URL: Final = "sasl.oauthbearer.token.endpoint.url"
CLIENT_ID: Final = "sasl.oauthbearer.client.id"
CLIENT_SECRET: Final = "sasl.oauthbearer.client.secret"
SCOPE: Final = "sasl.oauthbearer.scope"
CA: Final = "https.ca.location"

_MODULE: Final = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
HANDLER: Final = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"


class LoginInvalid(ValueError):
    """A setting of the login is invalid. Names the setting and the remedy, never a secret."""


@dataclass(frozen=True, slots=True)
class OAuthLogin:
    """Where the tokens of a client come from.

    ``token_endpoint_url``: ``https://…`` or ``http://…`` for client credentials (RFC 6749, 4.4), or
    ``file:///…`` for a file that contains a token and is renewed by others, such as a projected
    ServiceAccount token. ``ca_file``: the authorities of the endpoint; empty: the system's. Raises
    LoginInvalid.
    """

    token_endpoint_url: str
    client_id: str = ""
    client_secret: str = field(default="", repr=False)
    scope: str = ""
    ca_file: str = ""

    def __post_init__(self) -> None:
        problem = url_problem(self.token_endpoint_url)
        if problem:
            raise LoginInvalid(f"{URL} {problem}")
        if token_file(self.token_endpoint_url) is None:
            for name, value in ((CLIENT_ID, self.client_id), (CLIENT_SECRET, self.client_secret)):
                if not value:
                    raise LoginInvalid(f"{name} is empty, and {URL} requires it: set it")

    @property
    def file(self) -> Path | None:
        """The file that contains the token; None for client credentials."""
        return token_file(self.token_endpoint_url)

    @property
    def settings(self) -> Mapping[str, str]:
        """All settings by librdkafka's names, the client's secret included."""
        return {
            URL: self.token_endpoint_url,
            CLIENT_ID: self.client_id,
            CLIENT_SECRET: self.client_secret,
            SCOPE: self.scope,
            CA: self.ca_file,
        }


def url_problem(url: str) -> str:
    """Returns what is wrong with the URL of a token endpoint, and the remedy, without the URL; empty if
    nothing is."""
    remedy = "use https://HOST/PATH, or file:///PATH for a file that contains the token"
    try:
        parts = urlsplit(url)
        has_port = parts.port != 0
    except ValueError:
        return f"is not a URL: {remedy}"
    if any(character <= " " or character == "\x7f" for character in url):
        return f"contains a blank or a control character: {remedy}"
    if parts.username is not None or parts.password is not None:
        return f"contains a user name or a password: remove them, and set {CLIENT_ID} and {CLIENT_SECRET}"
    if parts.query or parts.fragment:
        return f"has a query or a fragment: remove it; set {SCOPE} for the scope"
    if parts.scheme == "file":
        return "" if not parts.netloc and parts.path.startswith("/") else f"names no absolute path: {remedy}"
    if parts.scheme not in ("http", "https") or not parts.hostname or not has_port:
        return f"is not the URL of a token endpoint: {remedy}"
    return ""


def token_file(url: str) -> Path | None:
    """Returns the path of a ``file:`` URL; None for other URLs."""
    return Path(unquote(urlsplit(url).path)) if url.startswith("file:") else None


def java_properties(
    login: OAuthLogin, ca: Mapping[str, str] = MappingProxyType({}), handler: str = HANDLER
) -> dict[str, str]:
    """Returns the properties of Java's clients, from 3.4.

    ``ca``: the ``ssl.truststore.…`` settings for the token endpoint. Every value may be a reference.
    ``handler``: the class that gets the tokens; Kafka's own sees no renewal of a file before 4.1.
    """
    options = {
        "clientId": login.client_id,
        "clientSecret": login.client_secret,
        "scope": login.scope,
        **ca,
    }
    words = [f"{name}={_quoted(value)}" for name, value in options.items() if value]
    return {
        "sasl.mechanism": MECHANISM,
        "sasl.jaas.config": f"{' '.join((_MODULE, 'required', *words))};",
        "sasl.login.callback.handler.class": handler,
        URL: login.token_endpoint_url,
    }


def expiry_s(token: str) -> float | None:
    """Returns the time at which a JWT expires (RFC 7519, 4.1.4), in seconds since the epoch.

    None if the token does not tell. The signature is the broker's to verify.
    """
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (binascii.Error, ValueError, RecursionError):
        return None
    expires = claims.get("exp") if isinstance(claims, dict) else None
    return float(expires) if isinstance(expires, int | float) and not isinstance(expires, bool) else None


def _quoted(text: str) -> str:
    """Quotes a value for a JAAS configuration, as Java's StreamTokenizer reads it."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
    return f'"{escaped}"'
