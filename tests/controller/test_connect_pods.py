"""Pods of stock Connect workers, and the last steps of such a pod: no server needed."""

import dataclasses
import os
import shutil
import socketserver
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from cooperator.controller.manifests import connect_pods, pods
from cooperator.controller.manifests.children import children, references
from cooperator.controller.manifests.pins import latest
from cooperator.controller.manifests.pods import Defaults, image, pod_manifest, revision, template
from tests.controller.workers import worker

DEFAULTS = Defaults("registry.example/cooperator:1.0", "kafka:9092")
SECURED = (
    "{runtime: connect, kafka: {securityProtocol: SASL_PLAINTEXT, "
    "sasl: {mechanism: PLAIN, secretRef: {name: s1}}}}"
)


def stock(more: str = "") -> str:
    return f"{{runtime: connect{more}}}"


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (stock(), "apache/kafka:4.3.1"),
        (stock(", version: '3.9.1'"), "apache/kafka:3.9.1"),
        (stock(", image: 'host:5000/own:7'"), "host:5000/own:7"),
    ],
)
def test_the_image_is_a_stock_one(spec: str, expected: str) -> None:
    assert image(worker(spec), DEFAULTS) == expected


def test_the_images_own_script_is_given_the_settings_that_the_pod_carries() -> None:
    made = pod_manifest(worker(stock()), DEFAULTS, "lake-0", "r1")
    [container] = made["spec"]["containers"]

    assert container["command"] == [
        "/opt/kafka/bin/connect-distributed.sh",
        "/etc/cooperator/connect/worker.properties",
    ]
    assert "args" not in container
    [volume] = (volume for volume in made["spec"]["volumes"] if "downwardAPI" in volume)
    files = {
        item["path"]: made["metadata"]["annotations"][item["fieldRef"]["fieldPath"].split("'")[1]]
        for item in volume["downwardAPI"]["items"]
    }
    assert files.keys() == {"worker.properties", "log4j.properties", "log4j2.properties"}
    assert "bootstrap.servers=kafka:9092\n" in files["worker.properties"]
    assert "client.id=${cooperator-env:POD_NAME}\n" in files["worker.properties"]
    assert {variable["name"] for variable in container["env"]} >= {"POD_NAME", "POD_IP"}


def test_the_jvm_is_told_by_the_variables_that_kafkas_scripts_read() -> None:
    spec = stock(
        ", connect: {heapMb: 300, jvmOptions: [-XX:+UseG1GC], metrics: {jmxPort: 9999, "
        "javaAgent: '/a/b.jar=9404:/c', port: 9404}}"
    )
    [container] = template(worker(spec), DEFAULTS)["spec"]["containers"]
    variables = {variable["name"]: variable.get("value") for variable in container["env"]}

    assert variables["KAFKA_HEAP_OPTS"] == "-Xmx300m"
    assert variables["KAFKA_OPTS"] == "-XX:+UseG1GC -javaagent:/a/b.jar=9404:/c"
    assert variables["JMX_PORT"] == "9999"
    assert variables["LOG_DIR"].startswith("/tmp/"), "the image is read-only"
    # Kafka's script takes a file of log4j 1 that stands last for what Connect 4 is to read.
    assert (
        variables["KAFKA_LOG4J_OPTS"]
        .split()[-1]
        .startswith("-Dlog4j2.configurationFile=file:/etc/cooperator/")
    )
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports == {"rest": 8083, "jmx": 9999, "metrics": 9404}


def test_a_pod_is_as_restricted_as_members_on_spark_and_has_one_incarnation() -> None:
    spec = template(worker(stock()), DEFAULTS)["spec"]

    assert spec["restartPolicy"] == "Never"
    assert spec["securityContext"]["runAsUser"] == connect_pods.USER_ID
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["containers"][0]["securityContext"]["readOnlyRootFilesystem"] is True
    assert spec["readinessGates"]
    assert spec["terminationGracePeriodSeconds"] * 1000 > worker(stock()).spec.drain_timeout_ms


def test_secrets_are_mounted_and_named_and_not_in_the_pod() -> None:
    made = template(worker(SECURED), DEFAULTS)

    assert references(made) == {("Secret", "s1")}
    settings = made["metadata"]["annotations"][f"{connect_pods.FILES}worker.properties"]
    assert "${cooperator-files:/etc/cooperator/kafka/sasl:password}" in settings


