"""Manifests that are applied, applied again, refused, scaled and deleted."""

from pathlib import Path

import pytest

from cooperator.crd import Resource, ResourceError, parse
from cooperator.local.store import Change, Key, ManifestStore, anchored

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
    return ManifestStore(tmp_path / "manifests", clock)


def resources(*texts: str) -> tuple[Resource, ...]:
    return anchored(parse("---".join(texts), "test.yaml"), Path("/srv/job"))


def refused(store: ManifestStore, *texts: str) -> list[str]:
    with pytest.raises(ResourceError) as error:
        store.apply(resources(*texts), "test.yaml")
    return [str(problem) for problem in error.value.problems]


def test_created_then_unchanged_then_configured(store: ManifestStore) -> None:
    assert store.apply(resources(LAKE, SOURCES), "a") == [
        (WORKER, Change.CREATED),
        (CONNECTOR, Change.CREATED),
    ]
    assert store.apply(resources(SOURCES, LAKE), "a") == [
        (CONNECTOR, Change.UNCHANGED),
        (WORKER, Change.UNCHANGED),
    ]
    more = SOURCES.replace("tasksMax: 4", "tasksMax: 8")
    assert store.apply(resources(more), "a") == [(CONNECTOR, Change.CONFIGURED)]
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


def test_what_is_stored_can_be_read_by_another_process(store: ManifestStore, tmp_path: Path) -> None:
    store.apply(resources(LAKE, SOURCES), "a")
    again = ManifestStore(tmp_path / "manifests", lambda: 0)
    assert again.read() == store.read()
    assert [Key.of(r) for r in again.read().resources] == [CONNECTOR, WORKER]


def test_a_relative_path_is_relative_to_the_manifest(store: ManifestStore) -> None:
    store.apply(resources(SOURCES), "a")
    [connector] = store.read().connectors
    assert connector.spec.config["path"] == "/srv/job/data"


def test_of_two_resources_none_is_stored_when_one_is_wrong(store: ManifestStore) -> None:
    problems = refused(store, LAKE, SOURCES.replace("topic: lines", "topik: lines"))
    assert any("topik" in problem and "topic" in problem for problem in problems)
    assert all("Connector sources" in problem for problem in problems)
    assert store.read().resources == ()


def test_an_unknown_class_is_refused_and_the_known_ones_are_named(store: ManifestStore) -> None:
    [problem] = refused(store, SOURCES.replace("files-to-kafka", "files-to-kafak"))
    assert "'files-to-kafak': is not a class that is installed here" in problem
    assert "did you mean 'files-to-kafka'" in problem
    assert "(Worker lake)" in problem


def test_a_change_of_an_immutable_field_is_refused(store: ManifestStore) -> None:
    store.apply(resources(LAKE, SOURCES), "a")
    [of_worker] = refused(store, LAKE.replace("replicas: 3", "replicas: 3, groupId: other"))
    [of_connector] = refused(store, SOURCES.replace("{name: lake}", "{name: pond}"))
    assert "spec.groupId cannot be changed" in of_worker
    assert "spec.workerRef.name cannot be changed from 'lake' to 'pond'" in of_connector
    assert {r.metadata.generation for r in store.read().resources} == {1}


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
def test_what_is_fixed_cannot_change_before_the_connector_is_stopped(
    store: ManifestStore, change: str, option: str, was: str
) -> None:
    store.apply(resources(LAKE, SOURCES), "a")
    changed = SOURCES.replace("topic: lines", change)
    [problem] = refused(store, changed)
    assert option in problem
    assert f"is fixed while there are checkpoints: it is {was!r} now" in problem
    assert "stop the connector, reset its offsets" in problem
    store.apply(resources(SOURCES.replace("topic: lines", "topic: lines, units: 8, glob: '*.txt'")), "a")
    store.apply(resources(SOURCES.replace("spec:", "spec:\n  state: Stopped")), "a")
    store.apply(resources(changed.replace("spec:", "spec:\n  state: Stopped")), "a")


def test_nor_can_the_class_whose_checkpoints_they_are(store: ManifestStore) -> None:
    store.apply(resources(LAKE, SOURCES), "a")
    other = SOURCES.replace("files-to-kafka", "noop").replace("{path: ./data, topic: lines}", "{}")
    [problem] = refused(store, other)
    assert "option 'connector.class' = 'noop'" in problem
    assert "it is 'files-to-kafka' now" in problem
