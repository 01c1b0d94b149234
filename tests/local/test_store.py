"""Manifests that are applied, applied again, refused, scaled and deleted."""

import json
from pathlib import Path

import pytest

from cooperator.connectors.units import layout_file
from cooperator.crd import Resource, ResourceError, Worker, parse
from cooperator.host.outputs import withheld
from cooperator.local.admission import anchored
from cooperator.local.layout import StateDir, write_json
from cooperator.local.outputs import claims
from cooperator.local.store import Key, ManifestStore, StoredChange

LAKE = """
apiVersion: cooperator.dev/v1alpha1
kind: Worker
metadata: {name: lake}
spec: {replicas: 3}
"""
SOURCES = """
apiVersion: cooperator.dev/v1alpha1
kind: Connector
metadata: {name: sources}
spec:
  workerRef: {name: lake}
  class: files-to-kafka
  tasksMax: 4
  config: {path: ./data, topic: lines}
"""
WORKER = Key("Worker", "default", "lake")
CONNECTOR = Key("Connector", "default", "sources")


class Clock:
    def __init__(self) -> None:
        self.now_ms = 1_700_000_000_000

    def __call__(self) -> int:
        return self.now_ms


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(tmp_path: Path, clock: Clock) -> ManifestStore:
    return ManifestStore(StateDir(tmp_path), clock)


def resources(*texts: str) -> tuple[Resource, ...]:
    return anchored(parse("---".join(texts), "test.yaml"), Path("/srv/job"))


def refused(store: ManifestStore, *texts: str) -> list[str]:
    with pytest.raises(ResourceError) as error:
        store.apply(resources(*texts), "test.yaml")
    return [str(problem) for problem in error.value.problems]


def test_created_then_unchanged_then_configured(store: ManifestStore) -> None:
    assert store.apply(resources(LAKE, SOURCES), "a") == [
        (WORKER, StoredChange.CREATED),
        (CONNECTOR, StoredChange.CREATED),
    ]
    assert store.apply(resources(SOURCES, LAKE), "a") == [
        (CONNECTOR, StoredChange.UNCHANGED),
        (WORKER, StoredChange.UNCHANGED),
    ]
    more = SOURCES.replace("tasksMax: 4", "tasksMax: 8")
    assert store.apply(resources(more), "a") == [(CONNECTOR, StoredChange.CONFIGURED)]
    [connector] = store.read().connectors
    assert connector.spec.tasks_max == 8


def test_the_server_s_part_of_the_metadata_is_kept_by_an_update(store: ManifestStore, clock: Clock) -> None:
    store.apply(resources(LAKE), "a")
    [first] = store.read().workers
    clock.now_ms += 60_000
    store.apply(resources(LAKE.replace("replicas: 3", "replicas: 2")), "a")
    [second] = store.read().workers

    assert first.metadata.uid
    assert (first.metadata.uid, first.metadata.creation_timestamp) == (
        second.metadata.uid,
        second.metadata.creation_timestamp,
    )
    assert (first.metadata.generation, second.metadata.generation) == (1, 2)


def test_another_process_reads_stored_resources(store: ManifestStore, tmp_path: Path) -> None:
    store.apply(resources(LAKE, SOURCES), "a")
    again = ManifestStore(StateDir(tmp_path), lambda: 0)
    assert again.read() == store.read()
    assert [Key.of(r) for r in again.read().resources] == [CONNECTOR, WORKER]


def test_a_relative_path_is_relative_to_the_manifest(store: ManifestStore) -> None:
    store.apply(resources(SOURCES), "a")
    [connector] = store.read().connectors
    assert connector.spec.config["path"] == "/srv/job/data"


def test_no_resource_is_stored_when_one_is_wrong(store: ManifestStore) -> None:
    problems = refused(store, LAKE, SOURCES.replace("topic: lines", "topik: lines"))
    assert any("topik" in problem and "topic" in problem for problem in problems)
    assert all("Connector sources" in problem for problem in problems)
    assert store.read().resources == ()


def test_an_unknown_class_is_refused_and_the_known_ones_are_named(store: ManifestStore) -> None:
    [problem] = refused(store, SOURCES.replace("files-to-kafka", "files-to-kafak"))
    assert "'files-to-kafak': is not an installed class" in problem
    assert "did you mean 'files-to-kafka'" in problem
    assert "(Worker lake)" in problem


def test_a_change_of_an_immutable_field_is_refused(store: ManifestStore) -> None:
    store.apply(resources(LAKE, SOURCES), "a")
    store.read_and_bind()
    [of_worker] = refused(store, LAKE.replace("replicas: 3", "replicas: 3, groupId: other"))
    [of_connector] = refused(store, SOURCES.replace("{name: lake}", "{name: pond}"))
    assert "spec.groupId cannot be changed" in of_worker
    assert "spec.workerRef.name cannot be changed from 'lake' to 'pond'" in of_connector
    assert {r.metadata.generation for r in store.read().resources} == {1}


