"""Members of both runtimes log in by OAUTHBEARER, and their tokens are renewed under load: no task stops.

The tests in ``test_oauth_renewals.py`` show the same of the clients in Python with tokens of seconds.
"""

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from cooperator.artifacts import resolve, use_archive
from cooperator.connect.jvm import login_options
from cooperator.connect.properties import SecretFiles, security_settings
from cooperator.connectors.topics import ensure_topic
from cooperator.crd.kafka import Kafka, SecurityProtocol
from cooperator.host.security import client_settings
from cooperator.leader.service import LeaderService
from tests.harness.authorization_server import AUDIENCE, AuthorizationServer
from tests.harness.connect_worker import ConnectWorker
from tests.harness.member_group import MemberGroup
from tests.harness.secured import oauth_broker
from tests.harness.support import eventually
from tests.stock.worker_group import StockGroup, doubled, missing

pytestmark = [pytest.mark.real, pytest.mark.timeout(2400)]

SECRETS = {"leader": "leader-planted-1", "member": 'member "planted" 2', "stock": "stock-planted-3"}
FILE_SUBJECT = "system:serviceaccount:default:lake"
PATIENCE_S = 240.0
COPIES = {name: {"connector.class": "kafka-to-kafka", "trigger.interval.ms": "500"} for name in ("a", "b")}
PIPES = {
    name: {
        "connector.class": "spark",
        "source.format": "kafka",
        "source.options.startingOffsets": "earliest",
        "sink.format": "kafka",
        "transform.sql": "SELECT key, value FROM input",
    }
    for name in ("c", "d")
}


@dataclass
class Secured:
    """``servers`` accept tokens only; ``plain`` is for the test's own reads and writes."""

    authority: AuthorizationServer
    plain: str
    servers: str
    folder: Path
    written: Counter[str] = field(default_factory=Counter)

    def login(self, client: str) -> Mapping[str, object]:
        return client_settings(
            SecurityProtocol.SASL_PLAINTEXT,
            mechanism="OAUTHBEARER",
            username=client,
            password=SECRETS[client],
            token_endpoint_url=self.authority.url,
        )

    def secret(self, name: str, text: str) -> str:
        """A file with a secret, as Kubernetes mounts a Secret."""
        file = self.folder / "secrets" / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
        return str(file)

    @property
    def token_file(self) -> Path:
        return self.folder / "token"


@dataclass(frozen=True)
class Renewals:
    lifetime_s: float
    count: int
    stock_by_file: bool
    """Whether the stock worker's tokens come from a file."""


@pytest.fixture(
    params=[Renewals(20, 3, True), Renewals(60, 20, False)], ids=["20-second-tokens", "60-second-tokens"]
)
def renewals(request: pytest.FixtureRequest) -> Renewals:
    found: Renewals = request.param
    return found


@pytest.fixture
def secured(tmp_path: Path, renewals: Renewals) -> Iterator[Secured]:
    with secured_for(renewals.lifetime_s, tmp_path / "oauth") as secured:
        yield secured


@contextmanager
def secured_for(lifetime_s: float, folder: Path) -> Iterator[Secured]:
    """Tokens last for ``lifetime_s``, and a connection no longer than its token."""
    with AuthorizationServer(dict(SECRETS), lifetime_s) as authority:
        folder.mkdir()
        broker, servers = oauth_broker(folder, authority.jwks(), AUDIENCE, round(lifetime_s * 1000))
        broker.start()
        try:
            yield Secured(authority, broker.bootstrap_servers, servers, folder)
        finally:
            broker.kill()


@pytest.fixture
def group(secured: Secured, unique: str, tmp_path: Path) -> Iterator[MemberGroup]:
    group = MemberGroup(secured.servers, tmp_path / "stage", unique)
    group.directory.mkdir()
    yield group
    group.close()


@pytest.fixture
def stock(secured: Secured, unique: str, tmp_path: Path) -> Iterator[StockGroup]:
    with stock_group(secured, unique, tmp_path) as stock:
        yield stock


@contextmanager
def stock_group(secured: Secured, unique: str, folder: Path) -> Iterator[StockGroup]:
    stock = StockGroup(secured.plain, folder / "stock", f"{unique}-stock")
    stock.directory.mkdir()
    yield stock
    stock.close()


