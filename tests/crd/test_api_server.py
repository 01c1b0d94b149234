"""The definitions on a real API server: refusals with their texts, and defaults."""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from cooperator.crd import Connector, ConnectorStatus, Resource, ResourceError, Worker, from_object, parse
from cooperator.crd.render import definitions
from tests.crd.refusals import REFUSED, Refused
from tests.crd.served import Namespace, body, connector
from tests.kubernetes.api import ApiError
from tests.kubernetes.control_plane import ControlPlane
from tests.kubernetes.fixtures import DEFINITIONS

pytestmark = pytest.mark.real

FOLDER = Path(__file__).parents[2] / "examples"
EXAMPLES = {
    path.name: path for folder in ("quickstart", "recipes/*") for path in FOLDER.glob(f"{folder}/*.yaml")
}


def test_the_server_accepts_the_definitions_without_warnings(server: ControlPlane) -> None:
    for crd in definitions().values():
        stored = server.api.get(f"{DEFINITIONS}/{crd['metadata']['name']}")
        statuses = {condition["type"]: condition["status"] for condition in stored["status"]["conditions"]}
        assert statuses["Established"] == statuses["NamesAccepted"] == "True"
        assert statuses.get("NonStructuralSchema", "False") == "False"


# --- refusals


@pytest.mark.parametrize("wrong", REFUSED, ids=str)
def test_a_wrong_spec_is_refused_at_once_with_field_and_remedy(dry: Namespace, wrong: Refused) -> None:
    if not wrong.server_says:
        dry.ask(wrong.kind, "lake", **wrong.spec)
        return
    with pytest.raises(ApiError) as caught:
        dry.ask(wrong.kind, "lake", **wrong.spec)

    assert caught.value.status == 422
    assert wrong.field in caught.value.message
    assert re.search(wrong.server_says, caught.value.message, re.DOTALL)


def test_a_field_that_does_not_exist_is_refused_by_kubectl(api: Namespace) -> None:
    with pytest.raises(subprocess.CalledProcessError) as caught:
        api.kubectl("apply", "-f", "-", stdin=json.dumps(body("Worker", "lake", {"replica": 3})))
    assert 'unknown field "spec.replica"' in caught.value.stderr


@pytest.mark.parametrize("name", ["l" * 53, "a.b"])
def test_a_name_too_long_for_pods_is_refused(dry: Namespace, name: str) -> None:
    with pytest.raises(ApiError, match=r"metadata\.name: use 1 to 52 lower-case letters.*pods are named"):
        dry.ask("Worker", name)


@pytest.mark.parametrize(
    ("kind", "before", "after", "said"),
    [
        ("Worker", {}, {"groupId": "other"}, r"spec\.groupId cannot be changed: the members and the state"),
        ("Worker", {"groupId": "one"}, {"groupId": None}, r"spec\.groupId cannot be changed"),
        (
            "Worker",
            {"groupId": "one"},
            {"groupId": "two"},
            r"Keep it, or delete the resource and create it again",
        ),
        (
            "Worker",
            {"checkpointLocation": "/a"},
            {"checkpointLocation": "/b"},
            r"spec\.checkpointLocation cannot be changed: it contains the progress of all tasks",
        ),
        (
            "Worker",
            {"checkpointVolume": {"claimName": "a"}},
            {"checkpointVolume": {"claimName": "b"}},
            r"spec\.checkpointVolume\.claimName cannot be changed",
        ),
        (
            "Worker",
            {"checkpointVolume": {"claimName": "a"}},
            {"checkpointVolume": {"mountPath": "/other"}},
            r"spec\.checkpointVolume\.mountPath cannot be changed",
        ),
        (
            "Worker",
            {"checkpointVolume": {"claimName": "a"}},
            {"checkpointVolume": None},
            r"spec\.checkpointVolume\.claimName cannot be changed",
        ),
    ],
)
def test_fields_that_progress_depends_on_cannot_be_changed(
    api: Namespace, kind: str, before: dict[str, Any], after: dict[str, Any], said: str
) -> None:
    api.create(kind, "one", **before)

    with pytest.raises(ApiError, match=said):
        api.change(kind, "one", **after)


def test_a_connector_keeps_its_worker_once_it_may_have_progress(api: Namespace) -> None:
    api.create("Connector", "one", **connector(workerRef={"name": "laek"}))
    api.write_status("Connector", "one", ConnectorStatus(state="WorkerNotFound"))
    api.change("Connector", "one", workerRef={"name": "lake"})
    with pytest.raises(ApiError, match=r"spec\.workerRef\.name cannot be changed"):
        # An operator that saw the connector before the correction.
        api.write_status("Connector", "one", ConnectorStatus(bound_worker="laek"))

    api.write_status("Connector", "one", ConnectorStatus(bound_worker="lake"))

    said = r"spec\.workerRef\.name: Invalid.*cannot be changed: the connector's progress belongs"
    with pytest.raises(ApiError, match=said):
        api.change("Connector", "one", workerRef={"name": "pond"})
    assert api.change("Connector", "one", tasksMax=5, **{"class": "other"})["spec"]["class"] == "other"
    free = {"status": {"boundWorker": None}, "spec": {"workerRef": {"name": "pond"}}}
    with pytest.raises(ApiError, match="cannot be changed"):
        # A user's write of the spec does not change the status.
        api.server.api.patch(api.path("Connector", "one"), free)


