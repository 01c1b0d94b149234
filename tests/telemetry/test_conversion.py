"""Families of metrics as OTLP requests, as a backend shows them."""

from collections import Counter
from collections.abc import Iterable

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
    SummaryMetricFamily,
)
from prometheus_client.registry import Collector

from cooperator.telemetry.conversion import ENDS_NS, OtlpConversion
from tests.harness.otlp_receiver import Backend, points_of
from tests.harness.scrapes import samples

STARTED_NS = 1_000
TASKS = st.sampled_from(["0", "1", "2"])
SECOND_NS = 1_000_000_000


class Families(Collector):
    """Tasks with a gauge, a counter and a histogram each."""

    def __init__(self) -> None:
        self.tasks: dict[str, list[float]] = {}

    def collect(self) -> Iterable[Metric]:
        lag = GaugeMetricFamily("lag_records", "Lag", labels=["task"])
        rows = CounterMetricFamily("rows", "Rows", labels=["task"])
        holds = HistogramMetricFamily("hold_seconds", "Holds", labels=["task"])
        for task, durations in self.tasks.items():
            lag.add_metric([task], -float(len(durations)))
            rows.add_metric([task], sum(durations))
            counts = Counter(
                bound for each in durations for bound in ("1.0", "2.0", "+Inf") if each <= float(bound)
            )
            holds.add_metric(
                [task], [(bound, counts[bound]) for bound in ("1.0", "2.0", "+Inf")], sum(durations)
            )
        return (lag, rows, holds)

    def scraped(self) -> dict:
        registry = CollectorRegistry()
        registry.register(self)
        return samples(generate_latest(registry).decode())


class Receiving(RuleBasedStateMachine):
    """Tasks come, work, restart and go; requests arrive or are lost."""

    def __init__(self) -> None:
        super().__init__()
        self.families = Families()
        self.backend = Backend()
        self.conversion = OtlpConversion({"service.name": "s"}, "1", STARTED_NS)
        self.now_ns = STARTED_NS
        self.scraped_s: dict = {}
        self.sent_ns = [STARTED_NS]
        self.highest: dict[tuple, tuple[int, float]] = {}

    @rule(task=TASKS, duration_s=st.sampled_from([0.5, 1.0, 1.5, 3.0]))
    def work(self, task: str, duration_s: float) -> None:
        self.families.tasks.setdefault(task, []).append(duration_s)

    @rule(task=TASKS)
    def restart(self, task: str) -> None:
        self.families.tasks[task] = []

    @rule(task=TASKS)
    def leave(self, task: str) -> None:
        self.families.tasks.pop(task, None)

    @rule(arrives=st.booleans(), elapsed_s=st.integers(1, 100))
    def send(self, arrives: bool, elapsed_s: int) -> None:
        self.now_ns += elapsed_s * SECOND_NS
        request = self.conversion.request(self.families.collect(), self.now_ns)
        if arrives:
            self.conversion.delivered()
            self.backend.apply(request)
            self.scraped_s = self.families.scraped()
        for name, point in points_of(request):
            if start_ns := point.start_time_unix_nano:
                assert start_ns in self.sent_ns, "a count begins with the process or after an earlier request"
                value = point.count if hasattr(point, "bucket_counts") else point.as_double
                series = (name, point.attributes[0].value.string_value)
                before_ns, before = self.highest.get(series, (0, 0))
                assert start_ns > before_ns or value >= before, "a lower count begins later"
                self.highest[series] = (start_ns, value)
        self.sent_ns.append(self.now_ns)

    @invariant()
    def the_backend_shows_what_the_page_showed(self) -> None:
        assert self.backend.shown() == self.scraped_s


Receiving.TestCase.settings = settings(
    max_examples=60, stateful_step_count=30, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
TestReceiving = Receiving.TestCase


def test_ends_are_not_repeated_for_ever() -> None:
    families = Families()
    conversion = OtlpConversion({}, "1", STARTED_NS)
    families.tasks["0"] = [1.0]
    conversion.request(families.collect(), 2_000)
    families.tasks.clear()
    assert len(list(points_of(conversion.request((), 3_000)))) == 3
    assert len(list(points_of(conversion.request((), 3_000 + ENDS_NS)))) == 3, "none has arrived"
    assert not list(points_of(conversion.request((), 3_001 + ENDS_NS)))


def test_units_and_descriptions_are_told() -> None:
    families = Families()
    families.tasks["0"] = [1.0]
    request = OtlpConversion({}, "1", STARTED_NS).request(families.collect(), 2_000)
    [resource] = request.resource_metrics
    [scope] = resource.scope_metrics
    found = {metric.name: (metric.unit, metric.description) for metric in scope.metrics}
    assert found == {
        "lag_records": ("", "Lag"),
        "rows_total": ("", "Rows"),
        "hold_seconds": ("s", "Holds"),
    }


def test_a_family_without_a_counterpart_is_refused() -> None:
    with pytest.raises(ValueError, match="rounds is a summary: use a gauge"):
        OtlpConversion({}, "1", 0).request([SummaryMetricFamily("rounds", "Rounds", 1, 2.0)], 1)
