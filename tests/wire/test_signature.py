"""Requests between members are signed with the session key (KIP-507)."""

import base64
import hashlib
import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cooperator.model import SessionKey
from cooperator.wire import (
    ALLOWED_ALGORITHMS,
    AlgorithmNotAllowed,
    SignatureMissing,
    SignatureWrong,
    sign,
    verify,
)

KEY = SessionKey(b"k" * 32, "HmacSHA256", 0)
BODY = b'[{"a":"b"}]'


def test_the_headers_are_connects() -> None:
    signature = hmac.new(KEY.key, BODY, hashlib.sha256).digest()

    assert sign(KEY, BODY) == {
        "X-Connect-Authorization": base64.b64encode(signature).decode(),
        "X-Connect-Request-Signature-Algorithm": "HmacSHA256",
    }


@given(st.binary(max_size=64), st.binary(max_size=100))
def test_a_signature_verifies(key: bytes, body: bytes) -> None:
    session_key = SessionKey(key, "HmacSHA256", 0)

    verify(session_key, sign(session_key, body), body)


def test_header_names_come_in_any_case() -> None:
    verify(KEY, {name.lower(): value for name, value in sign(KEY, BODY).items()}, BODY)


@given(st.binary(max_size=30))
def test_another_body_is_refused(body: bytes) -> None:
    if body != BODY:
        with pytest.raises(SignatureWrong):
            verify(KEY, sign(KEY, BODY), body)


def test_another_key_is_refused() -> None:
    with pytest.raises(SignatureWrong, match="does not match the session key"):
        verify(SessionKey(b"j" * 32, "HmacSHA256", 0), sign(KEY, BODY), BODY)


@pytest.mark.parametrize("missing", sign(KEY, BODY))
def test_both_headers_are_needed(missing: str) -> None:
    headers = {name: value for name, value in sign(KEY, BODY).items() if name != missing}

    with pytest.raises(SignatureMissing, match="X-Connect-Authorization and X-Connect-Request-Signature"):
        verify(KEY, headers, BODY)


@pytest.mark.parametrize("signature", ["", "*", "YQ==", "ü", "YQ"])
def test_a_signature_that_is_none_is_wrong(signature: str) -> None:
    with pytest.raises(SignatureWrong):
        verify(KEY, {**sign(KEY, BODY), "X-Connect-Authorization": signature}, BODY)


def test_only_allowed_algorithms_count() -> None:
    stronger = sign(KEY, BODY, "HmacSHA512")

    with pytest.raises(AlgorithmNotAllowed, match="'HmacSHA512' is not allowed; use one of HmacSHA256"):
        verify(KEY, stronger, BODY)
    verify(KEY, stronger, BODY, allowed=ALLOWED_ALGORITHMS | {"HmacSHA512"})


@pytest.mark.parametrize("algorithm", ["HmacMD5", "none", ""])
def test_weak_and_unknown_algorithms_are_refused_even_when_allowed(algorithm: str) -> None:
    headers = {**sign(KEY, BODY), "X-Connect-Request-Signature-Algorithm": algorithm}

    with pytest.raises(AlgorithmNotAllowed, match="is unknown; use one of HmacSHA256"):
        verify(KEY, headers, BODY, allowed={algorithm})
    with pytest.raises(AlgorithmNotAllowed):
        sign(KEY, BODY, algorithm)