def test_a_connector_keeps_its_name_in_kafka_once_it_may_have_progress(api: Namespace) -> None:
    api.create("Connector", "one", **connector() | {"connectorName": "Orders_2"})
    api.write_status("Connector", "one", ConnectorStatus(state="Unassigned"))
    for name in ("Orders_3", None, "Orders_2"):
        api.change("Connector", "one", connectorName=name)
    api.write_status("Connector", "one", ConnectorStatus(bound_worker=connector()["workerRef"]["name"]))

    said = r"spec\.connectorName cannot be changed: tasks and offsets are stored in Kafka under this name"
    for name in ("Orders_3", None):
        with pytest.raises(ApiError, match=said):
            api.change("Connector", "one", connectorName=name)
    assert api.change("Connector", "one", tasksMax=5)["spec"]["connectorName"] == "Orders_2"


def test_all_other_fields_can_be_changed(api: Namespace) -> None:
    api.create("Worker", "lake", groupId="one", checkpointVolume={"claimName": "a"})

    changed = api.change(
        "Worker", "lake", replicas=5, bootstrapServers="b:1", version="2", policy="Kip415", restartNonce="2"
    )

    assert changed["metadata"]["generation"] == 2
    assert changed["spec"]["bootstrapServers"] == "b:1"
    api.create("Connector", "one", **connector())
    same = api.change("Connector", "one", connectorName="one", deletionPolicy="Orphan")
    assert same["spec"]["connectorName"] == "one", "an explicit name equal to the default is no change"


# --- the models read what the server accepts


def read_back(api: Namespace, kind: str, name: str) -> Resource:
    return from_object(api.get(kind, name))


def manifests(*names: str) -> Iterator[Resource]:
    for name in names:
        yield from parse(EXAMPLES[name].read_text(), name)


def test_the_server_fills_in_the_defaults_that_the_models_have(api: Namespace) -> None:
    for written in manifests("worker.yaml", "copies.yaml", "files-worker.yaml", "secured.yaml"):
        kind, name = written.kind, written.metadata.name
        as_written = {
            document["metadata"]["name"]: document
            for path in EXAMPLES.values()
            for document in yaml.safe_load_all(path.read_text())
            if document["kind"] == kind
        }[name]
        api.create(kind, name, **as_written["spec"])

        assert read_back(api, kind, name).spec == written.spec

    api.create("Worker", "nothing-said")
    stored = api.get("Worker", "nothing-said")["spec"]
    assert (stored["replicas"], stored["rollout"]["strategy"]) == (1, "Hold")
    assert read_back(api, "Worker", "nothing-said").spec == Worker(metadata={"name": "x"}).spec

    api.create("Connector", "counts", **connector(stateReplicas={}))
    defaults = {"standbys": 0, "maxWarmups": 2, "acceptableLagBytes": 10_000_000, "warmupTimeoutMs": 600_000}
    assert api.get("Connector", "counts")["spec"]["stateReplicas"] == defaults
    read = read_back(api, "Connector", "counts")
    assert read.spec == from_object(body("Connector", "counts", connector(stateReplicas={}))).spec


def test_all_examples_can_be_applied_as_they_are(api: Namespace) -> None:
    files = [word for path in EXAMPLES.values() for word in ("-f", str(path))]
    said = api.kubectl("apply", "--dry-run=server", *files)
    assert len(said.splitlines()) == sum(
        1 for path in EXAMPLES.values() for document in yaml.safe_load_all(path.read_text()) if document
    )


def test_settings_are_numbers_booleans_and_texts(api: Namespace) -> None:
    api.create(
        "Connector", "mixed", **connector(config={"rows": 3, "share": 0.5, "header": True, "path": "/a"})
    )
    api.create(
        "Worker", "lake", spark={"conf": {"spark.sql.shuffle.partitions": 4, "spark.ui.enabled": False}}
    )

    mixed, lake = read_back(api, "Connector", "mixed"), read_back(api, "Worker", "lake")
    assert isinstance(mixed, Connector)
    assert mixed.spec.config == {"rows": "3", "share": "0.5", "header": "true", "path": "/a"}
    assert isinstance(lake, Worker)
    assert lake.spec.spark.conf == {"spark.sql.shuffle.partitions": "4", "spark.ui.enabled": "false"}


