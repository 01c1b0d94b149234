"""Overlays, revisions, stories, restarts, the Lease, the store: no server needed."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cooperator.controller.api.client import SECRETS
from cooperator.controller.api.client import ApiError as ClientError
from cooperator.controller.api.operator_lease import OperatorLeaseTerms, may_take, spec_of
from cooperator.controller.manifests.children import references
from cooperator.controller.manifests.pods import Defaults, image, pod_manifest, revision, template
from cooperator.controller.publish import _is_gone
from cooperator.controller.resources import Readings, read_connectors
from cooperator.controller.restarts import record
from cooperator.controller.store import POD, WORKER, Store
from cooperator.controller.story import happenings
from cooperator.wire import RestartRecord
from tests.controller.workers import worker

DEFAULTS = Defaults("registry.example/cooperator:1.0", "kafka:9092")


# --- pods ---


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("{}", "registry.example/cooperator:1.0"),
        ("{version: '2.0'}", "registry.example/cooperator:2.0"),
        ("{image: 'host:5000/own'}", "host:5000/own"),
        ("{image: 'host:5000/own', version: '3'}", "host:5000/own:3"),
    ],
)
def test_the_image_of_members(spec: str, expected: str) -> None:
    assert image(worker(spec), DEFAULTS) == expected


def test_a_revision_is_of_what_users_say_only() -> None:
    first = revision(worker(), DEFAULTS, {})
    assert revision(worker(), Defaults("registry.example/cooperator:1.1", "kafka:9092"), {}) == first, (
        "an upgrade of the operator touches no pod"
    )
    assert revision(worker("{replicas: 7, scheduledRebalanceMaxDelayMs: 5}"), DEFAULTS, {}) == first
    changes = [
        revision(worker("{version: '2.0'}"), DEFAULTS, {}),
        revision(worker("{restartNonce: again}"), DEFAULTS, {}),
        revision(worker("{spark: {heapMb: 2048}}"), DEFAULTS, {}),
        revision(worker("{resources: {requests: {memory: 2Gi}}}"), DEFAULTS, {}),
        revision(worker("{template: {metadata: {labels: {a: b}}}}"), DEFAULTS, {}),
        revision(worker(), DEFAULTS, {"Secret/s": "digest"}),
    ]
    assert len({first, *changes}) == len(changes) + 1


def test_members_get_the_address_for_their_metrics_by_a_roll() -> None:
    sending = replace(DEFAULTS, otlp_endpoint="http://collector:4318")

    def variables(spec: str, defaults: Defaults) -> dict[str, Any]:
        [container] = template(worker(spec), defaults)["spec"]["containers"]
        return {each["name"]: each.get("value", each.get("valueFrom")) for each in container["env"]}

    assert variables("{}", sending).keys() - variables("{}", DEFAULTS).keys() == {
        "POD_NAMESPACE",
        "COOPERATOR_WORKER",
        "OTEL_EXPORTER_OTLP_ENDPOINT",
    }
    own = "[{name: OTEL_EXPORTER_OTLP_ENDPOINT, value: 'http://own:4318'}]"
    spec = f"{{template: {{spec: {{containers: [{{name: worker, env: {own}}}]}}}}}}"
    assert variables(spec, sending)["OTEL_EXPORTER_OTLP_ENDPOINT"] == "http://own:4318"
    assert revision(worker(), sending, {}) != revision(worker(), DEFAULTS, {})
    stock = "{runtime: connect}"
    assert variables(stock, sending) == variables(stock, DEFAULTS), "stock workers do not know it"
    assert revision(worker(stock), sending, {}) == revision(worker(stock), DEFAULTS, {})


def test_a_pod_is_as_restricted_as_can_be() -> None:
    made = pod_manifest(worker(), DEFAULTS, "lake-0", "r1")
    [container] = made["spec"]["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert made["spec"]["securityContext"]["runAsNonRoot"] is True
    assert made["spec"]["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert made["spec"]["automountServiceAccountToken"] is False
    assert made["metadata"]["labels"]["cooperator.dev/index"] == "0"


def test_references_of_a_template_are_found() -> None:
    spec = (
        "{template: {spec: {volumes: [{name: v, secret: {secretName: s1}}, {name: w, configMap: {name: c1}}],"
        " containers: [{name: worker, env: [{name: A, valueFrom: {secretKeyRef: {name: s2, key: k}}}], "
        "envFrom: [{configMapRef: {name: c2}}]}]}}}"
    )
    assert references(template(worker(spec), DEFAULTS)) == {
        ("Secret", "s1"),
        ("Secret", "s2"),
        ("ConfigMap", "c1"),
        ("ConfigMap", "c2"),
    }


SECURED = (
    "{kafka: {securityProtocol: SASL_SSL, "
    "sasl: {mechanism: PLAIN, passwordKey: pass, secretRef: {name: s1}}, "
    "tls: {verifyHostname: false, caSecretRef: {name: s2}, certificateSecretRef: {name: s3}}}}"
)


def test_members_find_the_secrets_of_kafka_as_files() -> None:
    made = template(worker(SECURED), DEFAULTS)
    assert references(made) == {("Secret", "s1"), ("Secret", "s2"), ("Secret", "s3")}
    [container] = made["spec"]["containers"]
    paths = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"] if "readOnly" in mount}
    files = {
        f"{paths[volume['name']]}/{item['path']}": (volume["secret"]["secretName"], item["key"])
        for volume in made["spec"]["volumes"]
        if "secret" in volume
        for item in volume["secret"]["items"]
    }
    args = container["args"]
    found = {word: args[args.index(word) + 1] for word in args if word.endswith("-file")}
    assert {option: files[file] for option, file in found.items()} == {
        "--sasl-username-file": ("s1", "username"),
        "--sasl-password-file": ("s1", "pass"),
        "--ssl-ca-file": ("s2", "ca.crt"),
        "--ssl-certificate-file": ("s3", "tls.crt"),
        "--ssl-key-file": ("s3", "tls.key"),
    }
    assert args[args.index("--security-protocol") + 1] == "SASL_SSL"
    assert args[args.index("--sasl-mechanism") + 1] == "PLAIN"
    assert "--no-ssl-verify-hostname" in args
    modes = {v["secret"]["defaultMode"] for v in made["spec"]["volumes"] if "secret" in v}
    assert modes == {0o440}


def test_a_release_that_knows_tokens_replaces_no_member_with_a_password() -> None:
    assert revision(worker(SECURED), DEFAULTS, {}) == "665b29a8a8"


def test_members_are_replaced_when_the_way_into_kafka_changes() -> None:
    without = revision(worker(), DEFAULTS, {})
    secured = revision(worker(SECURED), DEFAULTS, {})
    other = revision(worker(SECURED.replace("pass,", "password,")), DEFAULTS, {})
    assert len({without, secured, other}) == 3
    assert revision(worker("{kafka: {securityProtocol: PLAINTEXT}}"), DEFAULTS, {}) == without
    [container] = template(worker(), DEFAULTS)["spec"]["containers"]
    assert not any("security" in word or word.startswith(("--sasl", "--ssl")) for word in container["args"])


# --- restarts ---


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        ("|", "|", None),
        ("|", "1|", RestartRecord("a", True, False, None)),
        ("1|", "|", None),
        ("|", "|connector", RestartRecord("a", False, False, None)),
        ("|", "|tasks", RestartRecord("a", True, False, None)),
        ("|tasks#1", "|tasks#2", RestartRecord("a", True, False, None)),
        ("|", "|failed", RestartRecord("a", True, True, None)),
        ("|", "|3", RestartRecord("a", False, False, 3)),
        ("|", "|everything", None),
    ],
)
def test_restart_requests_of_a_manifest(before: str, now: str, expected: RestartRecord | None) -> None:
    assert record("a", before, now) == expected


# --- the Lease ---


def lease(holder: str, renewed: str = "t1") -> dict[str, Any]:
    return {"spec": {"holderIdentity": holder, "renewTime": renewed, "leaseDurationSeconds": 3}}


def test_a_lease_is_taken_when_it_has_stood_still_for_its_duration_as_we_saw_it() -> None:
    terms = OperatorLeaseTerms("n", "l", "me", 3_000)
    taken, seen = may_take(terms, lease("other"), None, 1_000)
    assert not taken, "an operator that has just started cannot know its age"
    taken, seen = may_take(terms, lease("other"), seen, 3_999)
    assert not taken
    taken, _ = may_take(terms, lease("other"), seen, 4_000)
    assert taken
    taken, seen = may_take(terms, lease("other", "t2"), seen, 4_000)
    assert not taken, "it was renewed"
    assert may_take(terms, lease(""), seen, 4_001)[0]
    assert may_take(terms, lease("me"), seen, 4_001)[0]


@given(st.integers(3_000, 600_000))
def test_no_candidate_takes_the_lease_before_its_duration_is_over(duration_ms: int) -> None:
    terms = OperatorLeaseTerms("n", "l", "holder", duration_ms)
    record = {"spec": spec_of(terms, {})}
    candidate = OperatorLeaseTerms("n", "l", "me", 3_000)
    _, seen = may_take(candidate, record, None, 0)
    assert not may_take(candidate, record, seen, duration_ms - 1)[0]


# --- the store ---


def seen(name: str, version: int, **labels: str) -> dict[str, Any]:
    return {
        "metadata": {
            "namespace": "n",
            "name": name,
            "uid": f"{name}-{version}",
            "resourceVersion": str(version),
            "labels": labels,
        }
    }


def pod_of(name: str, version: int, owner: str = "lake-1") -> dict[str, Any]:
    """A pod of the Worker ``seen("lake", 1)``, or of another object with this uid; empty: of none."""
    pod = seen(name, version, **{"cooperator.dev/worker": "lake"})
    return {"metadata": {**pod["metadata"], "ownerReferences": [{"uid": owner}] if owner else []}}


def test_late_events_are_passed_over_and_missed_deletions_are_made_up_for() -> None:
    woken: list[tuple[str, str]] = []
    store = Store(woken.append)
    store.put(WORKER, seen("lake", 1))
    store.put(POD, pod_of("lake-0", 5))
    store.put(POD, pod_of("lake-1", 6))
    assert set(woken) == {("n", "lake")}
    store.put(POD, pod_of("lake-0", 4))
    assert store.see(("n", "lake")).pods["lake-0"]["metadata"]["resourceVersion"] == "5"

    store.replace(POD, [pod_of("lake-1", 6)], version=5, among=lambda body: True)
    assert set(store.see(("n", "lake")).pods) == {"lake-1"}, "objects missing in the list are gone"
    assert store.see(("n", "lake")).gone == (), "but nobody has seen how it ended"

    store.put(POD, pod_of("lake-2", 9))
    store.replace(POD, [], version=8, among=lambda body: True)
    assert set(store.see(("n", "lake")).pods) == {"lake-2"}, "objects newer than the list stay"

    store.put(POD, pod_of("lake-2", 10), deleted=True)
    assert store.see(("n", "lake")).pods == {}
    assert [body["metadata"]["uid"] for body in store.see(("n", "lake")).gone] == ["lake-2-10"]


# --- stories ---


def test_changes_without_rounds_are_told_by_their_epochs() -> None:
    first = {"term": 2, "generation": 7, "epoch": 3, "assigned": 2, "revoked": 0, "cause": "Created"}
    second = {**first, "epoch": 4, "assigned": 1}
    before, now = ({"rebalances": each} for each in ([first], [first, second]))
    notes = [each.note for each in happenings(before, now)]
    assert notes == ["epoch 4: 1 task assigned, 0 revoked (Created)"]


def test_changes_between_two_observations() -> None:
    def look(generation: int, **tasks: Any) -> dict[str, Any]:
        rebalance = {"term": 1, "generation": generation, "assigned": 2, "revoked": 1, "cause": "lake-1 left"}
        return {
            "rebalances": [rebalance],
            "conditions": [],
            "tasks": [
                {"name": name, "connector": "a", "member": None, **task} for name, task in tasks.items()
            ],
        }

    calm = look(1, a_0={"state": "RUNNING", "member": "lake-1"})
    held = look(2, a_0={"state": "HELD", "held_for": "lake-1"})
    moved = look(3, a_0={"state": "RUNNING", "member": "lake-2"})
    failed = look(3, a_0={"state": "FAILED", "member": "lake-2", "trace": "Boom\n  at x"})
    assert list(happenings({}, calm)) == []
    assert list(happenings(calm, calm)) == []
    assert [each.reason for each in happenings(calm, held)] == ["Rebalanced", "TasksHeld"]
    assert [each.note for each in happenings(calm, held)][1] == "1 task waits for lake-1: a_0"
    assert [each.note for each in happenings(held, moved)][1] == "a_0 has moved to lake-2"
    [found] = happenings(moved, failed)
    assert (found.reason, found.warning, found.connector) == ("TaskFailed", True, "a")
    assert "Boom" in found.note


def test_a_wait_is_told_once_for_all_tasks_that_wait_for_the_same() -> None:
    def look(*waiting: str, text: str = "waiting for PostgreSQL at db:5432") -> dict[str, Any]:
        report = json.dumps({"waits": [{"for": text, "since_ms": 1}]})
        tasks = [
            {"name": name, "connector": "a", "member": "lake-0", "state": "RUNNING", "progress": report}
            for name in waiting
        ]
        calm = {"name": "a-9", "connector": "a", "member": "lake-0", "state": "RUNNING", "progress": ""}
        return {"rebalances": [], "conditions": [], "tasks": [*tasks, calm]}

    [told] = happenings(look(), look(*(f"a-{number}" for number in range(7))))
    assert (told.reason, told.warning, told.connector) == ("TaskWaits", True, "a")
    assert told.note == "a-0, a-1, a-2, a-3, a-4 and 2 more: waiting for PostgreSQL at db:5432"
    assert list(happenings(look("a-0"), look("a-0", text="no answer yet"))) == [], "it goes on"
    [told] = happenings(look("a-0"), look("a-0", "a-1"))
    assert told.note.startswith("a-1: ")
    assert list(happenings(look("a-0"), look())) == []


@pytest.mark.parametrize(
    ("kind", "bad", "good"),
    [("Leading", "False", "True"), ("Unfenced", "True", "False"), ("EagerProtocol", "True", "False")],
)
def test_a_condition_is_told_when_it_is_amiss(kind: str, bad: str, good: str) -> None:
    def look(status: str) -> dict[str, Any]:
        condition = {"type": kind, "status": status, "reason": f"Is{status}", "message": "m"}
        return {"rebalances": [], "tasks": [], "conditions": [condition]}

    assert [each.reason for each in happenings(look(good), look(bad))] == [f"Is{bad}"]
    assert list(happenings(look(bad), look(good))) == []
    assert list(happenings(look(bad), look(bad))) == []


def test_a_pod_that_only_has_the_label_of_a_worker_is_none_of_its_members() -> None:
    store = Store(lambda name: None)
    store.put(WORKER, seen("lake", 1))
    store.put(POD, pod_of("lake-0", 5))
    store.put(POD, pod_of("lake-1", 6, owner=""))
    store.put(POD, pod_of("lake-2", 7, owner="the-worker-of-that-name-before"))
    assert set(store.see(("n", "lake")).pods) == {"lake-0"}
    for number, owner in enumerate(("lake-1", "", "another")):
        store.put(POD, pod_of(f"lake-{number}", 10 + number, owner=owner), deleted=True)
    assert [pod["metadata"]["name"] for pod in store.see(("n", "lake")).gone] == ["lake-0"]


def test_a_pod_that_was_released_is_taken_by_the_next_worker_of_that_name() -> None:
    released = pod_of("lake-0", 5, owner="")
    released["metadata"]["annotations"] = {"cooperator.dev/released": "lake"}
    store = Store(lambda name: None)
    store.put(WORKER, seen("lake", 1))
    store.put(POD, released)
    assert set(store.see(("n", "lake")).pods) == {"lake-0"}
    released["metadata"]["ownerReferences"] = [{"uid": "another"}]
    store.put(POD, released)
    assert store.see(("n", "lake")).pods == {}


def test_an_answer_that_comes_after_the_news_of_a_deletion_brings_nothing_back() -> None:
    store = Store(lambda name: None)
    store.put(WORKER, seen("lake", 1))
    store.put(POD, pod_of("lake-0", 5))
    store.put(POD, pod_of("lake-0", 7), deleted=True)
    store.put(POD, pod_of("lake-0", 6))
    store.put(POD, pod_of("lake-0", 7))
    assert store.see(("n", "lake")).pods == {}
    store.put(POD, pod_of("lake-0", 8))
    assert set(store.see(("n", "lake")).pods) == {"lake-0"}


# --- connectors, and their names in Kafka ---


def body(name: str, deleted: bool = False, **spec: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "default", "uid": name}
    if deleted:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return {"kind": "Connector", "metadata": metadata, "spec": {"workerRef": {"name": "pipes"}, **spec}}


def test_unreadable_connectors_are_kept_until_deleted() -> None:
    """As after a restart of the operator: it was never read by this process, and runs."""
    good, odd = body("good", **{"class": "a.B"}), body("odd", connectorName="My Odd", tasksMax=0)
    seen = read_connectors([good, odd, body("bad")], Readings())
    assert [each.metadata.name for each in seen.living] == ["good"]
    assert seen.kept == {"My Odd", "bad"}
    going = [body("good", True, **{"class": "a.B"}), body("bad", True)]
    seen = read_connectors(going, Readings())
    assert ([each.metadata.name for each in seen.ending], seen.living, seen.kept) == (
        ["good"],
        (),
        frozenset(),
    )


@pytest.mark.parametrize(
    ("leader", "gone"),
    [
        ({"leading": True, "known": True, "connectors": {"a": {}}, "members": []}, False),
        ({"leading": True, "known": True, "connectors": {"a": {}}, "members": [], "orphans": ["a"]}, True),
        (
            {
                "leading": True,
                "known": True,
                "connectors": {"a": {}},
                "members": [],
                "orphans": ["a"],
                "stale": True,
            },
            False,
        ),
        (
            {
                "leading": True,
                "known": True,
                "connectors": {},
                "members": [{"owned": ["a-0"], "stopping": []}],
            },
            False,
        ),
        (
            {
                "leading": True,
                "known": True,
                "connectors": {},
                "members": [{"owned": ["a-b-0"], "stopping": []}],
            },
            True,
        ),
        ({"leading": False, "connectors": {}, "members": []}, False),
    ],
)
def test_a_deleted_resource_goes_when_its_connector_has_stopped_or_is_let_go(
    leader: dict[str, Any], gone: bool
) -> None:
    assert _is_gone("a", leader) is gone


@pytest.mark.parametrize("name", ["..", ".", "a/b", "../../kube-system/secrets/x", "a%2Fb"])
def test_no_name_of_a_user_leads_to_another_path(name: str) -> None:
    with pytest.raises(ClientError, match="is not a valid object name"):
        SECRETS.path("default", name)