def connectors(group_id: str) -> dict[str, dict[str, str]]:
    source = f"{group_id}-from"
    copies = {
        name: {**config, "topics": source, "topic": f"{group_id}-{name}"} for name, config in COPIES.items()
    }
    pipes = {
        name: {**config, "source.options.subscribe": source, "sink.options.topic": f"{group_id}-{name}"}
        for name, config in PIPES.items()
    }
    return {**copies, **pipes}


def values(secured: Secured, topic: str) -> Counter[str]:
    """The committed values of the topic's only partition."""
    settings = {"group.id": "looks", "enable.auto.commit": False, "enable.partition.eof": True}
    consumer = Consumer({"bootstrap.servers": secured.plain, **settings})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: Counter[str] = Counter()
    while (message := consumer.poll(30)) is not None and message.error() is None:
        value = message.value()
        assert value is not None
        found[value.decode()] += 1
    assert message is not None, topic
    consumer.close()
    return found


def stock_worker(secured: Secured, stock: StockGroup, *, by_file: bool) -> ConnectWorker:
    """A worker with the settings that the operator renders for its pods. ``by_file``: its tokens come from
    a file."""
    url = secured.token_file.as_uri() if by_file else secured.authority.url
    projected = {"mechanism": "OAUTHBEARER", "oauthbearer": {"serviceAccountToken": {"audience": AUDIENCE}}}
    credentials = {
        "mechanism": "OAUTHBEARER",
        "secretRef": {"name": "stock"},
        "oauthbearer": {"tokenEndpointUrl": secured.authority.url, "scope": "kafka"},
    }
    kafka = Kafka.model_validate(
        {"securityProtocol": "SASL_PLAINTEXT", "sasl": projected if by_file else credentials}
    )
    folder = secured.folder / "stock"
    folder.mkdir()
    (folder / "username").write_text("stock")
    (folder / "password").write_text(SECRETS["stock"])
    files = SecretFiles(sasl="" if by_file else str(folder), token_url=url)
    security = security_settings(kafka, files)
    # A properties file, in which a backslash escapes.
    security = {name: value.replace("\\", "\\\\") for name, value in security.items()}
    of_clients = {
        f"{client}.{name}": text for client in ("producer", "consumer") for name, text in security.items()
    }
    providers = {
        "config.providers": ",".join(files.providers),
        **{
            f"config.providers.{name}.{key}": value
            for name, provider in files.providers.items()
            for key, value in provider.items()
        },
    }
    settings = {"bootstrap.servers": secured.servers, **security, **of_clients, **providers}
    worker = ConnectWorker(secured.plain, stock.group_id, stock.directory, identity="w-0", settings=settings)
    stock.workers["w-0"] = worker
    worker.start((*use_archive("connect-4", resolve("kafka")), *login_options(url)))
    return worker


def all_running(leader: LeaderService, tasks: int) -> bool:
    seen = leader.status().get("tasks", ())
    return len(seen) == tasks and all(task["state"] == "RUNNING" for task in seen)


BRIEF_S = 10.0
"""The lifetime of tokens that a test waits for."""


def test_a_stock_worker_logs_in_and_outlives_its_tokens(tmp_path: Path, unique: str) -> None:
    """Its clients in Java, with what the operator renders for its pods."""
    with (
        secured_for(BRIEF_S, tmp_path / "oauth") as secured,
        stock_group(secured, unique, tmp_path) as stock,
    ):
        worker = stock_worker(secured, stock, by_file=False)
        login = {"bootstrap_servers": secured.servers, "security": secured.login("leader")}
        leader = stock.leader({"numbers": stock.source("numbers", tasks=1)}, ("w-0",), **login)
        stock.runs("numbers-instance", "numbers-0")
        stock.leads(leader, 1)
        starts, before = stock.starts(), stock.written("numbers")

        # Since then no token is valid any more that was valid now, and no connection has lasted.
        expired = time.monotonic() + BRIEF_S
        issued = secured.authority.count("stock")
        eventually(lambda: time.monotonic() > expired, what="all tokens have expired")
        assert secured.authority.count("stock") > issued

        stock.written("numbers", stock.written("numbers", before))
        assert stock.starts() == starts, "no task has stopped"
        assert (missing(stock.numbers("numbers")), doubled(stock.numbers("numbers"))) == ({}, {})
        shown = [*SECRETS.values(), *secured.authority.tokens]
        assert not [secret for secret in shown if secret in worker.log.read_text(errors="replace")]


