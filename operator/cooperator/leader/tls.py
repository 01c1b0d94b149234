"""Certificates of the operator's ports, and how members verify them (decision 070).

Files that are replaced are read again before the next connection, so that renewals need no restart.
"""

import logging
import ssl
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, Generic, TypeVar

log = logging.getLogger(__name__)

SERVER_NAME: Final = "leader.cooperator.internal"
"""The DNS name in the certificate of every leader. Members reach leaders by addresses, which change."""
CERTIFICATE: Final = "tls.crt"
KEY: Final = "tls.key"
CA: Final = "ca.crt"
"""Names of the files, which are the keys of the Secrets that cert-manager writes."""

_EXPIRED: Final = 10
_HOSTNAME_MISMATCH: Final = 62
_REMEDIES: Final = {
    9: "wait until it is valid, or set the clocks",
    _EXPIRED: "renew it",
    _HOSTNAME_MISMATCH: f"issue it for the DNS name {SERVER_NAME}",
}
"""Remedies by OpenSSL's codes of failed verifications."""
_SIGNER: Final = f"use the certificate of the CA that has signed it as {CA}"
_TRUST: Final = f"use --leader-ca-file with the CA that has signed it, the {CA} of the leader's Secret"

_T = TypeVar("_T")
_Stamp = tuple[tuple[int, int, int], ...]


class TlsError(ValueError):
    """A certificate or key that cannot be used. Names the file and the remedy, never a key."""


class ServerCertificates:
    """The certificate, key and CA in ``directory``. Any thread may use it.

    Raises TlsError when members would refuse the certificate. An expired certificate is only logged: the
    leader goes on, and members report it.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        files = tuple(directory / name for name in (CERTIFICATE, KEY, CA))
        self._reloaded = _Reloaded(files, self._load)
        self._reloaded.get()

    def context(self) -> ssl.SSLContext:
        """The context for the next connection. New files that cannot be used are logged and passed over."""
        return self._reloaded.get()[0]

    def ca_pem(self) -> bytes:
        """The CA by which members verify the certificate."""
        return self._reloaded.get()[1]

    def _load(self) -> tuple[ssl.SSLContext, bytes]:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        certificate, key, ca = (self._directory / name for name in (CERTIFICATE, KEY, CA))
        ca_pem = _read(ca)
        _read(certificate)
        _read(key)
        try:
            # Without a password OpenSSL would ask for one at the terminal.
            context.load_cert_chain(certificate, key, password="")
        except (ssl.SSLError, ValueError) as error:
            raise TlsError(
                f"{certificate} and {KEY}: {_words(error)}: use a PEM certificate and its own unencrypted key"
            ) from None
        try:
            _handshake(context, _client_context(ca))
        except ssl.SSLCertVerificationError as error:
            refusal = f"{certificate}: members would refuse this certificate: {_verification(error, _SIGNER)}"
            if error.verify_code != _EXPIRED:
                raise TlsError(refusal) from None
            log.error("%s", refusal)
        return context, ca_pem


class LeaderTrust:
    """Verifies leaders by the CA in ``ca_file``; None means the system's CAs. Any thread may use it."""

    def __init__(self, ca_file: Path | None) -> None:
        self._reloaded = _Reloaded((ca_file,) if ca_file else (), lambda: _client_context(ca_file))

    def context(self) -> ssl.SSLContext:
        """The context for a connection to ``SERVER_NAME``. Raises TlsError until a usable CA was read."""
        return self._reloaded.get()


def certificate_problem(error: BaseException) -> str:
    """Return why a connection over TLS was not made, with the remedy; empty for other failures.

    Clients wrap errors of TLS in their own, so the innermost cause is looked at.
    """
    cause = error
    while cause.__cause__ is not None:
        cause = cause.__cause__
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"the leader's certificate is refused: {_verification(cause, _TRUST)}"
    if isinstance(cause, ssl.SSLError):
        return f"no TLS connection: {_words(cause)}: use a port that serves https, with TLS 1.2 or later"
    return ""


class _Reloaded(Generic[_T]):
    """A value made from files, made again when they have been replaced.

    A value that cannot be made again is logged once, and the former one stays.
    """

    def __init__(self, files: tuple[Path, ...], load: Callable[[], _T]) -> None:
        self._files = files
        self._load = load
        self._lock = threading.Lock()
        self._stamp: _Stamp | None = None
        self._value: _T | None = None

    def get(self) -> _T:
        """Raises TlsError while there is no former value."""
        with self._lock:
            stamp = self._now()
            if self._value is None or stamp != self._stamp:
                try:
                    self._value = self._load()
                except TlsError as error:
                    if self._value is None:
                        raise
                    log.error("the former certificates stay in use: %s", error)
                self._stamp = stamp
            return self._value

    def _now(self) -> _Stamp:
        found = []
        for file in self._files:
            with suppress(OSError):
                # A Secret's files are symbolic links, of which a renewal replaces the target.
                seen = file.stat()
                found.append((seen.st_ino, seen.st_mtime_ns, seen.st_size))
        return tuple(found)


def _client_context(ca_file: Path | None) -> ssl.SSLContext:
    """Raises TlsError."""
    if ca_file is not None:
        _read(ca_file)
    try:
        context = ssl.create_default_context(cafile=ca_file)
    except ssl.SSLError as error:
        raise TlsError(f"{ca_file}: {_words(error)}: use PEM certificates of CAs") from None
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # As in Java: a CA in the file is trusted even if it is an intermediate one.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return context


def _handshake(server: ssl.SSLContext, client: ssl.SSLContext) -> None:
    """Connects both in memory. Raises SSLCertVerificationError if the client refuses the certificate."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    asking = client.wrap_bio(to_client, to_server, server_hostname=SERVER_NAME)
    serving = server.wrap_bio(to_server, to_client, server_side=True)
    for side in (asking, serving, asking, serving, asking):
        with suppress(ssl.SSLWantReadError):
            side.do_handshake()


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise TlsError(f"{file}: {error.strerror}: use a readable PEM file") from None


def _verification(error: ssl.SSLCertVerificationError, unknown_ca: str) -> str:
    remedy = _REMEDIES.get(error.verify_code, unknown_ca)
    return f"{error.verify_message.rstrip('.')}: {remedy}"


def _words(error: Exception) -> str:
    return getattr(error, "reason", None) or str(error) or type(error).__name__
