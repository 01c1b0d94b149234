"""Metrics that a real receiver gets over HTTP, compared with the page for Prometheus."""

import logging
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from cooperator.host.metrics import WorkerMetrics
from cooperator.leader.distribution import Distribution
from cooperator.leader.endpoint import Endpoint
from cooperator.model import TaskId
from cooperator.telemetry import start_sending
from tests.agent.surroundings import LocalMember, noop_records
from tests.harness.otlp_receiver import OtlpReceiver
from tests.harness.scrapes import scraped
from tests.harness.support import eventually
from tests.telemetry.otel_collector import OtelCollector

A0, A1 = (TaskId("a", task) for task in (0, 1))
FAST = {"OTEL_METRIC_EXPORT_INTERVAL": "100"}
TOKEN = "do-not-show"
CHANGE = ("process_", "cooperator_member_resident_memory_bytes")
"""Metrics that differ from one look to the next."""


def sent(families: Any, receiver: OtlpReceiver, **environment: str) -> Any:
    return start_sending(families, lambda: {"service.name": "test"}, receiver.url, {**FAST, **environment})


def settled(figures: dict) -> dict:
    return {sample: value for sample, value in figures.items() if not sample[0].startswith(CHANGE)}


def problems(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING]


def test_a_receiver_shows_what_a_members_page_shows_while_tasks_come_and_go(tmp_path: Path) -> None:
    member = LocalMember(tmp_path)
    member.start()
    with OtlpReceiver() as receiver:
        sending = sent(member.agent.families, receiver)
        records = noop_records("a", ["u-0", "u-1"], member.journal.path)
        member.group.assignment([A0, A1], config_offset=member.write(*records))

        def equal() -> bool:
            page = scraped(member.agent.url)
            assert settled(receiver.shown()) == settled(page)
            assert receiver.shown().keys() == page.keys(), "process metrics included"
            return True

        eventually(lambda: scraped(member.agent.url).get(("cooperator_task_starts_total", ("a", "1"))), 20)
        eventually(equal, 20)
        assert receiver.shown()["cooperator_task_state", ("a", "RUNNING", "1")] == 1
        member.group.assignment(revoked=[A1])
        eventually(lambda: scraped(member.agent.url)["cooperator_member_tasks", ()] == 1, 20)
        eventually(equal, 20)
        assert not any("1" in labels for _, labels in receiver.shown()), "a moved task is not counted twice"
        member.group.assignment(revoked=[A0])
        eventually(lambda: scraped(member.agent.url)["cooperator_member_tasks", ()] == 0, 20)
        sending.stop(10)
        assert receiver.shown() == {}, "a member that has ended shows nothing any longer"
    member.stop()


@pytest.mark.real
@pytest.mark.timeout(1_200)
@pytest.mark.long(
    "tests/telemetry/test_sender.py::test_a_receiver_shows_what_a_members_page_shows_while_tasks_come_and_go"
)
def test_an_opentelemetry_collector_shows_what_a_members_page_shows(tmp_path: Path) -> None:
    member = LocalMember(tmp_path)
    member.start()
    with OtelCollector(tmp_path) as collector:
        sending = start_sending(member.agent.families, lambda: {"service.name": "test"}, collector.url, FAST)
        records = noop_records("a", ["u-0", "u-1"], member.journal.path)
        member.group.assignment([A0, A1], config_offset=member.write(*records))

        def equal() -> bool:
            assert settled(collector.shown()) == settled(scraped(member.agent.url))
            return True

        eventually(lambda: scraped(member.agent.url).get(("cooperator_task_starts_total", ("a", "1"))), 20)
        eventually(equal, 20)
        member.group.assignment(revoked=[A1])
        eventually(lambda: scraped(member.agent.url)["cooperator_member_tasks", ()] == 1, 20)
        eventually(equal, 20, "a moved task is not counted twice")
        sending.stop(10)
        assert collector.shown() == {}, "a member that has ended shows nothing any longer"
    member.stop()


