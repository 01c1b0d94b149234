"""A small OAuth 2.0 authorization server: client credentials for tokens that a broker verifies by a JWKS."""

import base64
import json
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Final
from urllib.parse import parse_qs

from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from cryptography.hazmat.primitives.hashes import SHA256

AUDIENCE: Final = "kafka"
KEY_ID: Final = "test"


@dataclass
class AuthorizationServer:
    """Issues tokens that live for ``lifetime_s``. ``clients`` are ids and secrets.

    ``issued`` has the client of each token and when it was issued, in seconds since the epoch; ``scopes`` the
    scopes that were asked for; ``refused`` counts wrong secrets.
    """

    clients: dict[str, str]
    lifetime_s: float = 60
    issued: list[tuple[str, float]] = field(default_factory=list)
    tokens: list[str] = field(default_factory=list)
    scopes: set[str] = field(default_factory=set)
    refused: int = 0

    def __post_init__(self) -> None:
        self._key = generate_private_key(65537, 2048)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> "AuthorizationServer":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/token"

    def jwks(self) -> str:
        """The public key, as a broker reads it (RFC 7517)."""
        numbers = self._key.public_key().public_numbers()
        key = {
            "kty": "RSA",
            "kid": KEY_ID,
            "use": "sig",
            "alg": "RS256",
            "n": _encoded(numbers.n.to_bytes(256, "big")),
            "e": _encoded(numbers.e.to_bytes(3, "big")),
        }
        return json.dumps({"keys": [key]})

    def token(self, subject: str, lifetime_s: float | None = None) -> str:
        now = time.time()
        claims = {
            "iss": "test",
            "sub": subject,
            "aud": AUDIENCE,
            "scope": "kafka",
            "iat": int(now),
            "exp": int(now + (self.lifetime_s if lifetime_s is None else lifetime_s)),
        }
        header = {"alg": "RS256", "typ": "JWT", "kid": KEY_ID}
        signed = ".".join(_encoded(json.dumps(part).encode()) for part in (header, claims))
        signature = self._key.sign(signed.encode(), PKCS1v15(), SHA256())
        token = f"{signed}.{_encoded(signature)}"
        self.tokens.append(token)
        return token

    def write_token(self, file: Path, subject: str) -> None:
        """Replaces the file, as the kubelet replaces a projected token."""
        part = file.with_suffix(".part")
        part.write_text(self.token(subject))
        part.replace(file)

    def count(self, client: str) -> int:
        """The number of tokens that the client was given."""
        return sum(name == client for name, _ in self.issued)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
                shown = base64.b64decode(self.headers.get("Authorization", "").removeprefix("Basic "))
                client, _, secret = shown.decode().partition(":")
                server.scopes.update(body.get("scope", ()))
                if body.get("grant_type") != ["client_credentials"]:
                    self._answer(400, {"error": "unsupported_grant_type"})
                elif server.clients.get(client) != secret:
                    server.refused += 1
                    self._answer(401, {"error": "invalid_client"})
                else:
                    server.issued.append((client, time.time()))
                    answer = {"access_token": server.token(client), "token_type": "Bearer"}
                    self._answer(200, {**answer, "expires_in": server.lifetime_s})

            def _answer(self, code: int, body: dict[str, Any]) -> None:
                text = json.dumps(body).encode()
                self.send_response(code)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, format: str, *args: Any) -> None:
                """The tests look at ``issued``."""

        return Handler


def _encoded(part: bytes) -> str:
    return base64.urlsafe_b64encode(part).rstrip(b"=").decode()