def test_workers_are_replaced_when_what_they_are_started_with_changes_and_else_not() -> None:
    def of(spec: str, defaults: Defaults = DEFAULTS) -> str:
        return revision(worker(spec), defaults, {})

    same = of(stock())
    for more in ("scheduledRebalanceMaxDelayMs: 7", "fencing: BestEffort", "connect: {hungAfterMs: 9}"):
        assert of(stock(f", {more}")) == same, more
    assert of(stock(), Defaults("another", "elsewhere:9092")) == same
    for more in (
        "sessionTimeoutMs: 20000",
        "connect: {config: {a: b}}",
        "connect: {heapMb: 300}",
        "connect: {logLevels: {root: DEBUG}}",
        "connect: {jvmOptions: [-Da=b]}",
    ):
        assert of(stock(f", {more}")) != same, more


def test_workers_of_earlier_templates_keep_the_assignors_that_they_were_started_with() -> None:
    def made(version: int) -> tuple[str, str]:
        defaults = dataclasses.replace(DEFAULTS, render_version=version)
        annotations = template(worker(stock()), defaults)["metadata"]["annotations"]
        return annotations[f"{connect_pods.FILES}worker.properties"], revision(worker(stock()), defaults, {})

    before, after = made(1), made(2)
    assert "CooperativeStickyAssignor" not in before[0]
    assert "consumer.partition.assignment.strategy=" in after[0]
    assert before[1] != after[1]
    assert before[1] == "19752c1526", "another name rolls the workers of everybody who upgrades the operator"
    assert latest(worker(stock()), DEFAULTS).render_version == 2
    assert latest(worker(), DEFAULTS).render_version == pods.RENDER_VERSION


def test_the_service_leads_to_where_workers_listen() -> None:
    service = next(manifest for _, manifest in children(worker(stock())))
    assert service["spec"]["ports"][0]["port"] == 8083


# --- before the end


class Answers(socketserver.StreamRequestHandler):
    """The REST API of a worker, as far as a pod asks it about its end."""

    def handle(self) -> None:
        while self.rfile.readline().strip():
            pass
        owned: Callable[[], int] = self.server.owned  # type: ignore[attr-defined]
        tasks = ",".join(
            f'{{"id":{n},"state":"RUNNING","worker_id":"127.0.0.1:{self.server.server_address[1]}"}}'
            for n in range(owned())
        )
        other = '{"id":9,"state":"RUNNING","worker_id":"127.0.0.1:1"}'
        self.wfile.write(f'HTTP/1.1 200 OK\r\n\r\n{{"a":{{"tasks":[{tasks},{other}]}}}}'.encode())


@contextmanager
def serving(owned: Callable[[], int]) -> Iterator[int]:
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Answers) as server:
        server.daemon_threads = True
        server.owned = owned  # type: ignore[attr-defined]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


def pre_stop_s(port: int, limit_s: int = 60) -> float:
    """Seconds that a pod waits before it stops its worker; its limit is 2 s."""
    assert shutil.which("bash")
    script = connect_pods.pre_stop(worker(stock(f", drainTimeoutMs: {limit_s * 1000}")))
    patience = f">= {connect_pods.PATIENCE_S + 6}))"
    assert patience in script
    script = script.replace(patience, ">= 2))").replace(str(connect_pods.PORT), str(port))
    began = time.monotonic()
    subprocess.run(["sh", "-c", script], env={**os.environ, "POD_IP": "127.0.0.1"}, check=True, timeout=120)
    return time.monotonic() - began


def test_a_pod_waits_until_its_worker_owns_nothing() -> None:
    left = iter((4, 3, 2, 1, 0))
    with serving(lambda: next(left)) as port:
        pre_stop_s(port)
    assert next(left, None) is None, "it has asked until there was nothing"


def test_a_pod_from_which_nobody_takes_anything_does_not_wait_long() -> None:
    with serving(lambda: 3) as port:
        assert pre_stop_s(port) < 30


def test_a_pod_whose_worker_does_not_answer_does_not_wait_long() -> None:
    assert pre_stop_s(1) < 30


def test_no_wait_is_longer_than_the_drain_may_take() -> None:
    left = iter(range(1_000, 0, -1))
    with serving(lambda: next(left)) as port:
        assert pre_stop_s(port, limit_s=3) < 30
