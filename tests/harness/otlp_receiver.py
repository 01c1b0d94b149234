"""A receiver of OTLP over HTTP that keeps what it shows, as a backend of metrics does."""

import gzip
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.metrics.v1.metrics_pb2 import DATA_POINT_FLAGS_NO_RECORDED_VALUE_MASK

from tests.harness.scrapes import Sample


def attributes_of(message: Any) -> dict[str, str]:
    return {each.key: each.value.string_value for each in message.attributes}


def points_of(request: ExportMetricsServiceRequest) -> Iterator[tuple[str, Any]]:
    """The names of metrics and their points."""
    for resource in request.resource_metrics:
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                for point in getattr(metric, metric.WhichOneof("data")).data_points:
                    yield metric.name, point


class Backend:
    """Keeps the last point of each series that has not ended."""

    def __init__(self) -> None:
        self._series: dict[tuple[str, tuple[tuple[str, str], ...]], Any] = {}

    def apply(self, request: ExportMetricsServiceRequest) -> None:
        for name, point in points_of(request):
            series = name, tuple(sorted(attributes_of(point).items()))
            if point.flags & DATA_POINT_FLAGS_NO_RECORDED_VALUE_MASK:
                self._series.pop(series, None)
            else:
                self._series[series] = point

    def shown(self) -> dict[Sample, float]:
        """In the form of ``scraped``."""
        return {
            (sample, tuple(value for _, value in sorted({**dict(labels), **more}.items()))): value
            for (name, labels), point in self._series.items()
            for sample, more, value in _samples(name, point)
        }


def _samples(name: str, point: Any) -> Iterator[tuple[str, Mapping[str, str], float]]:
    if not hasattr(point, "bucket_counts"):
        yield name, {}, point.as_double
        return
    assert len(point.bucket_counts) == len(point.explicit_bounds) + 1
    assert sum(point.bucket_counts) == point.count
    yield f"{name}_count", {}, float(point.count)
    yield f"{name}_sum", {}, point.sum
    total = 0
    for bound, count in zip((*map(str, point.explicit_bounds), "+Inf"), point.bucket_counts, strict=True):
        total += count
        yield f"{name}_bucket", {"le": bound}, float(total)


class OtlpReceiver:
    """Listens on a free port. ``status`` is what it answers; while it is ``silent``, it does not answer."""

    def __init__(self) -> None:
        self._sources: list[tuple[dict[str, str], Backend]] = []
        self.headers: dict[str, str] = {}
        self.requests = 0
        self.status = 200
        self.rejected = 0
        self.silent = False
        self._over = threading.Event()
        self._lock = threading.Lock()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                receiver.answer(self)

            def log_message(self, *_: object) -> None:
                """Keep the output of tests short."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def _backend_of(self, resource: dict[str, str]) -> Backend:
        for known, backend in self._sources:
            if known == resource:
                return backend
        self._sources.append((resource, Backend()))
        return self._sources[-1][1]

    def sources(self) -> list[tuple[dict[str, str], dict[Sample, float]]]:
        """Returns the attributes of each process that sends, and what a backend shows of it by now."""
        with self._lock:
            return [(resource, backend.shown()) for resource, backend in self._sources]

    def shown(self) -> dict[Sample, float]:
        """Returns what a backend shows of the only process that sends."""
        [(_, shown)] = self.sources() or [({}, {})]
        return shown

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def answer(self, asked: BaseHTTPRequestHandler) -> None:
        body = asked.rfile.read(int(asked.headers["Content-Length"]))
        if asked.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        with self._lock:
            self.requests += 1
            self.headers = {name.lower(): value for name, value in asked.headers.items()}
        if self.silent:
            self._over.wait(30)
            return
        if asked.path != "/v1/metrics" or asked.headers["Content-Type"] != "application/x-protobuf":
            asked.send_error(404)
            return
        said = ExportMetricsServiceResponse()
        if self.status == 200:
            request = ExportMetricsServiceRequest.FromString(body)
            with self._lock:
                self._backend_of(attributes_of(request.resource_metrics[0].resource)).apply(request)
            if self.rejected:
                said.partial_success.rejected_data_points = self.rejected
                said.partial_success.error_message = "too old"
        asked.send_response(self.status)
        answer = said.SerializeToString()
        asked.send_header("Content-Length", str(len(answer)))
        asked.end_headers()
        asked.wfile.write(answer)
