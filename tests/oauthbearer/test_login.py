"""Settings of a login by OAUTHBEARER: what is refused, and what each client is told."""

import base64
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cooperator.oauthbearer import LoginInvalid, OAuthLogin, Tokens, java_properties, librdkafka_properties
from cooperator.oauthbearer.login import expiry_s, url_problem

ENDPOINT = "https://idp.example/realms/kafka/token"
LOGIN = OAuthLogin(ENDPOINT, "lake", 'se"c\\ret', "kafka", "/ca.crt")


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("idp.example/token", "is not the URL of a token endpoint: use https://HOST/PATH"),
        ("ftp://idp.example/token", "is not the URL of a token endpoint: use https://HOST/PATH"),
        ("https:///token", "is not the URL of a token endpoint: use https://HOST/PATH"),
        ("https://idp.example:0/token", "is not the URL of a token endpoint: use https://HOST/PATH"),
        ("https://idp.example:x/token", "is not a URL"),
        ("https://[::1/token", "is not a URL"),
        (
            "https://ada:sesame@idp.example/token",
            "contains a user name or a password: remove them, and set sasl",
        ),
        (
            "https://idp.example/token?scope=a",
            "has a query or a fragment: remove it; set sasl.oauthbearer.scope",
        ),
        ("https://idp.example/to ken", "contains a blank or a control character"),
        ("file://host/token", "names no absolute path"),
        ("file:token", "names no absolute path"),
    ],
)
def test_a_url_that_leads_to_no_token_is_refused_without_being_shown(url: str, said: str) -> None:
    with pytest.raises(LoginInvalid, match=f"^sasl.oauthbearer.token.endpoint.url {said}") as refused:
        OAuthLogin(url, "lake", "secret")
    assert "sesame" not in str(refused.value)


@pytest.mark.parametrize("missing", ["id", "secret"])
def test_client_credentials_need_both_parts(missing: str) -> None:
    client = {"client_id": "lake", "client_secret": "sesame", f"client_{missing}": ""}
    with pytest.raises(LoginInvalid, match=rf"^sasl.oauthbearer.client.{missing} is empty.*: set it$"):
        OAuthLogin(ENDPOINT, **client)


@given(st.text())
def test_any_text_is_a_url_or_a_problem(text: str) -> None:
    if not url_problem(text):
        assert text.startswith(("file:", "http:", "https:", "HTTP")) or "://" in text


def test_a_login_never_shows_its_secret() -> None:
    assert LOGIN.client_secret not in repr(LOGIN) + repr(Tokens(LOGIN))


def test_librdkafka_fetches_tokens_of_client_credentials_itself() -> None:
    assert librdkafka_properties(LOGIN) == {
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.token.endpoint.url": ENDPOINT,
        "sasl.oauthbearer.client.id": "lake",
        "sasl.oauthbearer.client.secret": 'se"c\\ret',
        "sasl.oauthbearer.scope": "kafka",
        "https.ca.location": "/ca.crt",
    }


def test_librdkafka_is_given_the_token_in_a_file() -> None:
    found = librdkafka_properties(OAuthLogin("file:///run/token%201"))
    assert found == {"oauth_cb": Tokens(OAuthLogin("file:///run/token%201"))}
    assert found["oauth_cb"].login.file == Path("/run/token 1")


def test_java_is_told_by_jaas_with_every_character_quoted() -> None:
    made = java_properties(LOGIN, {"ssl.truststore.certificates": "-----BEGIN\nMII"})
    assert made["sasl.jaas.config"].endswith(
        'OAuthBearerLoginModule required clientId="lake" clientSecret="se\\"c\\\\ret" scope="kafka" '
        'ssl.truststore.certificates="-----BEGIN\\nMII";'
    )
    assert made["sasl.oauthbearer.token.endpoint.url"] == ENDPOINT


def jwt(claims: object) -> str:
    parts = ({"alg": "RS256"}, claims)
    encoded = [base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in parts]
    return ".".join((*encoded, "signature"))


@given(st.integers(0, 2**40))
def test_a_token_tells_when_it_expires(expires: int) -> None:
    assert expiry_s(jwt({"exp": expires})) == expires


@pytest.mark.parametrize(
    "token", ["", "opaque", "a.b.c", jwt([]), jwt({}), jwt({"exp": True}), jwt({"exp": "1"})]
)
def test_other_tokens_do_not_tell(token: str) -> None:
    assert expiry_s(token) is None


@given(st.text())
def test_no_text_is_more_than_a_token_that_does_not_tell(text: str) -> None:
    expiry_s(text)
