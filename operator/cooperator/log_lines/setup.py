"""The two formats of lines, and the handler that writes them."""

import logging
import sys
import threading
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final

from pythonjsonlogger.json import JsonFormatter

from cooperator.log_lines.context import FIELDS, current
from cooperator.model.visible import visible_text

log = logging.getLogger(__name__)

MOST: Final = 32_768
"""The upper limit of characters of a record's text, and of each field of a JSON line."""
_INDENT: Final = "\n    "


class LogFormat(StrEnum):
    """The format of lines on stderr."""

    TEXT = "text"
    JSON = "json"


class _Context(logging.Filter):
    """Adds the context, which the logging thread has."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.__dict__.update(current())
        return True


class TextLines(logging.Formatter):
    """Lines for people, with the id of the event, if any, at the end of the message.

    Only the first line of a record begins at the margin: nothing that a message, a field or a traceback
    contains passes for a record.
    """

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(name)s: %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        return visible_text(super().format(record), MOST).replace("\n", _INDENT)

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802
        event = record.__dict__.get("event")
        text = super().formatMessage(record)
        return f"{text} [{event}]" if event else text


class JsonLines(JsonFormatter):
    """One JSON object per line: ``time`` (RFC 3339, UTC), ``level``, ``logger``, ``message``, the known
    ``FIELDS``, and ``exc_info`` with a traceback. Other attributes that libraries attach to their records are
    left out: they may be anything, including secrets."""

    _NAMES: Final = {"asctime": "time", "levelname": "level", "name": "logger"}

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s %(message)s", rename_fields=dict(self._NAMES))

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: N802
        at = datetime.fromtimestamp(record.created, UTC)
        return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def process_log_record(self, log_data: dict[str, Any]) -> dict[str, Any]:
        wanted = ("time", "level", "logger", "message", *FIELDS, "exc_info", "stack_info")
        found = ((name, log_data.get(name)) for name in wanted)
        return {name: _visible(value) for name, value in found if value not in (None, "")}


def _visible(value: object) -> object:
    """A field as it may be shown after its JSON is read."""
    return value if isinstance(value, bool | int | float) else visible_text(str(value), MOST)


def log_to_stderr(log_format: LogFormat = LogFormat.TEXT) -> None:
    """Write all log records of this process from level INFO on to stderr. Uncaught exceptions and warnings
    are records, too."""
    handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(_Context())
    handler.setFormatter(JsonLines() if log_format is LogFormat.JSON else TextLines())
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    logging.captureWarnings(True)
    sys.excepthook = lambda kind, error, trace: log.critical("uncaught", exc_info=(kind, error, trace))
    sys.unraisablehook = lambda found: _ignored("raised where nobody catches it", found.exc_value)
    threading.excepthook = lambda found: _ignored("a thread has ended", found.exc_value)
    # While a broker is away it logs several times a second; our own packages report what matters.
    logging.getLogger("kafka").setLevel(logging.CRITICAL)


def _ignored(what: str, error: BaseException | None) -> None:
    log.error(what, exc_info=error)
