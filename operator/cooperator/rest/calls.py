"""Sends requests to members: to the first one that answers, never through a proxy."""

import json
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from http.client import HTTPException
from typing import Any, Final

from cooperator.rest.answers import RequestRefused

_DIRECT: Final = urllib.request.build_opener(urllib.request.ProxyHandler({}))
_TIMEOUT_S: Final = 30.0
"""Some plug-ins query a database while they validate a configuration."""


def ask(
    urls: Sequence[str],
    method: str,
    path: str,
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
) -> Any:
    """Return the JSON that a member answers, or None for an empty answer. Raises RequestRefused with a
    member's own code and message, and with 503 if no member can be reached. ``path`` is encoded."""
    problem = "the group has no members at the moment"
    for url in urls:
        request = urllib.request.Request(f"{url}{path}", body, dict(headers or {}), method=method)
        if body is not None:
            request.add_header("Content-Type", "application/json")
        try:
            with _DIRECT.open(request, timeout=_TIMEOUT_S) as answer:
                text = answer.read()
                return json.loads(text) if text else None
        except urllib.error.HTTPError as error:
            with error:
                raise RequestRefused(error.code, _message(error)) from None
        except (OSError, HTTPException, ValueError) as error:
            problem = f"no member answers; {url}: {getattr(error, 'reason', error)}"
    raise RequestRefused(503, f"{problem}: try again")


def _message(error: urllib.error.HTTPError) -> str:
    text = error.read().decode(errors="replace")
    try:
        return str(json.loads(text)["message"])
    except (ValueError, KeyError, TypeError):
        return text[:300] or f"a member answered {error.code}"