@pytest.mark.long("tests/integration/test_oauth.py::test_a_stock_worker_logs_in_and_outlives_its_tokens")
def test_no_task_stops_while_tokens_are_renewed(
    secured: Secured, group: MemberGroup, stock: StockGroup, renewals: Renewals
) -> None:
    wanted = connectors(group.group_id)
    topics = {name: f"{group.group_id}-{name}" for name in ("from", *wanted)}
    for topic in topics.values():
        ensure_topic({"bootstrap.servers": secured.plain}, topic, 1, -1)
    secured.authority.write_token(secured.token_file, FILE_SUBJECT)
    # Two runtimes, three sources of tokens.
    leader = group.leader(wanted, ("s-0", "s-1"), security=secured.login("leader"))
    common = {"runtime": "spark", "heap_mb": "512", "security_protocol": "SASL_PLAINTEXT"}
    group.member(
        "s-0",
        **common,
        sasl_mechanism="OAUTHBEARER",
        sasl_username_file=secured.secret("name", "member"),
        sasl_password_file=secured.secret("password", SECRETS["member"]),
        sasl_oauthbearer_token_endpoint_url=secured.authority.url,
    )
    group.member(
        "s-1",
        **common,
        sasl_mechanism="OAUTHBEARER",
        sasl_oauthbearer_token_endpoint_url=secured.token_file.as_uri(),
    )
    worker = stock_worker(secured, stock, by_file=renewals.stock_by_file)
    source = stock.source("numbers", tasks=2)
    stock_leader = stock.leader(
        {"numbers": source}, ("w-0",), bootstrap_servers=secured.servers, security=secured.login("leader")
    )
    producer = Producer({"bootstrap.servers": secured.plain, "linger.ms": 5})
    file_written_s = time.monotonic()

    def goes_on() -> None:
        """Load, and the kubelet's part: a new token after half of the lifetime of the last one.

        Java reads it after 80 %; with tokens of minutes it could read the old one once more.
        """
        nonlocal file_written_s
        if time.monotonic() - file_written_s > renewals.lifetime_s * 0.5:
            secured.authority.write_token(secured.token_file, FILE_SUBJECT)
            file_written_s = time.monotonic()
        value = f"record {len(secured.written)}"
        secured.written[value] += 1
        producer.produce(topics["from"], value, value)
        producer.poll(0)

    def settled() -> bool:
        goes_on()
        return all_running(leader, 2 * len(wanted)) and len(worker.running()) == 3

    eventually(settled, PATIENCE_S, "all tasks run")
    starts, stops, journal = group.starts(), group.stops(), stock.journal.starts()
    status = leader.status()["generation"], stock_leader.status()["generation"]
    assert {member for member, _ in starts} == {"s-0", "s-1"}
    duration_s = renewals.count * renewals.lifetime_s
    begun_s, issued = time.monotonic(), len(secured.authority.issued)

    def renewed() -> bool:
        goes_on()
        return time.monotonic() > begun_s + duration_s

    eventually(renewed, duration_s + 60)
    assert group.starts() == starts
    assert group.stops() == stops
    assert stock.journal.starts() == journal
    assert (leader.status()["generation"], stock_leader.status()["generation"]) == status
    assert all_running(leader, 2 * len(wanted))
    assert len(worker.running()) == 3
    clients = Counter(client for client, _ in secured.authority.issued[issued:])
    by_secret = SECRETS.keys() - ({"stock"} if renewals.stock_by_file else set())
    assert all(clients[client] >= renewals.count for client in by_secret), clients
    assert producer.flush(30) == 0
    for name in wanted:
        eventually(
            lambda n=name: values(secured, topics[n]) == secured.written, PATIENCE_S, f"{name} is exact"
        )
    written = [*group.directory.rglob("*.log"), *group.directory.rglob("*.out"), worker.log]
    texts = {path: path.read_text(errors="replace") for path in written}
    shown = [*SECRETS.values(), *secured.authority.tokens]
    assert not [path for path, text in texts.items() if any(secret in text for secret in shown)]
