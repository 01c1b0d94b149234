"""Bad options are refused; errors name the field, the value and the remedy."""

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from cooperator.agent.options import WorkerOptions

GOOD: dict[str, Any] = {
    "group_id": "lake",
    "bootstrap_servers": "localhost:9092",
    "identity": "lake-0",
    "incarnation": "incarnation-1",
    "state_dir": Path("state"),
    "checkpoints": Path("checkpoints"),
}


@pytest.mark.parametrize(
    ("field", "value", "remedy"),
    [
        ("identity", "", "set it"),
        ("incarnation", "", "set it"),
        ("group_id", "", "set it"),
        ("capacity", 0.0, "must be greater than 0"),
        ("capacity", float("nan"), "must be greater than 0"),
        ("kill_after_ms", 0, "must be greater than 0"),
        ("drain_timeout_ms", -1, "must be greater than 0"),
        ("revocation_timeout_ms", 0, "must be greater than 0"),
        ("lease_ms", 33_000, r"must be greater than rebalance_timeout_ms \+ heartbeat_interval_ms \(33000\)"),
        ("host", "0.0.0.0", "set advertised_host"),
        ("heartbeat_interval_ms", 9_000, "third of session_timeout_ms"),
    ],
)
def test_refusals(field: str, value: Any, remedy: str) -> None:
    with pytest.raises(ValueError, match=remedy) as refusal:
        WorkerOptions(**{**GOOD, field: value})
    assert field in str(refusal.value)


def test_options_reach_the_parts_that_use_them() -> None:
    options = WorkerOptions(
        **GOOD,
        kill_after_ms=3_000,
        drain_timeout_ms=60_000,
        revocation_timeout_ms=7_000,
        heap_mb=512,
        session_timeout_ms=9_500,
    )
    assert options.settings().revocation_timeout_ms == 7_000
    assert (options.settings().kill_after_ms, options.settings().drain_timeout_ms) == (3_000, 60_000)
    assert options.group_config().client_id == "lake-0-incarnation-1"
    assert options.group_config().session_timeout_ms == 9_500
    assert options.logs_config().topic_names.config == "lake-configs"
    assert (options.runtime_settings().member, options.runtime_settings().heap_mb) == ("lake-0", 512)


def test_secrets_are_not_shown() -> None:
    options = WorkerOptions(
        **GOOD, group_security={"sasl_plain_password": "x7"}, log_security={"sasl.password": "x7"}
    )
    assert "x7" not in repr(options)
    assert {field.name for field in fields(options) if not field.repr} == {"group_security", "log_security"}
