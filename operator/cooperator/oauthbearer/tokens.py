"""Tokens of a login by OAUTHBEARER: fetched, kept while they are fresh, and renewed before they expire.

kafka-python and librdkafka ask for a token when they connect and when they authenticate again (KIP-368).
librdkafka fetches tokens of client credentials itself; a token in a file is read for it here.
"""

import base64
import json
import ssl
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode
from weakref import WeakValueDictionary

from cooperator.oauthbearer.login import URL, OAuthLogin, expiry_s
from cooperator.supervision import supervised

_REFRESH_FACTOR: Final = 0.8
"""As ``sasl.login.refresh.window.factor`` of Java's clients."""
_UNKNOWN_LIFETIME_S: Final = 60.0
_TIMEOUT_S: Final = 5.0
_WAIT_S: Final = 2.0
"""Callers include the thread that sends heartbeats: they wait no longer, and ask again."""
_AGAIN_S: Final = 1.0
_MAX_BYTES: Final = 1_000_000


class TokenUnavailable(Exception):
    """There is no token at this time. The text has the endpoint or the file, and never a secret."""


@dataclass(frozen=True, slots=True)
class Token:
    """``expires_at_s``, ``refresh_at_s``: in seconds since the epoch."""

    value: str = field(repr=False)
    refresh_at_s: float
    expires_at_s: float


Fetch = Callable[[OAuthLogin], bytes]


class Tokens:
    """The tokens of one login; equal for equal logins. Thread-safe.

    It is the token provider of kafka-python (``token``), and the ``oauth_cb`` of confluent-kafka (a call).
    Equal logins of a process share their tokens if they are made by ``of``.
    """

    def __init__(
        self, login: OAuthLogin, fetch: Fetch | None = None, now_s: Callable[[], float] = time.time
    ) -> None:
        self.login = login
        self._fetch = fetch or request_token
        self._now_s = now_s
        self._lock = threading.Lock()
        self._current: Token | None = None
        self._fetching: threading.Event | None = None
        self._fetch_again_at_s = float("-inf")
        self._failure = ""

    @classmethod
    def of(cls, login: OAuthLogin) -> "Tokens":
        with _shared_lock:
            found = _shared.get(login)
            if found is None:
                found = _shared[login] = cls(login)
            return found

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tokens) and self.login == other.login

    def __hash__(self) -> int:
        return hash(self.login)

    def __repr__(self) -> str:
        return f"Tokens({self.login!r})"

    def __call__(self, _config: str | None = None) -> tuple[str, float]:
        """Returns a token and when it expires, in seconds since the epoch. Raises TokenUnavailable."""
        found = self.current()
        return found.value, found.expires_at_s

    def token(self) -> str:
        """Returns a token that is valid now. Raises TokenUnavailable."""
        return self.current().value

    def extensions(self) -> dict[str, str]:
        return {}

    def current(self, wait_s: float = _WAIT_S) -> Token:
        """Returns a valid token; if it is due for renewal, the next one if that arrives within ``wait_s``.

        Raises TokenUnavailable if none is valid.
        """
        if self.login.file is not None:
            return _read(self.login.file)
        with self._lock:
            found = self._current
            if found is not None and self._now_s() < found.refresh_at_s:
                return found
            if self._fetching is None and self._now_s() >= self._fetch_again_at_s:
                self._fetching = threading.Event()
                supervised(self._renew, "token endpoint", self._fetching).start()
            pending = self._fetching
        if pending is not None:
            pending.wait(wait_s)
        with self._lock:
            found = self._current
            if found is not None and self._now_s() < found.expires_at_s:
                return found
            failure = self._failure or "no answer yet"
        raise TokenUnavailable(f"no token from {self.login.token_endpoint_url}: {failure}")

    def _renew(self, done: threading.Event) -> None:
        failure, found = "", None
        try:
            found = token_of(self._fetch(self.login), self._now_s())
        except (TokenUnavailable, OSError, HTTPException, ValueError) as error:
            failure = str(error) or type(error).__name__
        except Exception as error:
            # Without the text, which is not known to be free of secrets.
            failure = type(error).__name__
        finally:
            with self._lock:
                self._current = found or self._current
                self._failure = failure
                self._fetching = None
                self._fetch_again_at_s = self._now_s() + _AGAIN_S
            done.set()


