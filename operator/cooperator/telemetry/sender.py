"""The thread that posts a process's metrics by OTLP over HTTP (``http/protobuf``).

Nothing that the receiver does reaches the rest of the process: each request has a limit of time, an answer
has a limit of size, one request at most is under way, and nothing is kept for later, since values are
cumulative.
"""

import asyncio
import gzip
import logging
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Final

import aiohttp
import psutil
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from prometheus_client.core import Metric

import cooperator
from cooperator.supervision import LIMIT_S, supervised, wait_turning
from cooperator.telemetry.conversion import OtlpConversion
from cooperator.telemetry.settings import OtlpSettings

log = logging.getLogger(__name__)

_ANSWER_BYTES: Final = 64 * 1024
_TEXT_CHARACTERS: Final = 200
REPEAT_S: Final = 3_600.0
"""Interval at which a failure that lasts is logged again."""


class OtlpSender:
    """Sends ``families`` every ``settings.interval_ms``, from ``start`` until ``stop``."""

    def __init__(
        self, settings: OtlpSettings, resource: Mapping[str, str], families: Callable[[], Iterable[Metric]]
    ) -> None:
        self._settings = settings
        self._families = families
        started_ns = int(psutil.Process().create_time() * 1e9)
        self._conversion = OtlpConversion(resource, cooperator.__version__, started_ns)
        self._ending = threading.Event()
        self._thread = supervised(self._run, "otlp", limit_s=LIMIT_S + settings.timeout_ms / 1000)
        self._problem = ""
        self._logged_s = 0.0
        self._missed = 0

    def start(self) -> None:
        log.info("metrics go to %s every %g s", self._settings.url, self._settings.interval_ms / 1000)
        self._thread.start()

    def stop(self, timeout_s: float) -> None:
        self._ending.set()
        self._thread.join(timeout_s)

    def _run(self) -> None:
        while not wait_turning(self._ending, self._settings.interval_ms / 1000):
            self._send()
        if not self._problem:
            self._send()
            self._send(last=True)

    def _send(self, *, last: bool = False) -> None:
        """``last``: send the ends of all series."""
        try:
            families = () if last else self._families()
            problem = asyncio.run(self._post(self._conversion.request(families, time.time_ns())))
        except Exception as error:
            # The process must not end because of its metrics.
            problem = f"{type(error).__name__}: {error}"
        self._note(problem)

    def _note(self, problem: str) -> None:
        """Log the first failure, one each hour while it lasts, and its end."""
        now_s = time.monotonic()
        if problem:
            self._missed += 1
            if not self._problem or now_s - self._logged_s >= REPEAT_S:
                self._logged_s = now_s
                log.warning("metrics do not reach %s: %s", self._settings.url, problem)
        elif self._problem:
            log.info("metrics reach %s again, after %d failures", self._settings.url, self._missed)
            self._missed = 0
        self._problem = problem

    async def _post(self, request: ExportMetricsServiceRequest) -> str:
        """Returns why the request was not accepted; empty if it was."""
        settings = self._settings
        body = request.SerializeToString()
        headers = {**settings.headers, "Content-Type": "application/x-protobuf"}
        if settings.compressed:
            body = gzip.compress(body)
            headers["Content-Encoding"] = "gzip"
        timeout_s = settings.timeout_ms / 1000
        timeout = aiohttp.ClientTimeout(total=timeout_s)
        connector = aiohttp.TCPConnector(ssl=_tls(settings) if settings.url.startswith("https:") else True)
        try:
            async with (
                aiohttp.ClientSession(connector=connector, timeout=timeout, trust_env=True) as session,
                # Another address must not get the headers.
                session.post(settings.url, data=body, headers=headers, allow_redirects=False) as answer,
            ):
                if not 200 <= answer.status < 300:
                    return f"it answers {answer.status} {answer.reason or ''}".rstrip()
                said = await _read(answer.content)
        except TimeoutError:
            return f"no answer within {timeout_s:g} s"
        except aiohttp.ClientError as error:
            return f"{type(error).__name__}: {error}"
        self._conversion.delivered()
        return _rejected(said)


async def _read(content: aiohttp.StreamReader) -> bytes:
    """Read an answer. Longer ones are cut."""
    said = b""
    while len(said) < _ANSWER_BYTES and (part := await content.read(_ANSWER_BYTES - len(said))):
        said += part
    return said


def _rejected(said: bytes) -> str:
    """Returns the receiver's text about points that it rejected (OTLP's "partial success")."""
    try:
        partial = ExportMetricsServiceResponse.FromString(said).partial_success
    except DecodeError:
        return ""
    if not partial.rejected_data_points:
        return ""
    return f"it rejects {partial.rejected_data_points} points: {partial.error_message[:_TEXT_CHARACTERS]}"


def _tls(settings: OtlpSettings) -> ssl.SSLContext:
    # Files are read for each request, so that renewed ones are used. Raises OSError, which is logged.
    context = ssl.create_default_context(cafile=settings.ca_file or None)
    if settings.certificate_file:
        context.load_cert_chain(settings.certificate_file, settings.key_file)
    return context
