"""Log lines of long-running processes: their two formats and their context."""

import json
import logging
import sys
import threading
import warnings
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest

from cooperator.log_lines import LogFormat, common, context, current, log_to_stderr, within

log = logging.getLogger("tests.lines")


@pytest.fixture(autouse=True)
def _as_a_process_begins(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(context, "_common", {})
    for module, name in ((sys, "excepthook"), (sys, "unraisablehook"), (threading, "excepthook")):
        monkeypatch.setattr(module, name, getattr(module, name))
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    logging.captureWarnings(False)
    root.handlers[:] = handlers
    root.setLevel(level)


def begin(log_format: LogFormat) -> None:
    """Configures logging as at the start of a process, without pytest's handlers."""
    logging.getLogger().handlers.clear()
    log_to_stderr(log_format)


def said(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    [line] = capsys.readouterr().err.splitlines()
    found: dict[str, Any] = json.loads(line)
    return found


def test_a_line_has_time_logger_and_context(capsys: pytest.CaptureFixture[str]) -> None:
    begin(LogFormat.JSON)
    common(group="g", member="lake-0")
    with within(connector="a", task="a-0", generation="2.7", event="Pod/lake-1/4711"):
        log.info("starting %s", "a-0")
    line = said(capsys)
    at = datetime.fromisoformat(line.pop("time"))
    assert at.utcoffset() == timedelta(0)
    assert line == {
        "level": "INFO",
        "logger": "tests.lines",
        "message": "starting a-0",
        "group": "g",
        "member": "lake-0",
        "connector": "a",
        "task": "a-0",
        "generation": "2.7",
        "event": "Pod/lake-1/4711",
    }
    log.info("ready")
    assert set(said(capsys)) == {"time", "level", "logger", "message", "group", "member"}


def test_times_are_rfc_3339_in_utc(capsys: pytest.CaptureFixture[str]) -> None:
    begin(LogFormat.JSON)
    record = logging.LogRecord("a", logging.INFO, "", 1, "b", (), None)
    record.created, record.msecs = 1_700_000_000.25, 250
    logging.getLogger().handle(record)
    assert said(capsys)["time"] == "2023-11-14T22:13:20.250Z"


def test_an_exception_is_one_line_with_its_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    begin(LogFormat.JSON)
    try:
        raise ValueError("no\nluck")
    except ValueError:
        log.exception("it failed")
    line = said(capsys)
    assert line["level"] == "ERROR"
    assert line["exc_info"].startswith("Traceback")
    assert line["exc_info"].endswith("ValueError: no\nluck")


def test_attributes_of_libraries_are_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    begin(LogFormat.JSON)
    log.info("logged in", extra={"credentials": {"token": "sesame"}, "settings": sys})
    assert "sesame" not in json.dumps(said(capsys))


def test_a_text_line_ends_with_the_event(capsys: pytest.CaptureFixture[str]) -> None:
    begin(LogFormat.TEXT)
    log.warning("a is slow")
    with within(event="Pod/lake-1/4711", worker="n/lake"):
        log.info("evicting lake-1")
    plain, with_event = capsys.readouterr().err.splitlines()
    assert plain.endswith(" WARNING tests.lines: a is slow")
    assert with_event.endswith(" INFO    tests.lines: evicting lake-1 [Pod/lake-1/4711]")


def test_uncaught_exceptions_and_warnings_are_records(capsys: pytest.CaptureFixture[str]) -> None:
    begin(LogFormat.JSON)

    def fail() -> None:
        raise ValueError("no \x1b[2Jluck")

    thread = threading.Thread(target=fail)
    thread.start()
    thread.join()
    of_thread = said(capsys)
    assert of_thread["level"] == "ERROR"
    assert of_thread["exc_info"].endswith(r"ValueError: no \x1b[2Jluck")
    warnings.warn("it is \x1b[2Jold", stacklevel=1)
    assert r"it is \x1b[2Jold" in said(capsys)["message"]
    try:
        fail()
    except ValueError:
        sys.excepthook(*sys.exc_info())
    assert said(capsys)["level"] == "CRITICAL"


def test_unknown_context_keeps_outer_context_and_a_block_ends() -> None:
    with within(event="Pod/a/1", worker="n/w"):
        with within(event="", worker=None, group="g"):
            assert current() == {"event": "Pod/a/1", "worker": "n/w", "group": "g"}
        assert context.event() == "Pod/a/1"
    assert (current(), context.event()) == ({}, "")


def test_threads_do_not_share_context() -> None:
    seen: list[object] = []
    with within(event="Pod/a/1"):
        thread = threading.Thread(target=lambda: seen.append(context.event()))
        thread.start()
        thread.join()
    assert seen == [""]


def test_an_unknown_field_is_an_error() -> None:
    with pytest.raises(AssertionError), within(pod="a"):
        pass
