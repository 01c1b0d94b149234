"""A member's metrics, as Prometheus' own parser reads them."""

from collections import defaultdict
from pathlib import Path

import pytest

from cooperator.agent.metrics import MetricsListener
from cooperator.model import INSTANCE, TargetState, TaskId
from cooperator.model.status import RATE_VALID_MS
from cooperator.wire import TargetStateRecord, encode_config
from tests.agent.surroundings import LocalMember, noop_records
from tests.harness.scrapes import scraped
from tests.harness.support import eventually
from tests.runtime.heard import Heard

A, A0, A1 = (TaskId("a", task) for task in (INSTANCE, 0, 1))


def test_each_task_has_a_state_and_counts_and_leaves_no_series_behind(tmp_path: Path) -> None:
    member = LocalMember(tmp_path)
    member.start()
    records = noop_records("a", ["u-0", "u-1"], member.journal.path, **{"fail.after.ms": "0"})
    member.group.assignment([A, A0, A1], config_offset=member.write(*records))

    def failed() -> bool:
        seen = defaultdict(lambda: -1.0, scraped(member.agent.url))
        assert seen["cooperator_member_tasks", ()] == 3
        assert seen["cooperator_task_state", ("a", "RUNNING", "instance")] == 1
        assert seen["cooperator_task_failures_total", ("a", "0")] >= 1
        assert seen["cooperator_task_last_failure_timestamp_seconds", ("a", "0")] > 1_600_000_000
        assert seen["cooperator_task_failures_total", ("a", "instance")] == 0
        return True

    eventually(failed, 20)
    assert scraped(member.agent.url)["cooperator_member_resident_memory_bytes", ()] > 1_000_000

    member.group.assignment(revoked=[A0, A1])
    eventually(lambda: scraped(member.agent.url)["cooperator_member_tasks", ()] == 1, 20)
    left = {labels[:2] for (name, labels) in scraped(member.agent.url) if name.startswith("cooperator_task")}
    assert {labels[0] for labels in left} == {"a"}
    assert not any("0" in labels or "1" in labels for labels in left)
    member.stop()


def test_a_paused_task_has_its_own_state(tmp_path: Path) -> None:
    member = LocalMember(tmp_path)
    member.start()
    records = noop_records("a", ["u-0"], member.journal.path)
    paused = encode_config(TargetStateRecord("a", TargetState.PAUSED))
    member.group.assignment([A0], config_offset=member.write(*records, paused))
    eventually(
        lambda: scraped(member.agent.url).get(("cooperator_task_state", ("a", "PAUSED", "0"))) == 1, 20
    )
    member.stop()


def test_metrics_of_the_runtime_are_kept_and_exported() -> None:
    heard = Heard()
    tally = MetricsListener(heard)
    tally.started(A0, 1)
    tally.progress(A0, 1, '{"rows_in": 7, "lag": 3}')
    assert tally.of(A0)["lag"] == 3
    tally.failed(A0, 1, "no disk")
    figures = tally.of(A0)
    assert (figures["rows_in"], figures["starts"], figures["failures"]) == (7, 1, 1)
    assert heard.of(A0) == [("started", 1), ("failed", 1)]
    assert heard.progress_of(A0) == {"rows_in": 7, "lag": 3}
    tally.keep([A1])
    assert tally.of(A0) == {"starts": 0, "failures": 0, "failed_s": 0.0, "waiting_s": 0.0}


def test_the_longest_wait_of_a_task_is_a_gauge_until_it_is_over() -> None:
    tally = MetricsListener(Heard())
    tally.progress(A0, 1, '{"waits": [{"for": "a", "since_ms": 9000}, {"for": "b", "since_ms": 7000}]}')
    assert tally.of(A0)["waiting_s"] == 7.0
    tally.progress(A0, 1, '{"rows_in": 7}')
    assert tally.of(A0)["waiting_s"] == 0.0


@pytest.mark.parametrize("end", ["paused", "stopped", "failed"])
def test_gauges_end_with_the_attempt_that_reported_them(end: str) -> None:
    tally = MetricsListener(Heard())
    waits = '"waits": [{"for": "a", "since_ms": 9}]'
    tally.progress(A0, 1, f'{{"rows_in": 7, "rows_per_s": 7089.0, "lag": 3, {waits}}}')
    arguments = (A0, 1, "no disk") if end == "failed" else (A0, 1)
    getattr(tally, end)(*arguments)
    assert tally.of(A0).keys() & {"rows_in", "rows_per_s", "lag"} == {"rows_in"}
    assert tally.of(A0)["waiting_s"] == 0.0


def test_a_rate_that_is_not_reported_again_is_dropped() -> None:
    now_s = 1_000.0
    tally = MetricsListener(Heard(), lambda: now_s)
    tally.progress(A0, 1, '{"rows_per_s": 7089.0}')
    tally.progress(A1, 1, '{"rows_per_s": 0.0}')
    now_s += RATE_VALID_MS / 1000
    assert tally.of(A0)["rows_per_s"] == 7089.0
    now_s += 0.1
    assert "rows_per_s" not in tally.of(A0)
    assert tally.of(A1)["rows_per_s"] == 0.0, "the task has read nothing since"
