"""Decides which requests get an answer from an HTTP endpoint; nothing that a client has sent is logged."""

import hmac
import logging
import time
import traceback
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final

from aiohttp import web

log = logging.getLogger(__name__)

_HERE: Final = ("127.0.0.1", "localhost", "[::1]")
_REPORT_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class Door:
    """What a request must have; a refused one gets a status code and no content.

    * ``token``: the bearer token, if one is required (401).
    * ``is_local``: the endpoint serves programs of this machine. A browser on it can be led here by a name
      that resolves to 127.0.0.1, so the Host must be the endpoint's own (421).
    * ``for_browsers``: pages of other sites may send requests, which then need another proof; otherwise
      requests with an Origin are refused (403).
    """

    token: str = field(default="", repr=False)
    is_local: bool = False
    for_browsers: bool = False

    def refusal(self, request: web.Request, port: int) -> HTTPStatus | None:
        """Return why the request is refused; None if it is not. ``port`` is the endpoint's own."""
        if self.is_local and not _is_own(request, port):
            return HTTPStatus.MISDIRECTED_REQUEST
        if "Origin" in request.headers and not self.for_browsers:
            return HTTPStatus.FORBIDDEN
        if self.token and not self._is_known(request.headers.getall("Authorization", [])):
            return HTTPStatus.UNAUTHORIZED
        return None

    def _is_known(self, given: list[str]) -> bool:
        expected = f"Bearer {self.token}".encode()
        return len(given) == 1 and hmac.compare_digest(given[0].encode("utf-8", "replace"), expected)


def _is_own(request: web.Request, port: int) -> bool:
    """Whether a request names this machine, and nothing else, as the host that it is for."""
    # A URI with a host of its own (RFC 9112, 3.2.2) would count instead of the header.
    if not request.raw_path.startswith("/"):
        return False
    return request.headers.getall("Host", []) in [[f"{host}:{port}"] for host in _HERE]


class QuietHandler(web.RequestHandler):
    """aiohttp's handler of a connection; it logs and answers without anything that the client has sent.

    aiohttp itself puts the bytes of a malformed request, such as those of an Authorization header, into the
    log and into its answer.
    """

    _reported_at = float("-inf")
    """When a malformed request was logged last, by any connection: anybody can send them."""

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        if status == HTTPStatus.INTERNAL_SERVER_ERROR:
            self.log_exception("a request failed", exc_info=exc)
        elif time.monotonic() - QuietHandler._reported_at >= _REPORT_S:
            QuietHandler._reported_at = time.monotonic()
            log.info("a request from %s is malformed: %s", request.remote, type(exc).__name__)
        if request.writer.output_size > 0:
            raise ConnectionError("a part of the answer is sent already")
        response = web.Response(status=status)
        response.force_close()
        return response

    def log_exception(self, *args: Any, **kw: Any) -> None:
        """Log the type of the exception and its place. Its text may repeat what the client has sent."""
        error = kw.get("exc_info")
        place = "".join(traceback.format_tb(error.__traceback__)) if isinstance(error, BaseException) else ""
        log.error("%s: %s\n%s", "an HTTP request was not served", type(error).__name__, place)