def test_a_receiver_shows_what_the_operators_page_shows() -> None:
    durations = Distribution()
    for duration_s in (0.001, 0.1, 7.0, 4_000.0):
        durations.add(duration_s)
    histograms = dict.fromkeys(("rounds", "plans", "starts", "holds", "hand_overs"), durations.shown())
    metrics = WorkerMetrics(lambda: {("shop", "lake"): status})
    status: dict[str, Any] = {
        "leading": True,
        "known": True,
        "generation": 4,
        "term": 2,
        "members": ["lake-0"],
        "settled": True,
        "tasks": [
            {"connector": "a", "task": 0, "state": "RUNNING"},
            {"connector": "a", "task": 1, "state": "HELD", "held_for": "lake-1", "held_until_ms": 5_000},
        ],
        "reasons": {"MemberJoined": 3},
        "counters": {},
        "totals": {**histograms, "unassigned_task_ms": 1_500, "forced_rounds": 0},
    }
    endpoint = Endpoint("127.0.0.1", 0, {"GET /metrics": metrics.answer})
    endpoint.start()
    with OtlpReceiver() as receiver:
        sending = sent(metrics.families, receiver, OTEL_EXPORTER_OTLP_COMPRESSION="gzip")
        page = eventually(lambda: scraped(endpoint.url) if receiver.shown() else None)
        assert settled(receiver.shown()) == settled(page)
        assert ("cooperator_worker_hold_seconds_bucket", ("+Inf", "shop", "lake")) in page
        assert receiver.headers["content-encoding"] == "gzip"
        status["leading"] = False
        eventually(lambda: settled(receiver.shown()) == settled(scraped(endpoint.url)))
        assert receiver.shown()["cooperator_worker_leading", ("shop", "lake")] == 0
        sending.stop(10)
    endpoint.stop()


def test_a_receiver_that_fails_is_reported_once_and_its_return_too(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    with OtlpReceiver() as receiver:
        receiver.status = 401
        secret = f"authorization=Bearer%20{TOKEN}"
        sending = sent(lambda: (), receiver, OTEL_EXPORTER_OTLP_HEADERS=secret)
        eventually(lambda: receiver.requests >= 4)
        assert receiver.headers["authorization"] == f"Bearer {TOKEN}"
        assert problems(caplog) == [
            f"metrics do not reach {receiver.url}/v1/metrics: it answers 401 Unauthorized"
        ]
        receiver.status = 200
        eventually(lambda: "again, after" in caplog.text)
        receiver.rejected = 7
        eventually(lambda: "it rejects 7 points: too old" in caplog.text)
        sending.stop(10)
        assert TOKEN not in caplog.text


def test_a_redirect_gets_no_token(caplog: pytest.LogCaptureFixture) -> None:
    with OtlpReceiver() as receiver:
        receiver.status = 307
        sending = sent(lambda: (), receiver, OTEL_EXPORTER_OTLP_HEADERS=f"api-key={TOKEN}")
        eventually(lambda: any("307" in each for each in problems(caplog)))
        sending.stop(10)


def test_a_silent_receiver_holds_up_nothing(caplog: pytest.LogCaptureFixture) -> None:
    with OtlpReceiver() as receiver:
        receiver.silent = True
        sending = sent(lambda: (), receiver, OTEL_EXPORTER_OTLP_TIMEOUT="200")
        eventually(lambda: receiver.requests >= 3)
        assert [each.partition(": ")[2] for each in problems(caplog)] == ["no answer within 0.2 s"]
        assert sum(thread.name == "otlp" for thread in threading.enumerate()) == 1
        sending.stop(10)
        patient = sent(lambda: (), receiver, OTEL_EXPORTER_OTLP_TIMEOUT="600000")
        asked = receiver.requests
        eventually(lambda: receiver.requests > asked)
        patient.stop(0.05)
        assert any(thread.name == "otlp" for thread in threading.enumerate()), (
            "nobody has waited for the answer"
        )
    eventually(lambda: not any(thread.name == "otlp" for thread in threading.enumerate()))


def test_metrics_that_cannot_be_collected_end_nothing(caplog: pytest.LogCaptureFixture) -> None:
    def families() -> Any:
        raise RuntimeError("no figures")

    with OtlpReceiver() as receiver:
        sending = sent(families, receiver)
        eventually(lambda: any("RuntimeError: no figures" in each for each in problems(caplog)))
        sending.stop(10)
        assert not any("has died" in each for each in problems(caplog))


def test_wrong_settings_are_logged_and_the_process_works_on(caplog: pytest.LogCaptureFixture) -> None:
    start_sending(lambda: (), dict, "", {"OTEL_EXPORTER_OTLP_ENDPOINT": "collector:4317"}).stop(1)
    [said] = problems(caplog)
    assert said.startswith("metrics are not sent by OTLP: OTEL_EXPORTER_OTLP_ENDPOINT is 'collector:4317'")


def test_a_missing_package_is_named_and_a_process_without_an_endpoint_needs_none() -> None:
    code = """
import logging, sys
sys.modules["opentelemetry"] = None
logging.basicConfig(format="%(message)s")
from cooperator.telemetry import start_sending
start_sending(lambda: (), dict, sys.argv[1], {})
"""

    def said(endpoint: str) -> str:
        run = [sys.executable, "-c", code, endpoint]
        return subprocess.run(run, env=os.environ, capture_output=True, text=True, check=True).stderr

    assert said("") == ""
    assert said("http://collector:4318").endswith(
        "not installed here: pip install 'cooperator[opentelemetry]'\n"
    )
