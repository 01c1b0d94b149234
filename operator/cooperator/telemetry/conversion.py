"""Prometheus' families of metrics as OTLP requests. Pure: ``now_ns`` (Unix time) is an argument.

Source: OpenTelemetry's specification, "Prometheus and OpenMetrics Compatibility". Names and attributes are
Prometheus' names and labels. Counters and histograms are cumulative, and tell since when they count. The end
of a series is told by a point without a value, so that no receiver shows its last value any longer: a task
that moves to another member is not counted twice.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise
from typing import Final

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, InstrumentationScope, KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    AGGREGATION_TEMPORALITY_CUMULATIVE,
    DATA_POINT_FLAGS_NO_RECORDED_VALUE_MASK,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from prometheus_client.core import Metric as Family

from cooperator.model.visible import visible_line

SCOPE: Final = "cooperator"
ENDS_NS: Final = 300 * 1_000_000_000
"""An end that is not delivered is repeated for this long; receivers forget the series by themselves then."""
_UNITS: Final = {"seconds": "s", "bytes": "By"}
_INFINITE: Final = "+Inf"


class SeriesKind(Enum):
    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Series:
    """Identifies a series; ``labels`` are sorted."""

    metric: str
    kind: SeriesKind
    labels: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Point:
    """``value`` of a gauge or counter; a histogram's sum, with the ``counts`` of its buckets, of which the
    last has no upper bound in ``bounds``."""

    value: float
    counts: tuple[int, ...] = ()
    bounds: tuple[float, ...] = ()

    @property
    def grows(self) -> float:
        """The number that only becomes less when the series begins anew."""
        return sum(self.counts) if self.counts else self.value


@dataclass(slots=True)
class _Seen:
    start_ns: int
    grows: float


class OtlpConversion:
    """Makes requests of one process's families, in order of time; remembers which series there were.

    ``started_ns`` is when the process started, and its first counters began at 0.
    """

    def __init__(self, resource: Mapping[str, str], version: str, started_ns: int) -> None:
        self._resource = Resource(attributes=list(_key_values(resource.items())))
        self._scope = InstrumentationScope(name=SCOPE, version=version)
        self._before_ns = started_ns
        self._seen: dict[Series, _Seen] = {}
        self._ended: dict[Series, int] = {}
        self._descriptions: dict[str, str] = {}

    def request(self, families: Iterable[Family], now_ns: int) -> ExportMetricsServiceRequest:
        """Returns the values of now, and the ends of series that were in an earlier request.

        Raises ValueError for a family that is no gauge, counter or histogram.
        """
        found = dict[Series, Point]()
        descriptions = dict[str, str]()
        for family in families:
            for series, point in points(family):
                found[series] = point
                descriptions[series.metric] = family.documentation
        self._descriptions.update(descriptions)
        for series, point in found.items():
            self._note(series, point)
        for series in self._seen.keys() - found.keys():
            del self._seen[series]
            self._ended[series] = now_ns
        self._ended = {
            series: at_ns
            for series, at_ns in self._ended.items()
            if series not in found and now_ns - at_ns <= ENDS_NS
        }
        self._before_ns = now_ns
        return self._made(found, now_ns)

    def delivered(self) -> None:
        """The last request has arrived: its ends need not be repeated."""
        self._ended.clear()
        self._descriptions = {
            name: text
            for name, text in self._descriptions.items()
            if name in {series.metric for series in self._seen}
        }

    def _note(self, series: Series, point: Point) -> None:
        seen = self._seen.get(series)
        # A series that is new, or less than before, began after the request before.
        if seen is None or point.grows < seen.grows:
            self._seen[series] = _Seen(self._before_ns, point.grows)
        else:
            seen.grows = point.grows

    def _made(self, found: Mapping[Series, Point], now_ns: int) -> ExportMetricsServiceRequest:
        metrics = dict[tuple[str, SeriesKind], Metric]()

        def metric_of(series: Series) -> Metric:
            key = (series.metric, series.kind)
            if key not in metrics:
                metrics[key] = _metric(*key, self._descriptions.get(series.metric, ""))
            return metrics[key]

        for series, point in found.items():
            _add(metric_of(series), series, point, self._seen[series].start_ns, now_ns)
        for series in self._ended:
            _add(metric_of(series), series, None, 0, now_ns)
        scope = ScopeMetrics(scope=self._scope, metrics=metrics.values())
        return ExportMetricsServiceRequest(
            resource_metrics=[ResourceMetrics(resource=self._resource, scope_metrics=[scope])]
        )


def points(family: Family) -> Iterator[tuple[Series, Point]]:
    """The points of a family. Raises ValueError for one that is no gauge, counter or histogram."""
    match family.type:
        case "gauge":
            for sample in family.samples:
                yield Series(sample.name, SeriesKind.GAUGE, _labels(sample.labels)), Point(sample.value)
        case "counter":
            for sample in family.samples:
                if sample.name.endswith("_total"):
                    yield Series(sample.name, SeriesKind.COUNTER, _labels(sample.labels)), Point(sample.value)
        case "histogram":
            yield from _histograms(family)
        case other:
            raise ValueError(
                f"{family.name} is a {other}: use a gauge, a counter or a histogram, which OTLP has, too"
            )


def _histograms(family: Family) -> Iterator[tuple[Series, Point]]:
    buckets = dict[tuple[tuple[str, str], ...], list[tuple[str, float]]]()
    sums = dict[tuple[tuple[str, str], ...], float]()
    for sample in family.samples:
        labels = _labels({name: value for name, value in sample.labels.items() if name != "le"})
        if sample.name.endswith("_bucket"):
            buckets.setdefault(labels, []).append((sample.labels["le"], sample.value))
        elif sample.name.endswith("_sum"):
            sums[labels] = sample.value
    for labels, cumulative in buckets.items():
        # Prometheus counts what is at or below a bound, OTLP what is between two of them.
        counts = tuple(int(high - low) for low, high in pairwise((0.0, *(count for _, count in cumulative))))
        bounds = tuple(float(bound) for bound, _ in cumulative if bound != _INFINITE)
        yield Series(family.name, SeriesKind.HISTOGRAM, labels), Point(sums[labels], counts, bounds)


def _labels(labels: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((name, value) for name, value in labels.items() if value))


def _key_values(pairs: Iterable[tuple[str, str]]) -> Iterator[KeyValue]:
    return (KeyValue(key=name, value=AnyValue(string_value=visible_line(value))) for name, value in pairs)


def _metric(name: str, kind: SeriesKind, description: str) -> Metric:
    unit = _UNITS.get(name.removesuffix("_total").rpartition("_")[2], "")
    metric = Metric(name=name, description=description, unit=unit)
    match kind:
        case SeriesKind.GAUGE:
            metric.gauge.CopyFrom(Gauge())
        case SeriesKind.COUNTER:
            metric.sum.CopyFrom(
                Sum(aggregation_temporality=AGGREGATION_TEMPORALITY_CUMULATIVE, is_monotonic=True)
            )
        case SeriesKind.HISTOGRAM:
            metric.histogram.CopyFrom(Histogram(aggregation_temporality=AGGREGATION_TEMPORALITY_CUMULATIVE))
    return metric


def _add(metric: Metric, series: Series, point: Point | None, start_ns: int, now_ns: int) -> None:
    """Add a point; None: the end of its series."""
    flags = DATA_POINT_FLAGS_NO_RECORDED_VALUE_MASK if point is None else 0
    attributes = list(_key_values(series.labels))
    if series.kind is SeriesKind.HISTOGRAM:
        histogram = HistogramDataPoint(attributes=attributes, time_unix_nano=now_ns, flags=flags)
        if point is not None:
            histogram.start_time_unix_nano = start_ns
            histogram.count = sum(point.counts)
            histogram.sum = point.value
            histogram.bucket_counts.extend(point.counts)
            histogram.explicit_bounds.extend(point.bounds)
        metric.histogram.data_points.append(histogram)
        return
    number = NumberDataPoint(attributes=attributes, time_unix_nano=now_ns, flags=flags)
    if point is not None:
        number.as_double = point.value
    if series.kind is SeriesKind.COUNTER:
        number.start_time_unix_nano = start_ns
        metric.sum.data_points.append(number)
    else:
        metric.gauge.data_points.append(number)
