"""``kubectl cooperator`` through the real kubectl, against a real API server, an operator and members."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka import Producer

from cooperator.connectors.topics import ensure_topic
from cooperator.controller.names import OFFSETS_REQUEST, OFFSETS_RESULT
from tests.harness.forked import run_forked
from tests.harness.installation import RESOURCES, SIX, Installation, started
from tests.kubernetes.control_plane import ControlPlane

pytestmark = pytest.mark.real

PROGRAMS = Path(sys.executable).parent


class Person:
    """Somebody at a terminal: kubectl, our plug-ins on the path, and a kubeconfig."""

    def __init__(self, cluster: ControlPlane, namespace: str, kubeconfig: Path | None = None) -> None:
        self._kubectl = cluster.programs["kubectl"]
        self._namespace = namespace
        self._environment = {
            **os.environ,
            "PATH": f"{PROGRAMS}:{os.environ['PATH']}",
            "KUBECONFIG": str(kubeconfig or cluster.kubeconfig),
        }

    def kubectl(self, *words: str, code: int = 0, **environment: str) -> str:
        """Returns the output of both streams; asserts the exit code and that there is no traceback."""
        done = subprocess.run(
            [self._kubectl, *words],
            env={**self._environment, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == code, done.stdout
        assert "Traceback" not in done.stdout
        return done.stdout

    def cooperator(self, command: str, *words: str, code: int = 0, **environment: str) -> str:
        """The same of the plug-in, which kubectl calls with these words and its own environment."""
        where = () if "-A" in words else ("-n", self._namespace)
        done = run_forked(
            [command, *words, *where], {**self._environment, **environment}, main="cooperator.cli.kubectl"
        )
        said = done.stdout + done.stderr
        assert done.returncode == code, said
        assert "Traceback" not in said
        return said

    def completes(self, *words: str) -> list[str]:
        """Completions that kubectl offers for the last of ``words``."""
        done = subprocess.run(
            [self._kubectl, "__complete", "cooperator", *words],
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        *lines, directive = done.stdout.splitlines()
        assert directive == ":4"
        return [line.partition("\t")[0] for line in lines]


@pytest.fixture
def person(installation: Installation) -> Person:
    return Person(installation.cluster, installation.namespace)


def guest(installation: Installation) -> Person:
    """Somebody without any rights."""
    accounts = f"/api/v1/namespaces/{installation.namespace}/serviceaccounts"
    installation.cluster.api.post(accounts, {"metadata": {"name": "guest"}})
    return Person(
        installation.cluster,
        installation.namespace,
        installation.cluster.kubeconfig_of(installation.namespace, "guest"),
    )


def allow(installation: Installation, group: str, resource: str, verb: str) -> None:
    """Give the guest a right in the namespace."""
    api = "rbac.authorization.k8s.io"
    metadata = {"name": f"{verb}-{resource.replace('*', 'all')}", "namespace": installation.namespace}
    rules = [{"apiGroups": [group], "resources": [resource], "verbs": [verb]}]
    installation.cluster.apply(
        {"apiVersion": f"{api}/v1", "kind": "Role", "metadata": metadata, "rules": rules},
        {
            "apiVersion": f"{api}/v1",
            "kind": "RoleBinding",
            "metadata": metadata,
            "roleRef": {"apiGroup": api, "kind": "Role", "name": metadata["name"]},
            "subjects": [{"kind": "ServiceAccount", "name": "guest", "namespace": installation.namespace}],
        },
    )


def spaced(text: str) -> str:
    return " ".join(text.split())


def test_a_death_is_seen_told_and_foretold(
    installation: Installation, person: Person, tmp_path: Path
) -> None:
    before = started(installation)
    foretold = json.loads(person.cooperator("plan", "lake", "--die", "lake-1", "-o", "json"))
    assert foretold["led_by"] == "operator"
    said = person.kubectl("cooperator", "status", "lake", "-n", installation.namespace)

    assert f"Worker {installation.namespace}/lake: Ready, 3/3 members, 6/6 tasks run" in said
    assert "all conditions are met" in said
    assert re.search(r"^last rebalance: (generation|epoch) \d+, ", said, re.M)

    lost = {task for task, member in before.items() if member == "lake-1"}
    installation.kubelet.restart_s = 600.0
    installation.kubelet.crash("lake-1")
    installation.held(lost)
    said = person.cooperator("status")

    for task in lost:
        [line] = [line.split() for line in said.splitlines() if line.startswith(task)]
        assert line[1] == "lake-1"
        assert line[-1] == "Departed"
    held = {entry["name"] for entry in foretold["rounds"][0]["held"] if entry["task"] >= 0}
    assert held == lost, "it came as was foretold"
    assert "MembersReady" in said

    task = sorted(lost)[0]
    story = person.cooperator("story", task)

    events = [line.partition("  ")[2].strip() for line in story.splitlines()]
    begins = next(n for n, line in enumerate(events) if line.split()[:3] == ["lake-1", task, "runs"])
    waits = next(n for n, line in enumerate(events) if f"{task} waits for lake-1: Departed" in line)
    assert begins < waits
    assert f"{task} no longer runs, after" in story
    assert "its container has ended (Error, exit code 137)" in story
    [now] = [line for line in story.splitlines() if line.startswith("now: ")]
    assert now.startswith("now: HELD for lake-1, moves in ")

    drawn = tmp_path / "hour.svg"
    assert re.search(r": \d tasks, ", person.cooperator("picture", "lake", "-o", str(drawn)))
    assert f'id="{task} held lake-1 ' in drawn.read_text()

    picture = person.cooperator("top", "--once")

    assert f"{6 - len(lost)} of 6 tasks run, {len(lost)} HELD" in picture
    assert spaced(picture).count("for lake-1, in") >= len(lost)


def test_pause_resume_stop_and_restart_change_one_field_each(
    installation: Installation, person: Person
) -> None:
    started(installation, replicas=2)
    installation.connector("b", tasksMax=1)
    installation.runs(*SIX, "b-0")
    spec = installation.get("connectors", "a")["spec"]

    assert person.cooperator("pause", "a", "b").splitlines() == [
        f"Connector {installation.namespace}/a: Running -> Paused",
        f"Connector {installation.namespace}/b: Running -> Paused",
    ]
    assert person.cooperator("pause", "a") == f"Connector {installation.namespace}/a is Paused already\n"
    installation.eventually(lambda: installation.get("connectors", "a")["status"]["state"] == "PAUSED")
    assert installation.get("connectors", "a")["spec"] == {**spec, "state": "Paused"}
    fields = installation.get("connectors", "a")["metadata"]["managedFields"]
    [own] = [each for each in fields if each["manager"] == "kubectl-cooperator"]
    assert own["fieldsV1"] == {"f:spec": {"f:state": {}}}

    person.cooperator("resume", "a")
    person.cooperator("start", "b")
    installation.eventually(lambda: installation.get("connectors", "a")["status"]["state"] == "RUNNING")
    person.cooperator("stop", "b")
    installation.runs(*SIX)
    installation.eventually(lambda: installation.get("connectors", "b")["status"]["state"] == "STOPPED")

    installation.settled()
    starts = {task: installation.journal.starts(task) for task in SIX}
    assert person.cooperator("restart", "a", "--task", "2") == (
        f"Connector {installation.namespace}/a, task 2: restarts\n"
    )
    installation.eventually(lambda: installation.journal.starts("a-2") == starts["a-2"] + 1)
    assert {t: installation.journal.starts(t) for t in SIX} == {**starts, "a-2": starts["a-2"] + 1}
    person.cooperator("restart", "a")
    installation.eventually(lambda: all(installation.journal.starts(t) > starts[t] for t in SIX))
    assert "failed tasks restart" in person.cooperator("restart", "a", "--failed")
    said = spaced(person.cooperator("restart", "a", "--task", "6", code=1))
    assert "--task 6: Connector a has no such task; its numbers are 0 to 5" in said
    assert "use one of them" in spaced(person.cooperator("restart", "a", "--task", "1", "--failed", code=1))


def test_status_prints_objects_and_offsets_move_while_a_connector_is_stopped(
    installation: Installation, person: Person, tmp_path: Path
) -> None:
    topic = f"in-{installation.namespace}"
    servers = {"bootstrap.servers": installation.bootstrap_servers}
    ensure_topic(servers, topic, 1, -1)
    producer = Producer(servers)
    for number in range(10):
        producer.produce(topic, str(number))
    assert producer.flush(30) == 0
    started(installation, replicas=1)
    config = {"topics": topic, "topic": f"out-{installation.namespace}"}
    installation.connector("copy", **{"class": "kafka-to-kafka"}, state="Stopped", config=config)

    one = json.loads(person.cooperator("status", "lake", "-o", "json"))
    assert (one["kind"], one["metadata"]["name"]) == ("Worker", "lake")
    assert one["status"]["taskSummary"] == "6/6"
    listed: dict[str, Any] = yaml.safe_load(person.cooperator("status", "-A", "-o", "yaml"))
    mine = [i for i in listed["items"] if i["metadata"]["namespace"] == installation.namespace]
    assert [i["metadata"]["name"] for i in mine] == ["lake"]
    assert "managedFields" not in mine[0]["metadata"]

    partition = {"kafka_topic": topic, "kafka_partition": 0}
    file = tmp_path / "to.json"
    file.write_text(json.dumps({"offsets": [{"partition": partition, "offset": {"kafka_offset": 8}}]}))
    tried = person.cooperator("offsets", "alter", "copy", "--to", str(file), "--dry-run")
    assert f'{json.dumps(partition)}: none -> {{"kafka_offset": 8}}' in tried
    assert "1 position would change" in tried
    assert "1 position changed" in person.cooperator("offsets", "alter", "copy", "--to", str(file))
    moved = person.cooperator("offsets", "reset", "copy", "--to", "earliest")
    assert '{"kafka_offset": 8} -> {"kafka_offset": 0}  (up to 8 records read again)' in moved
    path = f"{RESOURCES}/{installation.namespace}/connectors/copy"
    annotations = lambda: installation.cluster.api.get(path)["metadata"].get("annotations") or {}  # noqa: E731
    assert not [name for name in annotations() if "offsets-" in name], "nothing is left"
    said = spaced(person.cooperator("offsets", "reset", "a", code=1))
    assert "connector a is Running, and offsets can be changed of a Stopped one only" in said

    replay = json.dumps({"id": "replay", "do": "reset", "to": "latest"})
    declared = {"metadata": {"annotations": {OFFSETS_REQUEST: replay}}}
    installation.cluster.api.patch(path, declared)
    installation.eventually(lambda: '"phase": "Done"' in annotations().get(OFFSETS_RESULT, ""))
    person.cooperator("offsets", "reset", "copy", "--to", "earliest")
    installation.cluster.api.patch(path, declared)
    found = json.loads(person.cooperator("offsets", "list", "copy"))["offsets"]
    assert found == [{"partition": partition, "offset": {"kafka_offset": 0}}], "it is not applied twice"


def test_words_complete_from_the_cluster(installation: Installation, person: Person) -> None:
    installation.worker("lake")
    installation.worker("pond")
    installation.connector("orders")
    installation.connector("others", worker="pond")
    where = ("-n", installation.namespace)
    assert person.completes("stat") == ["status", "state"]
    assert person.completes("status", *where, "") == ["lake", "pond"]
    assert person.completes("status", *where, "la") == ["lake"]
    assert person.completes("pause", *where, "o") == ["orders", "others"]
    assert person.completes("state", *where, "o") == ["orders", "others"]
    assert person.completes("pause", *where, "orders", "o") == ["others"]
    assert person.completes("plan", "--namespace", installation.namespace, "p") == ["pond"]
    assert person.completes("status", "-n", installation.namespace[:-1]) == [installation.namespace]
    assert person.completes("status", "--context", "") != []
    assert person.completes("status", "--kubeconfig", "/none", "") == []
    assert person.completes("completion", "") == ["bash", "zsh"]


def test_bash_completes_the_plug_in_called_by_its_own_name(
    installation: Installation, person: Person
) -> None:
    installation.worker("lake")
    script = person.kubectl("cooperator", "completion", "bash")
    ask = (
        f"COMP_WORDS=(kubectl-cooperator status -n {installation.namespace} l); COMP_CWORD=4; "
        "_kubectl_cooperator_completion kubectl-cooperator; echo ${COMPREPLY[@]}"
    )
    done = subprocess.run(
        ["bash", "-c", f"{script}\n{ask}"],
        env=person._environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout.split() == ["lake"]
    assert "compdef _kubectl_cooperator_completion" in person.kubectl("cooperator", "completion", "zsh")


class TestWhatCannotBeDone:
    def test_a_name_that_is_not_there(self, installation: Installation, person: Person) -> None:
        where = ("-n", installation.namespace)
        said = spaced(person.kubectl("cooperator", "status", "lake", *where, code=1))
        assert f"namespace {installation.namespace} has no Worker 'lake' and no others" in said
        assert "status -A" in said
        installation.worker("lake")
        installation.connector("orders")
        assert "did you mean 'lake'?" in spaced(person.cooperator("status", "laek", code=1))
        assert "did you mean 'orders'?" in spaced(person.cooperator("pause", "order", code=1))
        assert "has no Connector 'x'" in spaced(person.cooperator("story", "x-0", code=1))
        assert "no Workers in this namespace" in person.kubectl("cooperator", "status", "-n", "default")

    def test_resources_that_no_operator_has_observed(
        self, installation: Installation, person: Person
    ) -> None:
        installation.worker("lake")
        installation.connector("a")
        assert "no operator has observed it yet" in person.cooperator("status", "lake")
        assert "cannot be restarted" in spaced(person.cooperator("restart", "a", code=1))
        said = spaced(person.cooperator("plan", "lake", code=1))
        assert "the Kafka of Worker lake is unknown" in said

    def test_a_right_that_is_missing_is_named(self, installation: Installation) -> None:
        installation.worker("lake")
        installation.connector("a")
        person = guest(installation)
        said = spaced(person.cooperator("status", code=1))
        assert (
            "guest lacks a right: list on workers (API group cooperator.dev) "
            f"in namespace {installation.namespace}" in said
        )
        assert "kubectl create role NAME --verb=list --resource=workers.cooperator.dev" in said
        allow(installation, "cooperator.dev", "*", "list")
        installation.eventually(lambda: "Worker" in person.cooperator("status", "lake"), 30)
        assert "lacks a right: patch on connectors" in spaced(person.cooperator("pause", "a", code=1))

    def test_no_cluster(self, installation: Installation, person: Person, tmp_path: Path) -> None:
        said = spaced(person.cooperator("status", code=1, KUBECONFIG="/none", HOME=str(tmp_path)))
        assert "kubeconfig /none names no cluster" in said
        assert "--kubeconfig" in said
        said = spaced(person.cooperator("status", "--context", "moon", code=1))
        assert "--context moon: the kubeconfig has no such context; it has: " in said
        away = tmp_path / "away"
        config = yaml.safe_load(installation.cluster.kubeconfig.read_text())
        config["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:1"
        away.write_text(yaml.safe_dump(config))
        said = spaced(person.cooperator("status", "--kubeconfig", str(away), code=1))
        assert "the API server does not answer" in said
        assert "--context or --kubeconfig" in said

    def test_credentials_that_nobody_knows(
        self, installation: Installation, person: Person, tmp_path: Path
    ) -> None:
        config = yaml.safe_load(installation.cluster.kubeconfig.read_text())
        config["users"][0]["user"] = {"token": "nobody"}
        file = tmp_path / "nobody"
        file.write_text(yaml.safe_dump(config))
        said = person.cooperator("status", "--kubeconfig", str(file), code=1)
        assert "does not accept your credentials (401)" in said
        assert "nobody" not in said


def test_a_cluster_without_the_definitions() -> None:
    with ControlPlane.start() as bare:
        person = Person(bare, "default")
        said = spaced(person.cooperator("status", code=1))
        assert "the cluster does not have the resources Worker and Connector" in said
        assert "cooperator crds | kubectl apply --server-side -f -" in said


def test_a_kafka_out_of_reach_is_asked_by_the_operator_s_pod(
    installation: Installation, person: Person, tmp_path: Path
) -> None:
    installation.worker("lake", bootstrapServers="127.0.0.1:1")
    said = spaced(person.cooperator("plan", "lake", "--die", "lake-0", code=1))
    assert "Kafka at 127.0.0.1:1 cannot be reached from here" in said
    assert "no pod of the operator is visible" in said
    assert "exec -n NAMESPACE-OF-THE-OPERATOR deploy/cooperator -- cooperator kubectl plan lake" in said

    installation.connector("a")
    events = spaced(person.cooperator("story", "a"))
    assert "(without Kafka's logs: " in events
    assert f"deploy/cooperator -- cooperator kubectl story a -n {installation.namespace})" in events

    labels = {"app.kubernetes.io/name": "cooperator", "app.kubernetes.io/component": "operator"}
    pods = f"/api/v1/namespaces/{installation.namespace}/pods"
    installation.kubelet.takes = lambda pod: pod != "the-operator"
    installation.cluster.api.post(
        pods,
        {
            "metadata": {"name": "the-operator", "labels": labels},
            "spec": {
                "containers": [{"name": "operator", "image": "none", "securityContext": RESTRICTED}],
                "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
            },
        },
    )
    installation.cluster.api.patch(f"{pods}/the-operator/status", {"status": {"phase": "Running"}})
    # In place of a container's runtime, which there is none of: who is called, and with which words.
    fake = tmp_path / "bin" / "kubectl"
    fake.parent.mkdir()
    fake.write_text('#!/bin/sh\necho "called: $*"\nexit 7\n')
    fake.chmod(0o755)
    path = f"{fake.parent}:{PROGRAMS}:{os.environ['PATH']}"
    said = person.cooperator("plan", "lake", "--die", "lake-0", "--join", "2", code=7, PATH=path)
    assert (
        f"called: exec -n {installation.namespace} the-operator -- cooperator kubectl plan lake "
        f"-n {installation.namespace} --here --die lake-0 --join 2 -o table"
    ) in said

    login = {
        "securityProtocol": "SASL_PLAINTEXT",
        "sasl": {"mechanism": "SCRAM-SHA-512", "secretRef": {"name": "login"}},
    }
    installation.worker("lake", bootstrapServers="127.0.0.1:1", kafka=login)
    assert "there is no Secret 'login'" in spaced(person.cooperator("plan", "lake", code=1, PATH=path))
    reader = guest(installation)
    allow(installation, "cooperator.dev", "*", "list")
    allow(installation, "", "pods", "list")
    said = installation.eventually(lambda: reader.cooperator("plan", "lake", code=7, PATH=path), 30)
    assert "guest lacks a right: get on secrets (API group core)" in said
    assert "called: exec -n" in said


RESTRICTED = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
