"""Logins by OAUTHBEARER on a real broker: tokens of seconds are renewed, and no connection ends."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import Producer

from cooperator.connectors.access import of_librdkafka
from cooperator.connectors.kafka_to_kafka import KafkaToKafkaOptions
from cooperator.connectors.options import resolved_options
from cooperator.connectors.references import Resolver
from cooperator.crd.kafka import SecurityProtocol
from cooperator.host.security import client_settings
from cooperator.logs import LogsConfig, ensure_topics, open_logs
from cooperator.wire import Role
from tests.group.recording_member import RecordingMember, all_in
from tests.harness.authorization_server import AUDIENCE, AuthorizationServer
from tests.harness.secured import oauth_broker
from tests.harness.support import eventually

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]

SECRETS = {"leader": 's"e\\cret 1', "member": "s3cret+2", "connector": "s3cret-3"}


class Case(NamedTuple):
    """``session_ms``: after how long a connection has to log in again."""

    lifetime_s: float
    session_ms: int
    renewals: int


@pytest.fixture(
    scope="module",
    params=[
        Case(60.0, 60_000, 0),
        # A processor that others use for a second ends such a session.
        pytest.param(
            Case(4.0, 2_000, 3),
            marks=pytest.mark.long(
                "tests/integration/test_oauth_renewals.py::"
                "test_a_leader_a_member_and_a_connector_outlive_their_tokens"
            ),
        ),
    ],
    ids=["logged in", "renewed"],
)
def case(request: pytest.FixtureRequest) -> Case:
    found: Case = request.param
    return found


@pytest.fixture(scope="module")
def authority(case: Case) -> Iterator[AuthorizationServer]:
    with AuthorizationServer(dict(SECRETS), case.lifetime_s) as server:
        yield server


@pytest.fixture(scope="module")
def servers(
    tmp_path_factory: pytest.TempPathFactory, authority: AuthorizationServer, case: Case
) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("oauth")
    broker, servers = oauth_broker(folder, authority.jwks(), AUDIENCE, case.session_ms)
    broker.start()
    yield servers
    broker.kill()


def login(authority: AuthorizationServer, client: str, secret: str = "") -> dict[str, object]:
    return dict(
        client_settings(
            SecurityProtocol.SASL_PLAINTEXT,
            mechanism="OAUTHBEARER",
            username=client,
            password=secret or SECRETS[client],
            token_endpoint_url=authority.url,
            scope="kafka",
        )
    )


def test_a_leader_a_member_and_a_connector_outlive_their_tokens(
    servers: str, authority: AuthorizationServer, case: Case, unique: str, tmp_path: Path
) -> None:
    file = tmp_path / "token"
    authority.write_token(file, "system:serviceaccount:default:lake")
    by_file = client_settings(
        SecurityProtocol.SASL_PLAINTEXT, mechanism="OAUTHBEARER", token_endpoint_url=file.as_uri()
    )
    leader = RecordingMember(
        servers, unique, "leader", Role.LEADER, "leader", security=login(authority, "leader")
    )
    member = RecordingMember(servers, unique, "member", security=login(authority, "member"))
    projected = RecordingMember(servers, unique, "projected", security=by_file)
    everyone = (leader, member, projected)
    for each in everyone:
        each.membership.start()
    eventually(lambda: all_in(*everyone), 60)
    config = LogsConfig(servers, unique, login(authority, "leader"))
    ensure_topics(config)
    logs = open_logs(config)
    options, _, _ = resolved_options(
        KafkaToKafkaOptions,
        {"connector.class": "kafka-to-kafka", "topics": "in", "topic": "out"},
        Resolver({}, bootstrap_servers=servers, security=login(authority, "connector")),
    )
    outages: list[object] = []
    producer = Producer({**of_librdkafka(options), "error_cb": outages.append})
    settled = [(each.generation, len(each.calls)) for each in everyone]
    delivered: list[object] = []

    def renewed() -> bool:
        authority.write_token(file, "system:serviceaccount:default:lake")
        producer.produce(f"{unique}-status", b"1", b"load", on_delivery=lambda e, _: delivered.append(e))
        producer.poll(0)
        return all(authority.count(client) > case.renewals for client in SECRETS)

    eventually(renewed, 60)
    assert producer.flush(20) == 0
    assert set(delivered) == {None}
    assert outages == []
    # Nobody was dropped, reported trouble, or took part in another round.
    assert [(each.generation, len(each.calls)) for each in everyone] == settled
    assert authority.scopes == {"kafka"}
    logs.close()
    for each in everyone:
        each.membership.stop(leave=True)


def test_a_wrong_secret_is_reported_without_it(
    servers: str, authority: AuthorizationServer, unique: str, caplog: pytest.LogCaptureFixture
) -> None:
    member = RecordingMember(servers, unique, "wrong", security=login(authority, "member", "open-barley"))
    member.membership.start()
    eventually(lambda: member.all("trouble"), 30)
    member.membership.stop(leave=False)
    assert authority.url in caplog.text + str(member.all("trouble"))
    assert "check client id and client secret" in caplog.text + str(member.all("trouble"))
    assert "open-barley" not in caplog.text + str(member.all("trouble"))
