"""The operator's Kafka credentials as Secrets are created, changed and deleted."""

import base64
from pathlib import Path
from typing import Any

from cooperator.controller.api.access import KafkaAccess
from cooperator.controller.api.client import Api, ApiError, Kind
from cooperator.crd import Worker, parse
from cooperator.host.security import OwnToken


class Secrets(Api):
    """An API server that has one Secret, or none, or does not answer."""

    def __init__(self) -> None:
        self.password: str | None = None
        self.away = False
        self.asked = 0

    def get(self, kind: Kind, namespace: str | None, name: str) -> dict[str, Any]:
        self.asked += 1
        if self.away:
            raise ApiError(0, "Unreachable", "the API server does not answer")
        if self.password is None:
            raise ApiError(404, "NotFound", f"secrets {name!r} not found")
        values = {"username": "ada", "password": self.password}
        return {"data": {key: base64.b64encode(value.encode()).decode() for key, value in values.items()}}


def worker(nonce: str, mechanism: str = "PLAIN") -> Worker:
    """Another nonce is another spec, for which Secrets are read at once."""
    [found] = parse(
        "apiVersion: cooperator.dev/v1alpha1\nkind: Worker\nmetadata: {name: lake}\n"
        f"spec: {{restartNonce: {nonce}, kafka: {{securityProtocol: SASL_PLAINTEXT, "
        f"sasl: {{mechanism: {mechanism}, secretRef: {{name: login}}}}}}}}",
        "t",
    )
    assert isinstance(found, Worker)
    return found


def test_the_way_in_is_as_the_secret_says_now(tmp_path: Path) -> None:
    api = Secrets()
    access = KafkaAccess(api, tmp_path)

    access.renew(worker("a"))
    assert access.settings is None
    assert "there is no Secret 'login'" in access.refusal

    api.password = "first"
    access.renew(worker("b"))
    assert access.settings is not None
    assert (access.settings["sasl_plain_password"], access.refusal) == ("first", "")

    api.password = "second"
    access.renew(worker("b"))
    assert access.settings["sasl_plain_password"] == "first", "it was read just now"
    access.renew(worker("c"))
    assert access.settings["sasl_plain_password"] == "second"

    api.password = None
    access.renew(worker("d"))
    assert access.settings is None
    assert "there is no Secret 'login'" in access.refusal


def test_an_api_server_that_is_away_changes_nothing_but_is_no_source_of_another_way(tmp_path: Path) -> None:
    api = Secrets()
    api.password = "first"
    access = KafkaAccess(api, tmp_path)
    access.renew(worker("a"))
    known = access.settings

    api.away = True
    access.renew(worker("b"))
    assert access.settings == known
    assert "does not answer" in access.refusal

    access.renew(worker("c", mechanism="SCRAM-SHA-256"))
    assert access.settings is None


def test_without_security_no_secret_is_read(tmp_path: Path) -> None:
    [plain] = parse(
        "apiVersion: cooperator.dev/v1alpha1\nkind: Worker\nmetadata: {name: lake}\nspec: {}", "t"
    )
    assert isinstance(plain, Worker)
    api = Secrets()
    access = KafkaAccess(api, tmp_path)
    access.renew(plain)
    assert (access.settings, access.refusal, api.asked) == ({}, "", 0)


def with_token(servers: str) -> Worker:
    [found] = parse(
        "apiVersion: cooperator.dev/v1alpha1\nkind: Worker\nmetadata: {name: lake}\n"
        f"spec: {{{servers} kafka: {{securityProtocol: SASL_SSL, sasl: {{mechanism: OAUTHBEARER, "
        "oauthbearer: {serviceAccountToken: {audience: kafka}}}}}",
        "t",
    )
    assert isinstance(found, Worker)
    return found


def test_the_operators_own_token_is_for_its_own_brokers_only(tmp_path: Path) -> None:
    access = KafkaAccess(Secrets(), tmp_path, OwnToken(tmp_path / "token", "kafka"), "kafka:9093")

    for servers in ("", "bootstrapServers: 'kafka:9093',"):
        access.renew(with_token(servers))
        assert access.settings is not None, access.refusal
        assert access.settings["sasl_oauth_token_provider"].login.file == tmp_path / "token"

    # The author of a Worker chooses the brokers, and could log in elsewhere as the operator.
    for servers in ("mirror:9093", "kafka:9093,mirror:9093", "KAFKA:9093"):
        access.renew(with_token(f"bootstrapServers: '{servers}',"))
        assert access.settings is None
        assert "the operator has no token for these brokers" in access.refusal