def lay_out(root: Path) -> None:
    """As the connector's instance does before any task of it can start."""
    checkpoints = StateDir(root).worker("default", "lake").checkpoints
    write_json(layout_file(checkpoints, "sources"), {"fixed": {}, "first": []})


def test_a_misspelt_worker_is_corrected_since_nothing_was_started(store: ManifestStore) -> None:
    misspelt = SOURCES.replace("{name: lake}", "{name: laek}")
    store.apply(resources(LAKE, misspelt), "a")
    assert store.read_and_bind().bound == {}

    assert store.apply(resources(SOURCES), "a") == [(CONNECTOR, StoredChange.CONFIGURED)]
    assert store.read_and_bind().bound == {CONNECTOR: "lake"}
    [problem] = refused(store, misspelt)
    assert "spec.workerRef.name cannot be changed from 'lake' to 'laek'" in problem


def test_a_binding_outlives_its_worker_and_not_its_connector(store: ManifestStore) -> None:
    store.apply(resources(LAKE, SOURCES), "a")
    store.read_and_bind()
    elsewhere = SOURCES.replace("{name: lake}", "{name: pond}")
    store.delete(WORKER)
    assert "cannot be changed from 'lake' to 'pond'" in refused(store, elsewhere)[0]

    store.delete(CONNECTOR)
    store.apply(resources(elsewhere), "a")
    assert store.read().bound == {}
    store.apply(resources(SOURCES), "a")


def test_nothing_is_bound_while_a_manifest_cannot_be_read(store: ManifestStore, tmp_path: Path) -> None:
    store.apply(resources(LAKE, SOURCES), "a")
    (tmp_path / "manifests" / "worker.default.pond.yaml").write_text("kind: Woker")
    assert store.read_and_bind().bound == {}, "the daemon starts nothing then, either"


@pytest.mark.parametrize("is_bound", [False, True])
def test_a_wrong_class_is_corrected_as_long_as_there_are_no_checkpoints(
    store: ManifestStore, is_bound: bool
) -> None:
    other = SOURCES.replace("files-to-kafka", "noop").replace("{path: ./data, topic: lines}", "{}")
    store.apply(resources(LAKE, other), "a")
    if is_bound:
        store.read_and_bind()
    assert store.apply(resources(SOURCES), "a") == [(CONNECTOR, StoredChange.CONFIGURED)]


def test_paths_in_an_object_store_may_exist(store: ManifestStore) -> None:
    far = LAKE.replace("replicas: 3", "checkpointLocation: 's3a://lake/checkpoints'")
    store.apply(resources(far, SOURCES.replace("topic: lines", "topic: other")), "a")
    store.apply(resources(SOURCES), "a")
    store.read_and_bind()
    [problem] = refused(store, SOURCES.replace("topic: lines", "topic: other"))
    assert "is fixed while checkpoints or positions exist" in problem


def test_positions_in_kafka_may_exist(store: ManifestStore) -> None:
    copy = SOURCES.replace("files-to-kafka", "kafka-to-kafka").replace("path: ./data", "topics: in")
    store.apply(resources(LAKE, copy.replace("topic: lines", "topic: other")), "a")
    store.apply(resources(copy), "a")
    store.read_and_bind()
    other = copy.replace("topic: lines", "topic: other")
    [problem] = refused(store, other)
    assert "is fixed while checkpoints or positions exist" in problem
    store.apply(resources(copy.replace("spec:", "spec:\n  state: Stopped")), "a")
    store.apply(resources(other.replace("spec:", "spec:\n  state: Stopped")), "a")


PIPES = """
apiVersion: cooperator.dev/v1alpha1
kind: Worker
metadata: {name: pipes}
spec: {runtime: connect}
"""
ORDERS = """
apiVersion: cooperator.dev/v1alpha1
kind: Connector
metadata: {name: orders}
spec: {workerRef: {name: pipes}, class: a.B, connectorName: My Orders}
"""


def test_a_name_in_kafka_is_one_connector_s_of_its_worker(store: ManifestStore) -> None:
    assert "is for a Worker with runtime: connect" in refused(store, ORDERS)[-1]
    store.apply(resources(PIPES, ORDERS), "a")
    [said] = refused(store, ORDERS.replace("name: orders", "name: others"))
    assert "is already the name in Kafka of Connector orders of Worker pipes" in said


