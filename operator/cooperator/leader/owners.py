"""Restarts of a single item of a stock worker, which its owner must perform (docs/protocol.md, section 9).

A record in the config log restarts everything of a connector, so Kafka's leader forwards a request for one
item to the worker that runs it.
"""

import urllib.error
import urllib.request
from typing import Final
from urllib.parse import quote

from cooperator.leader.state import LeaderState
from cooperator.model import INSTANCE, TaskId
from cooperator.wire import RestartRecord

_DIRECT: Final = urllib.request.build_opener(urllib.request.ProxyHandler({}))
UNREACHABLE: Final = 503


def restart_url(state: LeaderState, record: RestartRecord) -> str | None:
    """The URL at which to request the restart of one item; None when a config log record does it. Pure."""
    if not state.leading or record.include_tasks or record.only_failed:
        return None
    task = TaskId(record.connector, INSTANCE if record.task is None else record.task)
    owner = next((member for member in state.members if task in member.owned), None)
    if owner is None or owner.is_agent or not owner.url:
        return None
    path = f"connectors/{quote(task.connector, safe='')}"
    if not task.is_instance:
        path += f"/tasks/{task.task}"
    return f"{owner.url.rstrip('/')}/{path}/restart?forward=false"


def ask_worker(url: str, timeout_s: float) -> int:
    """POST to a worker; returns its status code, or 503 when it does not answer."""
    try:
        # Without a content type the worker refuses the request (415), although there is no body.
        request = urllib.request.Request(url, b"", {"Content-Type": "application/json"}, method="POST")
        with _DIRECT.open(request, timeout=timeout_s) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code
    except OSError:
        return UNREACHABLE
