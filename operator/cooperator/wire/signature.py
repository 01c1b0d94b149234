"""Signed requests between members (KIP-507; docs/protocol.md, section 9)."""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Final

from cooperator.model import SessionKey

SIGNATURE_HEADER: Final = "X-Connect-Authorization"
ALGORITHM_HEADER: Final = "X-Connect-Request-Signature-Algorithm"

DEFAULT_ALGORITHM: Final = "HmacSHA256"
ALLOWED_ALGORITHMS: Final = frozenset({DEFAULT_ALGORITHM})
"""Kafka Connect's default of ``inter.worker.verification.algorithms``."""

_DIGESTS: Final = MappingProxyType(
    {"HmacSHA256": hashlib.sha256, "HmacSHA384": hashlib.sha384, "HmacSHA512": hashlib.sha512}
)


class SignatureError(Exception):
    """The request is not proven to come from a member."""


class SignatureMissing(SignatureError):
    """One of the two headers is absent (Connect answers 400)."""


class AlgorithmNotAllowed(SignatureError):
    """The signature's algorithm is unknown or not allowed (400)."""


class SignatureWrong(SignatureError):
    """The signature does not match this key and body (403)."""


def sign(key: SessionKey, body: bytes, algorithm: str = DEFAULT_ALGORITHM) -> dict[str, str]:
    """The headers for a request with this body; a missing body is signed as zero bytes."""
    signature = base64.b64encode(_mac(key, body, algorithm)).decode()
    return {SIGNATURE_HEADER: signature, ALGORITHM_HEADER: algorithm}


def verify(
    key: SessionKey,
    headers: Mapping[str, str],
    body: bytes,
    allowed: Collection[str] = ALLOWED_ALGORITHMS,
) -> None:
    """Check that ``headers`` (names in any case) sign ``body`` with ``key``; else raise a SignatureError."""
    lowered = {name.lower(): value for name, value in headers.items()}
    signature = lowered.get(SIGNATURE_HEADER.lower())
    algorithm = lowered.get(ALGORITHM_HEADER.lower())
    if signature is None or algorithm is None:
        raise SignatureMissing(f"the request needs the headers {SIGNATURE_HEADER} and {ALGORITHM_HEADER}")
    if algorithm not in allowed:
        raise AlgorithmNotAllowed(
            f"signature algorithm {algorithm[:40]!r} is not allowed; use one of {', '.join(sorted(allowed))}"
        )
    try:
        given = base64.b64decode(signature, validate=True)
    except (binascii.Error, ValueError):
        raise SignatureWrong("the signature is not base64") from None
    if not hmac.compare_digest(given, _mac(key, body, algorithm)):
        raise SignatureWrong("the signature does not match the session key and the body")


def _mac(key: SessionKey, body: bytes, algorithm: str) -> bytes:
    digest = _DIGESTS.get(algorithm)
    if digest is None:
        raise AlgorithmNotAllowed(
            f"signature algorithm {algorithm[:40]!r} is unknown; use one of {', '.join(_DIGESTS)}"
        )
    return hmac.new(key.key, body, digest).digest()
