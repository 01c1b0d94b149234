"""Locations in a file system, and the settings of a store's clients."""

import threading
from pathlib import Path

import pytest

from cooperator.connectors.places import (
    StorePlace,
    create,
    directories,
    hadoop_settings,
    names,
    place_of,
    put,
    remove_tree,
    sizes,
    uri,
)

ENVIRONMENT = {
    "AWS_ENDPOINT_URL_S3": "http://store:9000",
    "AWS_ACCESS_KEY_ID": "user",
    "AWS_SECRET_ACCESS_KEY": "hunter2",
    "AWS_REGION": "eu-west-1",
}


class RecordingStore:
    """A store that records how it was opened, and keeps files that must not be replaced."""

    settings: dict[str, object]

    def __init__(self, bucket: str, prefix: str | None, **settings: object) -> None:
        type(self).settings = {"bucket": bucket, "prefix": prefix, **settings}
        self._there: set[str] = set()

    def put(self, key: str, content: bytes, mode: str = "") -> None:
        from obstore.exceptions import AlreadyExistsError

        if mode == "create" and key in self._there:
            raise AlreadyExistsError
        self._there.add(key)


def test_one_of_many_concurrent_creators_of_a_file_succeeds(tmp_path: Path) -> None:
    done: list[bool] = []
    threads = [
        threading.Thread(target=lambda: done.append(create(tmp_path / "log" / "0", b"x"))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(done) == [False] * 7 + [True]
    assert names(tmp_path / "log") == ["0"], "no partial file is left"


def test_a_refused_write_leaves_nothing(tmp_path: Path) -> None:
    def refuse() -> None:
        assert names(tmp_path) != [], "the file is written by then"
        raise PermissionError("fenced")

    with pytest.raises(PermissionError):
        create(tmp_path / "0", b"x", refuse)
    assert names(tmp_path) == []


def test_files_are_put_listed_and_removed(tmp_path: Path) -> None:
    put(tmp_path / "orders" / "layout.json", b"{}")
    put(tmp_path / "orders" / "layout.json", b"[]")
    put(tmp_path / "orders" / "unit-0" / "offsets" / "0", b"v1")
    assert (tmp_path / "orders" / "layout.json").read_bytes() == b"[]"
    assert directories(tmp_path / "orders") == ["unit-0"]
    assert directories(tmp_path / "nothing") == names(tmp_path / "nothing") == []
    remove_tree(tmp_path / "orders")
    assert directories(tmp_path) == []


def test_sizes_are_those_of_the_files_directly_below(tmp_path: Path) -> None:
    put(tmp_path / "a", b"12")
    put(tmp_path / "below" / "b", b"123")
    assert sizes(tmp_path) == {"a": 2}
    assert sizes(tmp_path / "nowhere") == sizes(tmp_path / "a") == {}


def test_a_directory_stays_a_path(tmp_path: Path) -> None:
    assert place_of(str(tmp_path), {}, {}) == place_of(tmp_path, {}, {}) == tmp_path
    assert uri(tmp_path) == f"file://{tmp_path}"


def test_a_store_is_configured_by_aws_environment_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("obstore.store.S3Store", RecordingStore)
    place = place_of("s3a://lake/a/b/", {}, ENVIRONMENT)
    assert isinstance(place, StorePlace)
    assert uri(place / "orders" / "unit-0") == "s3a://lake/a/b/orders/unit-0"
    assert (place / "orders" / "unit-0").parent == place / "orders"
    assert RecordingStore.settings == {
        "bucket": "lake",
        "prefix": "a/b",
        "region": "eu-west-1",
        "endpoint": "http://store:9000",
        "virtual_hosted_style_request": False,
        "client_options": {"allow_http": True},
        "access_key_id": "user",
        "secret_access_key": "hunter2",
    }
    assert "hunter2" not in repr(place)


def test_conf_overrides_the_environment_and_keys_come_in_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("obstore.store.S3Store", RecordingStore)
    conf = {"spark.hadoop.fs.s3a.endpoint": "other:9001", "spark.hadoop.fs.s3a.access.key": "half"}
    place_of("s3a://lake/conf", conf, ENVIRONMENT)
    assert RecordingStore.settings["endpoint"] == "https://other:9001"
    assert RecordingStore.settings["access_key_id"] == "user"
    place_of("s3a://lake/both", {**conf, "spark.hadoop.fs.s3a.secret.key": "hunter3"}, ENVIRONMENT)
    assert (RecordingStore.settings["access_key_id"], RecordingStore.settings["secret_access_key"]) == (
        "half",
        "hunter3",
    )


def test_hadoop_gets_the_settings_that_it_does_not_find_but_no_key() -> None:
    found = hadoop_settings({}, ENVIRONMENT)
    assert found == {
        "spark.hadoop.fs.s3a.endpoint": "http://store:9000",
        "spark.hadoop.fs.s3a.endpoint.region": "eu-west-1",
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.hadoop.fs.s3a.connection.ssl.enabled": "false",
    }
    assert hadoop_settings({"spark.hadoop.fs.s3a.endpoint.region": "mars"}, {}) == {}