_shared: WeakValueDictionary[OAuthLogin, Tokens] = WeakValueDictionary()
_shared_lock: Final = threading.Lock()


def librdkafka_properties(login: OAuthLogin) -> dict[str, Any]:
    """Returns the properties of confluent-kafka's clients."""
    if login.file is not None:
        return {"oauth_cb": Tokens.of(login)}
    given = {name: value for name, value in login.settings.items() if value}
    return {"sasl.oauthbearer.method": "oidc", **given}


def token_of(answer: bytes, now_s: float) -> Token:
    """Returns the token in an endpoint's answer (RFC 6749, 5.1). Raises TokenUnavailable."""
    try:
        body = json.loads(answer)
    except (ValueError, RecursionError):
        raise TokenUnavailable("the answer is not JSON: check the URL of the token endpoint") from None
    value = body.get("access_token") if isinstance(body, dict) else None
    if not isinstance(value, str) or not value:
        raise TokenUnavailable("the answer has no access_token: check the URL of the token endpoint")
    lasts_s = body.get("expires_in")
    has_lifetime = isinstance(lasts_s, int | float) and not isinstance(lasts_s, bool) and lasts_s > 0
    default_s = now_s + (float(lasts_s) if has_lifetime else _UNKNOWN_LIFETIME_S)
    return _token(value, default_s, now_s)


def _token(value: str, default_s: float, now_s: float) -> Token:
    """Raises TokenUnavailable for a token that no request can carry, and for one that has expired."""
    if not value.isascii() or not value.isprintable() or " " in value:
        raise TokenUnavailable("the token has characters that no token has")
    expires_at_s = expiry_s(value) or default_s
    if expires_at_s <= now_s:
        raise TokenUnavailable("the token has expired: check the clocks, and who renews it")
    return Token(value, now_s + (expires_at_s - now_s) * _REFRESH_FACTOR, expires_at_s)


def _read(path: Path) -> Token:
    now_s = time.time()
    try:
        value = path.read_text().strip()
    except OSError as error:
        raise TokenUnavailable(f"no token in {path}: {error.strerror}: mount it there") from None
    except UnicodeDecodeError:
        raise TokenUnavailable(f"no token in {path}: it is not text: mount the token there") from None
    if not value:
        raise TokenUnavailable(f"no token in {path}: it is empty: mount the token there")
    try:
        return _token(value, now_s + _UNKNOWN_LIFETIME_S, now_s)
    except TokenUnavailable as error:
        raise TokenUnavailable(f"no token in {path}: {error}") from None


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirected request would show the client's secret to another server."""

    def redirect_request(self, *_: Any) -> None:
        return None


def request_token(login: OAuthLogin) -> bytes:
    """Asks the token endpoint for a token of client credentials (RFC 6749, 4.4.2) and returns its answer.

    The id and the secret are in the header Authorization, as Java's client and librdkafka send them. Raises
    TokenUnavailable and OSError.
    """
    fields = {"grant_type": "client_credentials", **({"scope": login.scope} if login.scope else {})}
    shown = base64.b64encode(f"{login.client_id}:{login.client_secret}".encode()).decode()
    request = urllib.request.Request(
        login.token_endpoint_url,
        urlencode(fields).encode(),
        {
            "Authorization": f"Basic {shown}",
            "Accept": "application/json",
            "Content-Type": "application/x-www-form-urlencoded",
        },
    )
    context = ssl.create_default_context(cafile=login.ca_file or None)
    opener = urllib.request.build_opener(_NoRedirect, urllib.request.HTTPSHandler(context=context))
    try:
        with opener.open(request, timeout=_TIMEOUT_S) as answer:
            found: bytes = answer.read(_MAX_BYTES)
    except urllib.error.HTTPError as error:
        raise TokenUnavailable(f"it answers {error.code}: {_REMEDIES.get(error.code, _OTHERWISE)}") from None
    except urllib.error.URLError as error:
        raise TokenUnavailable(f"{error.reason}: check {URL} and the network") from None
    return found


_OTHERWISE: Final = "check the URL of the token endpoint"
_REMEDIES: Final = {
    400: "check client id, client secret and scope",
    401: "check client id and client secret",
    403: "check what this client may do",
}
