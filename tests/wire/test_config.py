"""The records of the config log, exactly as Kafka Connect writes and reads them."""

import json
from typing import Any

import pytest
from hypothesis import given

from cooperator.model import SessionKey, TargetState, TaskId
from cooperator.wire import (
    CommitRecord,
    ConfigRecord,
    ConnectorRecord,
    DecodeError,
    EncodeError,
    FencingRecord,
    LoggerRecord,
    Record,
    RestartRecord,
    SessionKeyRecord,
    TargetStateRecord,
    TaskRecord,
    Unknown,
    decode_config,
    encode_config,
)
from tests.wire.strategies import CONFIG_RECORDS

KEY = SessionKey(bytes(range(32)), "HmacSHA256", 1700000000123)


@given(CONFIG_RECORDS)
def test_a_record_comes_back(record: ConfigRecord) -> None:
    assert decode_config(encode_config(record)) == record


@pytest.mark.parametrize(
    ("record", "key", "value"),
    [
        (
            ConnectorRecord("x", {"name": "x", "path": "/grüße"}),
            "connector-x",
            '{"properties":{"name":"x","path":"/grüße"}}',
        ),
        (ConnectorRecord("x", None), "connector-x", None),
        (TaskRecord(TaskId("x-1", 12), {"a": "b"}), "task-x-1-12", '{"properties":{"a":"b"}}'),
        (CommitRecord("x", 3), "commit-x", '{"tasks":3}'),
        (
            TargetStateRecord("x", TargetState.STARTED),
            "target-state-x",
            '{"state":"STARTED","state.v2":"STARTED"}',
        ),
        (
            TargetStateRecord("x", TargetState.STOPPED),
            "target-state-x",
            '{"state":"PAUSED","state.v2":"STOPPED"}',
        ),
        (TargetStateRecord("x", None), "target-state-x", None),
        (
            SessionKeyRecord(KEY),
            "session-key",
            '{"key":"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=","algorithm":"HmacSHA256",'
            '"creation-timestamp":1700000000123}',
        ),
        (
            RestartRecord("x", include_tasks=True),
            "restart-connector-x",
            '{"include-tasks":true,"only-failed":false}',
        ),
        (
            RestartRecord("x", only_failed=True, task=3),
            "restart-connector-x",
            '{"include-tasks":false,"only-failed":true,"cooperator.task":3}',
        ),
        (FencingRecord("x", 2), "tasks-fencing-x", '{"task-count":2}'),
        (LoggerRecord("org.apache", "DEBUG"), "logger-cluster-org.apache", '{"level":"DEBUG"}'),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else None,
)
def test_a_record_is_written_as_connect_writes_it(record: ConfigRecord, key: str, value: str | None) -> None:
    assert encode_config(record) == Record(key, None if value is None else value.encode())


@pytest.mark.parametrize(
    ("key", "value", "read"),
    [
        ("connector-x", {"properties": {"a": "b", "unset": None}}, ConnectorRecord("x", {"a": "b"})),
        ("target-state-x", {"state": "PAUSED"}, TargetStateRecord("x", TargetState.PAUSED)),
        (
            "target-state-x",
            {"state": "PAUSED", "state.v2": 7},
            TargetStateRecord("x", TargetState.PAUSED),
        ),
        ("restart-connector-x", {"only-failed": "yes"}, RestartRecord("x", False, False)),
        ("task-a--1", {"properties": {}}, TaskRecord(TaskId("a-", 1), {})),
    ],
)
def test_records_of_other_connect_versions_are_read(key: str, value: Any, read: ConfigRecord) -> None:
    assert decode_config(Record(key, json.dumps(value).encode())) == read


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("nonsense", {}, "no key of the config log"),
        ("session-key-2", {}, "no key of the config log"),
        ("connector-x", [], "value: list instead of an object"),
        ("connector-x", {"properties": None}, "value.properties: null instead of an object"),
        ("connector-x", {"properties": {"a": 1}}, "value.properties.a: int instead of str"),
        ("task-x", {"properties": {}}, "the key names no task"),
        ("task-x-2147483648", {"properties": {}}, "the key names no task"),
        ("task-x-٣", {"properties": {}}, "the key names no task"),
        ("task-x-0", None, "value: null instead of an object"),
        ("commit-x", {"tasks": True}, "value.tasks: bool instead of int"),
        ("commit-x", {"tasks": -1}, "value.tasks: -1 is not a number of tasks"),
        ("commit-x", {}, "value.tasks: missing"),
        ("target-state-x", {"state.v2": "HIDDEN", "state": "STARTED"}, "'HIDDEN' is not a target state"),
        ("session-key", {"key": "*", "algorithm": "a", "creation-timestamp": 1}, "value.key: not base64"),
        (
            "session-key",
            {"key": "AAAA", "algorithm": "a", "creation-timestamp": 1.5},
            "value.creation-timestamp: float instead of int",
        ),
    ],
)
def test_records_that_connect_skips_are_unknown(key: str, value: Any, reason: str) -> None:
    assert decode_config(Record(key, json.dumps(value).encode())) == Unknown(key, reason)


@pytest.mark.parametrize("value", [b"", b"{", b"\xff", b'{"a":NaN}', b'"\\ud800"', '"ü"'.encode("utf-16")])
def test_invalid_json_is_an_error_that_does_not_quote_it(value: bytes) -> None:
    with pytest.raises(DecodeError, match=r"^connector-x: not JSON \(\w+\)$"):
        decode_config(Record("connector-x", value))


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (TaskRecord(TaskId("x", -1), {}), "task-x: -1 is not a task number"),
        (CommitRecord("x", -1), "x: -1 is not a number of tasks"),
        (ConnectorRecord("x", {"a": "\ud800"}), "connector-x: .* is not valid Unicode"),
    ],
)
def test_unencodable_values_are_refused(record: ConfigRecord, message: str) -> None:
    with pytest.raises(EncodeError, match=message):
        encode_config(record)


def test_a_session_key_is_in_no_repr() -> None:
    record = encode_config(SessionKeyRecord(KEY))

    for shown in (repr(record), repr(decode_config(record)), str(record)):
        assert "AAECAwQ" not in shown
        assert "x00" not in shown
