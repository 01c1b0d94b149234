"""Events of the API. Posting one is best-effort: a failure is logged."""

import logging
import os
import time
import uuid
from collections import deque
from datetime import UTC, datetime
from typing import Final

from cooperator.controller.api.client import EVENTS, Api, ApiError
from cooperator.controller.names import GROUP, VERSION
from cooperator.controller.observe import Body
from cooperator.controller.story import Happening
from cooperator.model.visible import visible_line

log = logging.getLogger(__name__)

_BURST: Final = 25
_WINDOW_S: Final = 60.0
_NOTE_LIMIT: Final = 1000
"""In bytes; the API's limit is 1024."""
_REASON_LIMIT: Final = 128


class Recorder:
    """Posts a limited number of events a minute; the rest of a storm is only logged."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._posted: deque[float] = deque()

    def record(self, about: Body, kind: str, happening: Happening) -> None:
        now = time.monotonic()
        while self._posted and now - self._posted[0] > _WINDOW_S:
            self._posted.popleft()
        if len(self._posted) >= _BURST:
            log.info("not posted, too many events: %s: %s", happening.reason, happening.note)
            return
        self._posted.append(now)
        metadata = about["metadata"]
        note = visible_line(happening.note).encode()[:_NOTE_LIMIT].decode(errors="ignore")
        manifest = {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {
                "name": f"{metadata['name']}.{uuid.uuid4().hex[:12]}",
                "namespace": metadata["namespace"],
            },
            "eventTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "type": "Warning" if happening.warning else "Normal",
            "reason": visible_line(happening.reason, _REASON_LIMIT),
            "action": visible_line(happening.reason, _REASON_LIMIT),
            "note": note,
            "reportingController": f"{GROUP}/operator",
            "reportingInstance": os.environ.get("POD_NAME") or os.uname().nodename,
            "regarding": {
                "apiVersion": f"{GROUP}/{VERSION}",
                "kind": kind,
                "name": metadata["name"],
                "namespace": metadata["namespace"],
                "uid": metadata["uid"],
            },
        }
        try:
            self._api.create(EVENTS, manifest)
        except ApiError as error:
            log.warning("%s", error)