def test_a_pod_template_is_stored_completely(api: Namespace) -> None:
    template = {
        "metadata": {"labels": {"team": "data"}},
        "spec": {
            "tolerations": [{"operator": "Exists"}],
            "containers": [
                {"name": "worker", "env": [{"name": "A", "value": "1"}]},
                {"name": "log", "image": "log:1", "args": ["-v"], "resources": {"limits": {"cpu": 1}}},
            ],
        },
    }
    api.create("Worker", "lake", template=template)

    lake = read_back(api, "Worker", "lake")
    assert isinstance(lake, Worker)
    assert lake.spec.template.spec == template["spec"]


def test_the_largest_spec_stays_within_the_cost_budget_of_rules(api: Namespace) -> None:
    words = {f"example.com/name-{n}": "v" * 63 for n in range(64)}
    api.create(
        "Worker",
        "lake",
        bootstrapServers=",".join(f"kafka-{n}.kafka.example.com:9092" for n in range(100)),
        envAllowed=[f"{'A' * 240}{n}" for n in range(100)],
        imagePullSecrets=[f"{'a' * 240}{n}" for n in range(16)],
        resources={"requests": {f"example.com/r{n}": "1.5Gi" for n in range(32)}},
        template={
            "metadata": {"labels": words, "annotations": words},
            "spec": {
                "containers": [{"name": f"c{n}", "image": "i:1", "args": ["a"] * 100} for n in range(32)]
            },
        },
        spark={"conf": {f"spark.name.{n}": "v" * 100 for n in range(1000)}},
    )
    api.change("Worker", "lake", replicas=2)
    api.create("Connector", "many", **connector(config={f"name.{n}": "v" * 100 for n in range(1000)}))


# For any spec, the server and the models agree, except on what only the models can check.

LATER = re.compile(
    r"not a valid label|not a valid annotation name|use a resource such|must be text, a number"
    r"|reserved for fields of"
)

good = st.fixed_dictionaries(
    {},
    optional={
        "replicas": st.integers(-1, 1001),
        "groupId": st.text("ab.-_ é/", max_size=5),
        "assignor": st.sampled_from(["Sticky", "Spread", "Uniform", "", "mine-2", "a b"]),
        "spread": st.sampled_from(["Strict", "BestEffort"]),
        "policy": st.sampled_from(["Default", "Kip415", "Eager"]),
        "leaseMs": st.integers(32_990, 33_010) | st.integers(0, 10**8),
        "heartbeatIntervalMs": st.integers(90, 3_400),
        "bootstrapServers": st.sampled_from(
            ["a:1", "a:1,b:2", "a:1, b:2", "[::1]:9092", ":1", "a:", "a", ""]
        ),
        "image": st.sampled_from(["a", "r:5/a", "r:5/a:2", "a@sha256:1", "/a", ""]),
        "version": st.sampled_from(["1", "-1", "v" * 128, "v" * 129, ""]),
        "checkpointLocation": st.sampled_from(
            ["/c", "/c/d", "/c/", "/cd", "/c/../d", "s3a://c", "s3://c", "c/d", "c:/d", " /c", "/c d"]
        ),
        "checkpointVolume": st.fixed_dictionaries(
            {"claimName": st.sampled_from(["a", "a.b", "-a", "a.-b"])},
            optional={"mountPath": st.sampled_from(["/c", "/", "c", "/c/./d", "/c:d", "/c/"])},
        ),
        "capacity": st.sampled_from([0, 0.0005, 0.001, 1, 1.5, 10**6, 10**6 + 1]),
        "envAllowed": st.lists(st.sampled_from(["A", "_b", "C1", "1C", "a-b"]), max_size=3),
        "zoneLabel": st.sampled_from(["", "zone", "a.b/zone", "A.b/zone", "a/b/c", "-a"]),
        "resources": st.fixed_dictionaries(
            {},
            optional={
                "requests": st.dictionaries(
                    st.sampled_from(["cpu", "memory", "a b"]),
                    st.sampled_from(
                        [1, 0, "1", "0.5", ".5", "1.", "2Gi", "100m", "1e3", "1E3", "1K", "k", "", "-1"]
                    ),
                    max_size=2,
                )
            },
        ),
        "kafka": st.fixed_dictionaries(
            {},
            optional={
                "securityProtocol": st.sampled_from(["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]),
                "sasl": st.just({"mechanism": "PLAIN", "secretRef": {"name": "user"}}),
                "tls": st.just({}),
            },
        ),
    },
)


@given(spec=good)
@settings(max_examples=300)
def test_server_and_models_refuse_the_same(dry: Namespace, spec: dict[str, Any]) -> None:
    try:
        from_object(body("Worker", "lake", spec))
        in_models = ""
    except ResourceError as error:
        in_models = str(error)
    try:
        dry.ask("Worker", "lake", **spec)
        on_server = ""
    except ApiError as error:
        on_server = error.message

    if bool(in_models) != bool(on_server):
        assert in_models, f"only the server refuses: {on_server}"
        assert LATER.search(in_models), f"only the models refuse: {in_models}"