def test_a_name_in_kafka_can_be_corrected_until_tasks_may_have_started(store: ManifestStore) -> None:
    store.apply(resources(PIPES, ORDERS), "a")
    store.apply(resources(ORDERS.replace("My Orders", "Your Orders")), "b")
    store.read_and_bind()
    [said] = refused(store, ORDERS)
    assert "spec.connectorName cannot be changed from 'Your Orders' to 'My Orders'" in said
    store.delete(Key("Connector", "default", "orders"))
    store.apply(resources(ORDERS), "c")


def test_scale_changes_replicas_only(store: ManifestStore) -> None:
    store.apply(resources(LAKE), "a")
    before = store.scale(WORKER, 5)
    [worker] = store.read().workers
    assert (before and before.spec.replicas, worker.spec.replicas) == (3, 5)
    assert worker.metadata.generation == 2


def test_scale_refuses_what_a_manifest_could_not_say(store: ManifestStore) -> None:
    store.apply(resources(LAKE), "a")
    with pytest.raises(ResourceError, match="replicas is -1"):
        store.scale(WORKER, -1)
    assert store.scale(Key("Worker", "default", "pond"), 1) is None


def test_deleted_is_gone_and_gone_is_said(store: ManifestStore) -> None:
    store.apply(resources(LAKE, SOURCES), "a")
    assert store.delete(CONNECTOR)
    assert not store.delete(CONNECTOR)
    assert [Key.of(r) for r in store.read().resources] == [WORKER]


def test_every_change_is_seen_in_the_stamp(store: ManifestStore) -> None:
    stamps = [store.stamp()]
    store.apply(resources(LAKE), "a")
    stamps.append(store.stamp())
    store.scale(WORKER, 1)
    stamps.append(store.stamp())
    store.delete(WORKER)
    stamps.append(store.stamp())
    assert stamps[0] == stamps[3]
    assert len(set(stamps)) == 3


def test_a_file_spoilt_by_hand_is_said_and_the_others_are_read(store: ManifestStore, tmp_path: Path) -> None:
    store.apply(resources(LAKE, SOURCES), "a")
    (tmp_path / "manifests" / "connector.default.sources.yaml").write_text("kind: Connectr")
    stored = store.read()
    assert [Key.of(r) for r in stored.resources] == [WORKER]
    assert "apiVersion" in str(stored.problems[0])


@pytest.mark.parametrize(
    ("change", "option", "was"),
    [("topic: other", "'topic' = 'other'", "lines"), ("topic: lines, units: 3", "'units' = '3'", "8")],
)
def test_fixed_options_change_only_while_stopped(
    store: ManifestStore, tmp_path: Path, change: str, option: str, was: str
) -> None:
    store.apply(resources(LAKE, SOURCES), "a")
    store.read_and_bind()
    lay_out(tmp_path)
    changed = SOURCES.replace("topic: lines", change)
    [problem] = refused(store, changed)
    assert option in problem
    assert f"is fixed while checkpoints or positions exist: it is {was!r} now" in problem
    assert "stop the connector, reset its offsets" in problem
    store.apply(resources(SOURCES.replace("topic: lines", "topic: lines, units: 8, glob: '*.txt'")), "a")
    store.apply(resources(SOURCES.replace("spec:", "spec:\n  state: Stopped")), "a")
    store.apply(resources(changed.replace("spec:", "spec:\n  state: Stopped")), "a")


def test_nor_can_the_class_whose_checkpoints_they_are(store: ManifestStore, tmp_path: Path) -> None:
    store.apply(resources(LAKE, SOURCES), "a")
    store.read_and_bind()
    lay_out(tmp_path)
    other = SOURCES.replace("files-to-kafka", "noop").replace("{path: ./data, topic: lines}", "{}")
    [problem] = refused(store, other)
    assert "option 'connector.class' = 'noop'" in problem
    assert "it is 'files-to-kafka' now" in problem


FILES = """
apiVersion: cooperator.dev/v1alpha1
kind: Connector
metadata: {name: NAME}
spec: {workerRef: {name: lake}, class: CLASS, config: {CONFIG}}
"""


def files(name: str, config: str, class_name: str = "kafka-to-files") -> str:
    return FILES.replace("NAME", name).replace("CLASS", class_name).replace("CONFIG", config)


def to_parquet(name: str, path: str) -> str:
    return files(name, f"source.format: rate, sink.format: parquet, sink.options.path: '{path}'", "spark")


