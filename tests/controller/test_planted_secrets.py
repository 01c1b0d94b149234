"""Plants values in Secrets, then searches all written and displayed data for them."""

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

from cooperator.local.broker import EmbeddedBroker
from tests.harness.authorization_server import AUDIENCE, AuthorizationServer
from tests.harness.installation import RESOURCES, Installation
from tests.harness.searched import files, pages, processes, read_page
from tests.harness.secured import login_broker, oauth_broker
from tests.kubernetes.control_plane import ControlPlane

pytestmark = pytest.mark.real

PASSWORD = 'open "sesame" \\ planted-1'
TOKEN = 'to"ken \\ planted-2'
"""Planted values; they contain characters that JSON, quoting and URLs escape."""
VARIABLE = "COOPERATOR_PLANTED_TOKEN"


def written(value: str) -> set[bytes]:
    """All encodings in which the value may appear in a text."""
    texts = {
        value,
        json.dumps(value)[1:-1],
        repr(value)[1:-1],
        quote(value),
        json.dumps(json.dumps(value))[3:-3],
    }
    return {text.encode() for text in texts} | {base64.b64encode(value.encode())}


@dataclass
class Secured:
    """``servers`` ask for a login as ``sasl`` says. ``tokens`` are those that have been issued."""

    broker: EmbeddedBroker
    servers: str
    sasl: Mapping[str, object]
    tokens: Sequence[str] = ()


def by_password(folder: Path) -> Iterator[Secured]:
    yield Secured(*login_broker(folder, PASSWORD), {"mechanism": "PLAIN", "secretRef": {"name": "login"}})


def by_tokens(folder: Path) -> Iterator[Secured]:
    with AuthorizationServer({"ada": PASSWORD}, lifetime_s=10) as authority:
        made = oauth_broker(folder, authority.jwks(), AUDIENCE, 10_000)
        oauth = {"tokenEndpointUrl": authority.url, "scope": "kafka"}
        sasl = {"mechanism": "OAUTHBEARER", "secretRef": {"name": "login"}, "oauthbearer": oauth}
        yield Secured(*made, sasl, authority.tokens)
        assert authority.refused == 0


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(by_password, id="PLAIN"),
        pytest.param(
            by_tokens,
            id="OAUTHBEARER",
            marks=pytest.mark.long(
                "tests/controller/test_planted_secrets.py::"
                "test_no_secret_is_in_a_topic_a_log_a_status_an_event_a_metric_an_argument_or_a_file"
            ),
        ),
    ],
)
def secured(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Secured]:
    for found in request.param(tmp_path_factory.mktemp("secured")):
        found.broker.start()
        yield found
        found.broker.kill()


@pytest.fixture
def installation(
    prepared: ControlPlane,
    namespace: str,
    secured: Secured,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Installation]:
    monkeypatch.setenv(VARIABLE, TOKEN)
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    installation = Installation(prepared, namespace, secured.servers, tmp_path)
    yield installation
    installation.close()


def topics(servers: str) -> dict[str, bytes]:
    """Keys, values and headers of all records of all topics, by partition."""
    settings = {"enable.auto.commit": False, "enable.partition.eof": True, "log_level": 0}
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "reader", **settings})
    found = {}
    try:
        for name, topic in consumer.list_topics(timeout=10).topics.items():
            for number in topic.partitions:
                consumer.assign([TopicPartition(name, number, OFFSET_BEGINNING)])
                parts = [b""]
                while (message := consumer.poll(10)) is not None and message.error() is None:
                    parts += [message.key() or b"", message.value() or b"", repr(message.headers()).encode()]
                assert message is not None, f"{name} was read to its end"
                assert message.error().code() == KafkaError._PARTITION_EOF
                found[f"topic {name}-{number}"] = b"\n".join(parts)
    finally:
        consumer.close()
    return found


def objects(installation: Installation) -> dict[str, bytes]:
    core = f"/api/v1/namespaces/{installation.namespace}"
    own = f"{RESOURCES}/{installation.namespace}"
    paths = [f"{core}/{kind}" for kind in ("pods", "events", "configmaps", "services")]
    paths += [f"{own}/{kind}" for kind in ("workers", "connectors")]
    paths.append(f"/apis/apps/v1/namespaces/{installation.namespace}/controllerrevisions")
    return {path: json.dumps(installation.cluster.api.get(path)).encode() for path in paths}


def test_no_secret_is_in_a_topic_a_log_a_status_an_event_a_metric_an_argument_or_a_file(
    installation: Installation, secured: Secured
) -> None:
    data = {"username": "ada", "password": PASSWORD}
    installation.cluster.apply(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "login", "namespace": installation.namespace},
            "data": {name: base64.b64encode(value.encode()).decode() for name, value in data.items()},
        }
    )
    installation.kubelet.forks = False  # Arguments of processes are searched, too.
    operator = installation.operator()
    installation.worker(
        replicas=2,
        kafka={"securityProtocol": "SASL_PLAINTEXT", "sasl": secured.sasl},
        envAllowed=[VARIABLE],
    )
    reference = f"${{env:{VARIABLE}}}"
    installation.connector("a", tasksMax=2)
    installation.connector("fails", tasksMax=1, config={"start.failure": f"cannot log in by {reference}"})
    installation.connector("misread", tasksMax=1, config={"units": reference})
    installation.connector("password", tasksMax=1, config={"start.failure": "I am ${worker.sasl.password}"})
    installation.runs("a-0", "a-1")
    only = "uses ${worker.sasl.password}, which only option sasl.password may be"
    for name, shown in (("fails", "***"), ("password", only), ("misread", VARIABLE)):
        installation.eventually(
            lambda name=name, shown=shown: (
                shown in json.dumps(installation.get("connectors", name)["status"])
            ),
            90,
            f"the status of {name} has its error, without the value",
        )
    installation.kubelet.crash("lake-1")
    installation.eventually(
        lambda: installation.pods()["lake-1"]["status"]["containerStatuses"][0]["restartCount"] == 1
    )
    installation.runs("a-0", "a-1")

    containers = installation.kubelet.containers.values()
    everything = {
        "metrics of the operator": read_page(f"{operator.url}metrics"),
        **topics(secured.broker.bootstrap_servers),
        **objects(installation),
        **processes(),
        # The kubelet writes the Secret itself where the member reads it.
        **files(installation.directory, installation.kubelet.folder, except_below="kafka-sasl"),
    }
    for container in containers:
        everything |= pages(container.folder / "log")
    for what in ("layout.json", "/tasks/a/0/story", "/metrics", "/log"):
        assert any(where.endswith(what) for where in everything), f"{what} is searched"
    assert any(VARIABLE.encode() in text for text in everything.values()), "the search sees what is there"
    found = {
        where
        for where, text in everything.items()
        for value in (PASSWORD, TOKEN, *secured.tokens)
        if any(w in text for w in written(value))
    }
    assert found == set()
