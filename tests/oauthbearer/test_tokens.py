"""Tokens are kept while they are fresh, renewed early, and never asked for by many at once."""

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from cooperator.group.library import _TokenProvider, errors
from cooperator.logs.kafka.settings import Access
from cooperator.oauthbearer import OAuthLogin, Tokens, TokenUnavailable
from cooperator.oauthbearer.tokens import token_of
from tests.harness.authorization_server import AuthorizationServer
from tests.harness.support import eventually
from tests.oauthbearer.test_login import jwt

LOGIN = OAuthLogin("https://idp.example/token", "lake", "sesame")
NOW_S = 1_000_000.0


def answer(lifetime_s: float, value: str = "token") -> bytes:
    return json.dumps({"access_token": value, "expires_in": lifetime_s}).encode()


def source(
    *answers: bytes | Exception, now_s: Callable[[], float] = time.time
) -> tuple[Tokens, Callable[[], int]]:
    """Tokens of an endpoint that gives these answers in turn, and the number of requests so far."""
    left = list(answers)

    def fetch(_: OAuthLogin) -> bytes:
        found = left.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    return Tokens(LOGIN, fetch, now_s), lambda: len(answers) - len(left)


def test_a_fresh_token_is_not_fetched_again() -> None:
    tokens, requests = source(answer(3600))
    assert {tokens.token() for _ in range(5)} == {"token"}
    assert requests() == 1


def test_a_token_is_due_for_renewal_after_four_fifths_of_its_lifetime() -> None:
    token = token_of(answer(100), NOW_S)
    assert (token.refresh_at_s - NOW_S, token.expires_at_s - NOW_S) == (80, 100)


def test_the_tokens_own_expiry_wins_over_the_answers() -> None:
    body = json.dumps({"access_token": jwt({"exp": NOW_S + 10}), "expires_in": 100}).encode()
    assert token_of(body, NOW_S).expires_at_s == NOW_S + 10


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"<html>", "is not JSON: check the URL"),
        (b"[]", "has no access_token: check the URL"),
        (b'{"access_token": 7}', "has no access_token: check the URL"),
        (b'{"access_token": "a\\nb"}', "has characters that no token has"),
        (json.dumps({"access_token": jwt({"exp": NOW_S - 1})}).encode(), "has expired: check the clocks"),
    ],
)
def test_an_answer_without_a_usable_token_is_explained(body: bytes, said: str) -> None:
    with pytest.raises(TokenUnavailable, match=said):
        token_of(body, NOW_S)


def test_a_token_serves_on_while_its_endpoint_is_away_until_it_expires() -> None:
    clock = [NOW_S]
    tokens, requests = source(answer(100), OSError("away"), OSError("away"), now_s=lambda: clock[0])
    assert tokens.token() == "token"
    clock[0] += 81
    assert tokens.token() == "token"
    assert requests() == 2
    clock[0] += 20
    with pytest.raises(TokenUnavailable, match="away"):
        tokens.token()


def test_the_next_token_replaces_one_that_is_due() -> None:
    clock = [NOW_S]
    tokens, _ = source(answer(100), answer(100, "next"), now_s=lambda: clock[0])
    assert tokens.token() == "token"
    clock[0] += 81
    assert tokens.token() == "next"


def test_without_a_token_the_reason_is_said_and_the_secret_is_not() -> None:
    tokens, _ = source(OSError("away"))
    with pytest.raises(TokenUnavailable, match=r"^no token from https://idp.example/token: away$"):
        tokens.token()


def test_an_unforeseen_failure_is_named_without_its_text() -> None:
    tokens, _ = source(RuntimeError("sesame"))
    with pytest.raises(TokenUnavailable, match=r"^no token from https://idp.example/token: RuntimeError$"):
        tokens.token()


def test_a_failed_endpoint_is_asked_once_a_second() -> None:
    clock = [NOW_S]
    tokens, requests = source(OSError("away"), answer(100), now_s=lambda: clock[0])
    for _ in range(5):
        with pytest.raises(TokenUnavailable):
            tokens.token()
    assert requests() == 1
    clock[0] += 1
    assert tokens.token() == "token"


def test_many_who_ask_at_the_same_time_share_one_request() -> None:
    let_go = threading.Event()
    requests = []

    def fetch(_: OAuthLogin) -> bytes:
        requests.append(1)
        let_go.wait(10)
        return answer(100)

    tokens = Tokens(LOGIN, fetch)
    found: list[str] = []
    threads = [threading.Thread(target=lambda: found.append(tokens.current(10).value)) for _ in range(8)]
    for thread in threads:
        thread.start()
    eventually(lambda: requests)
    let_go.set()
    for thread in threads:
        thread.join()
    assert found == ["token"] * 8
    assert len(requests) == 1


def test_a_caller_never_waits_longer_than_it_says() -> None:
    never = threading.Event()
    tokens = Tokens(LOGIN, lambda _: answer(100) if never.wait(30) else b"")
    with pytest.raises(TokenUnavailable, match="no answer yet"):
        tokens.current(wait_s=0.05)
    never.set()


def test_a_token_file_is_read_anew_each_time(tmp_path: Path) -> None:
    file = tmp_path / "token"
    tokens = Tokens(OAuthLogin(file.as_uri()))
    with pytest.raises(TokenUnavailable, match=rf"^no token in {file}: No such file.*: mount it there$"):
        tokens.token()
    for value in ("first", "second"):
        file.write_text(f"{value}\n")
        assert tokens.token() == value
    file.write_text(jwt({"exp": 1}))
    with pytest.raises(TokenUnavailable, match=rf"^no token in {file}: the token has expired"):
        tokens.token()


def test_equal_logins_are_one_access_and_another_secret_is_another_one() -> None:
    def access(secret: str) -> Access:
        login = OAuthLogin("https://idp.example/token", "lake", secret)
        return Access.of("kafka:9092", {"sasl_oauth_token_provider": Tokens.of(login)})

    assert access("a") == access("a")
    assert hash(access("a")) == hash(access("a"))
    assert access("a") != access("b")
    assert Tokens.of(LOGIN) is Tokens.of(OAuthLogin("https://idp.example/token", "lake", "sesame"))


def test_kafka_python_takes_a_missing_token_for_a_failed_connection() -> None:
    tokens, _ = source(OSError("away"))
    with pytest.raises(errors.KafkaConnectionError, match=r"no token from https://idp.example/token: away"):
        _TokenProvider(tokens).token()


def test_a_real_endpoint_gives_tokens_for_the_right_secret_only() -> None:
    with AuthorizationServer({"lake": "s:e+s&ame"}) as server:
        right = Tokens(OAuthLogin(server.url, "lake", "s:e+s&ame", "kafka orders"))
        assert right.token() in server.tokens
        assert server.scopes == {"kafka orders"}
        wrong = Tokens(OAuthLogin(server.url, "lake", "barley"))
        with pytest.raises(TokenUnavailable, match=r"answers 401: check client id and client secret$"):
            wrong.token()
