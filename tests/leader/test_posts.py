"""Requests of a connector's instance that the leader accepts or refuses, with their codes."""

import json

import pytest

from cooperator.leader.stock.posts import PostRefused, read_task_configs
from cooperator.model import SessionKey
from cooperator.wire import sign

KEY = SessionKey(b"0123456789abcdef", "HmacSHA256", 0)
CONFIGS = [{"units": "0,1"}, {"units": "2"}]
BODY = json.dumps(CONFIGS).encode()


def refusal(body: bytes, headers: dict[str, str], key: SessionKey | None = KEY) -> int:
    with pytest.raises(PostRefused) as refused:
        read_task_configs(body, headers, key, "sessioned")
    return refused.value.code


def test_a_signed_request_is_read() -> None:
    assert read_task_configs(BODY, sign(KEY, BODY), KEY, "sessioned") == tuple(CONFIGS)


def test_without_a_session_key_the_sender_tries_again() -> None:
    assert refusal(BODY, sign(KEY, BODY), key=None) == 503


def test_an_unsigned_request_is_refused() -> None:
    assert refusal(BODY, {}) == 400


def test_a_signature_of_another_body_is_refused() -> None:
    assert refusal(BODY, sign(KEY, b"[]")) == 403


def test_a_signature_by_another_key_is_refused() -> None:
    assert refusal(BODY, sign(SessionKey(b"other", "HmacSHA256", 0), BODY)) == 403


@pytest.mark.parametrize("body", [b"", b"{}", b"[1]", b'[{"units": 1}]', b"\xff", b'[["a"]]'])
def test_a_body_that_is_no_list_of_string_maps_is_refused(body: bytes) -> None:
    assert refusal(body, sign(KEY, body)) == 400


@pytest.mark.parametrize(
    "body",
    [
        b'[{"units": "\\ud800"}]',
        b"[" * 100_000,
        json.dumps([{"units": "x" * 1_000_000}]).encode(),
        json.dumps([{}] * 40_001).encode(),
    ],
    ids=["half a character", "deep", "large", "many"],
)
def test_an_oversized_configuration_is_refused_and_the_leader_continues(body: bytes) -> None:
    assert refusal(body, sign(KEY, body)) == 400


def test_a_group_of_the_older_protocol_does_not_sign() -> None:
    assert read_task_configs(BODY, {}, None, "compatible") == tuple(CONFIGS)