def test_a_second_connector_with_the_same_directory_is_refused(store: ManifestStore, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "out")
    store.apply(resources(LAKE, files("first", f"topics: 'a, b', path: {tmp_path}/out")), "a")
    for second in (
        files("second", f"topics: 'b, c', path: {tmp_path}/out/"),
        files("second", f"topics: c, path: {tmp_path}/out"),
        to_parquet("second", f"{tmp_path}/out"),
        files("second", f"topics.regex: '[ax]', path: 'file:{tmp_path}/link'"),
        to_parquet("second", f"{tmp_path}/link/a-1"),
        to_parquet("second", f"{tmp_path}/out/c/nested"),
        to_parquet("second", f"{tmp_path}"),
        to_parquet("second", f"file://{tmp_path}/out/x/../b-0/"),
        to_parquet("second", f"{tmp_path}/out/b-0").replace("{name: lake}", "{name: another}"),
    ):
        [problem] = refused(store, second)
        assert problem.startswith("test.yaml (Connector second): spec.config: it would write to ")
        assert str(tmp_path) in problem
        assert "as Connector first does" in problem or "and Connector first writes to" in problem
        assert "give it another directory; or delete Connector first" in problem
    for apart in (
        to_parquet("apart", f"{tmp_path}/outside"),
        to_parquet("apart", f"s3a://bucket{tmp_path}/out/a-0"),
    ):
        store.apply(resources(apart), "b")
        store.delete(Key("Connector", "default", "apart"))


def test_conflicting_connectors_of_one_manifest_are_not_stored(store: ManifestStore) -> None:
    assert len(refused(store, LAKE, to_parquet("one", "/out"), to_parquet("two", "/out/"))) == 1
    assert store.read().resources == ()


def test_a_directorys_owner_may_change_and_a_later_connector_may_not_take_it(
    store: ManifestStore,
) -> None:
    store.apply(resources(LAKE, to_parquet("one", "/one"), to_parquet("two", "/two")), "a")
    [problem] = refused(store, to_parquet("one", "/two"))
    assert "(Connector one): spec.config: it would write to /two, as Connector two does" in problem
    store.apply(resources(to_parquet("two", "/two").replace("class:", "tasksMax: 2, class:")), "a")
    store.delete(Key("Connector", "default", "two"))
    store.apply(resources(to_parquet("one", "/two")), "a")


def test_older_conflicting_connectors_may_change_and_one_of_them_runs(
    store: ManifestStore, tmp_path: Path
) -> None:
    store.apply(resources(LAKE, to_parquet("one", "/out"), to_parquet("two", "/else")), "a")
    [stored] = tmp_path.glob("manifests/*two.yaml")
    stored.write_text(stored.read_text().replace("/else", "/out"))
    store.apply(resources(to_parquet("two", "/out").replace("class:", "state: Stopped, class:")), "a")
    found = store.read()
    assert set(withheld(claims(found.workers, found.connectors))) == {("default", "two")}


@pytest.mark.parametrize(
    "option",
    [
        "sink.options.path: ./rate",
        "sink.options.path: rate",
        'units: \'[{"sink.options.path": "rate"}]\'',
    ],
)
def test_paths_of_the_class_spark_are_relative_to_the_manifest(store: ManifestStore, option: str) -> None:
    store.apply(
        resources(LAKE, files("rate", f"source.format: rate, sink.format: json, {option}", "spark")), "a"
    )
    [connector] = store.read().connectors
    config = connector.spec.config
    [unit] = json.loads(config["units"]) if "units" in config else [config]
    assert unit["sink.options.path"] == "/srv/job/rate"


def test_a_reference_to_a_file_that_the_worker_does_not_allow_is_refused_when_applied(
    store: ManifestStore,
) -> None:
    secured = SOURCES.replace("topic: lines", "topic: lines, sasl.username: '${file:/etc/secrets/k:user}'")
    assert "add its directory to spec.allowedFileReferences" in refused(store, LAKE, secured)[0]
    allowing = LAKE.replace("replicas: 3", "replicas: 3, allowedFileReferences: [/etc/secrets]")
    escaping = secured.replace("secrets/k", "secrets/../shadow")
    assert "/etc/secrets/../shadow is not below" in refused(store, allowing, escaping)[0]
    assert len(store.apply(resources(allowing, secured), "test.yaml")) == 2


def test_a_path_or_topic_that_the_worker_does_not_allow_is_refused_when_applied(store: ManifestStore) -> None:
    allowing = LAKE.replace("replicas: 3", "replicas: 3, allowedPaths: [/srv/other]")
    assert "/srv/job/data': is not a path that the Worker allows" in refused(store, allowing, SOURCES)[0]
    group = next(r for r in resources(LAKE) if isinstance(r, Worker)).group_id
    to_leader_log = SOURCES.replace("topic: lines", f"topic: {group}-leader")
    assert "a topic of the Worker's own group" in refused(store, LAKE, to_leader_log)[0]
