"""Error reports have enough to fix the error, and fit into a status."""

import pytest

from cooperator.connectors.options import OptionError, Problem
from cooperator.connectors.references import UnresolvedReference
from cooperator.connectors.topics import TopicMisconfigured
from cooperator.model import TaskId
from cooperator.model.trace import error_of
from cooperator.runtime.failures import Failures
from cooperator.runtime.traces import TaskFailed, describe, lasting_reason


class Captured(Exception):
    """PySpark's errors: they keep their cause in the JVM, and do not show it."""

    def __init__(self, message: str, cause: "Captured | None" = None) -> None:
        super().__init__(message)
        self._cause = cause


def full_disk(message: str = "[TASK_WRITE_FAILED] Task failed while writing rows to file:/lake") -> Captured:
    return Captured(message, Captured("Job aborted", Captured("No space left on device\n\tat java.io.write")))


def test_the_cause_in_the_jvm_comes_last() -> None:
    with pytest.raises(Captured) as raised:
        raise full_disk()

    described = describe(raised.value)
    lines = described.splitlines()

    assert lines[2].startswith("Traceback")
    assert lines[-3].endswith("rows to file:/lake")
    assert lines[-2:] == ["caused by: Job aborted", "caused by: No space left on device"]


def test_causes_already_in_the_message_are_not_repeated() -> None:
    described = describe(full_disk("Job aborted: No space left on device"))

    assert "caused by" not in described


def test_causes_are_kept_where_a_trace_is_too_long() -> None:
    described = describe(full_disk("x" * 20_000))

    assert len(described) == 8_000
    assert described.endswith("caused by: No space left on device\n")


JAVA = """org.apache.spark.SparkException: Job aborted due to stage failure
\tat org.apache.spark.scheduler.DAGScheduler.abortStage(DAGScheduler.scala:2898)
Caused by: java.io.IOException: the writer has failed
\tat java.base/java.lang.Thread.run(Thread.java:840)
Caused by: java.nio.file.AccessDeniedException: /lake/orders
\tat java.base/sun.nio.fs.UnixException.translateToIOException(UnixException.java:90)
\t... 11 more
"""
DENIED = "java.nio.file.AccessDeniedException: /lake/orders"


class Py4JJavaError(Exception):
    """Py4J's errors: their text has the call, then the stack trace of the JVM."""

    def __init__(self, call: str, trace: str) -> None:
        super().__init__(call)
        self._trace = trace

    def __str__(self) -> str:
        return f"An error occurred while calling {self.args[0]}.\n: {self._trace}"


Py4JJavaError.__module__ = "py4j.protocol"


class Known(Captured):
    """A PySpark error with the JVM's stack trace of the innermost error."""

    def __init__(self, message: str, trace: str, cause: Captured | None = None) -> None:
        super().__init__(message, cause)
        self._stackTrace = trace


def from_cause(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "root"),
    [
        (Py4JJavaError("o11790.start", JAVA), DENIED),
        (Py4JJavaError("o1.start", JAVA.partition("Caused")[0]), JAVA.partition("\n")[0]),
        (from_cause(RuntimeError("the query has failed"), Py4JJavaError("o1.start", JAVA)), DENIED),
        (Known("[STREAM_FAILED] It ended", "a.B.c(D.scala:1)\n\t at a.B.d", Known("x", JAVA)), DENIED),
        (Known("[PATH_NOT_FOUND] no /in", "a.B.c(D.scala:1)\n\t at a.B.d"), "Known: [PATH_NOT_FOUND] no /in"),
        (
            Known("in a worker", "a.PythonException: Traceback (most recent call last):\n"
                  '  File "u.py", line 1, in f\nValueError: no such order\n\n\tat a.B.c(D.scala:1)\n'),
            "ValueError: no such order",
        ),
        (ValueError("units is 'x'\n\n  at line 3"), "ValueError: units is 'x'"),
        (
            from_cause(RuntimeError("the copy has failed"), OSError("No space left on device")),
            "RuntimeError: the copy has failed (caused by OSError: No space left on device)",
        ),
        (from_cause(RuntimeError("copy: no space"), OSError("no space")), "RuntimeError: copy: no space"),
    ],
)  # fmt: skip
def test_the_first_line_is_the_root_cause_with_its_class_and_message(error: Exception, root: str) -> None:
    with pytest.raises(type(error)):
        raise error
    described = describe(error)
    assert described.splitlines()[0] == root
    assert error_of(described) == root, "the error is found again in its report"


def test_a_long_trace_keeps_its_head_and_its_tail() -> None:
    frames = "".join(f"\tat dev.cooperator.Frame{number}.run(Frame.java:1)\n" for number in range(900))
    described = describe(Py4JJavaError("o1.start", f"a.SparkException: no\n{frames}Caused by: {DENIED}\n"))
    assert len(described) == 8_000
    assert described.startswith(f"{DENIED}\n\npy4j.protocol.Py4JJavaError: An error occurred")
    assert described.endswith(f"Frame899.run(Frame.java:1)\nCaused by: {DENIED}\n\n")
    assert "Frame0.run" in described
    assert "characters is left out" in described


def test_no_part_of_a_secret_remains_where_a_trace_is_cut() -> None:
    secret = "hunter2-" * 10
    cuts = set()
    for before in range(2_800, 3_900, 20):
        error = ValueError("x" * before + secret + "y" * 9_000)
        cuts.add("***" in describe(error, lambda text: text.replace(secret, "***")))
        assert "hunter2" not in describe(error, lambda text: text.replace(secret, "***"))
    assert cuts == {True, False}, "the cut is before, in and after the secret"


def test_the_last_error_of_a_task_is_one_line_of_bounded_length() -> None:
    task, failures = TaskId("orders", 0), Failures()
    for trace in (describe(Py4JJavaError("o1.start", JAVA)), "x" * 900):
        failures.add(task, trace, 5)
        last = failures.of(task)["last_error"]
        assert isinstance(last, dict)
        assert last["text"] == DENIED if trace[0] != "x" else len(last["text"]) == 300


class Refusal(Captured):
    """An error of Spark with the condition that it has there."""

    def __init__(self, condition: str, cause: Captured | None = None) -> None:
        super().__init__(f"[{condition}] …", cause)
        self.condition = condition

    def getCondition(self) -> str:  # noqa: N802
        return self.condition


class IllegalArgumentException(Known):
    """PySpark's error of that name."""


KAFKA_OPTIONS = "org.apache.spark.sql.kafka010.KafkaSourceProvider.validateGeneralOptions(Kafka.scala:1)"
PROBLEM = Problem("topic", None, "is required", "set it")


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (OptionError([PROBLEM]), "InvalidOption"),
        (OptionError([PROBLEM], passing=True), ""),
        (TaskFailed("in unit 1: …", "InvalidOption"), "InvalidOption"),
        (TaskFailed("no disk"), ""),
        (Refusal("UNRESOLVED_COLUMN.WITH_SUGGESTION"), "InvalidQuery"),
        (Refusal("PARSE_SYNTAX_ERROR"), "InvalidQuery"),
        (TopicMisconfigured("topic lake-batches has 1 partition"), "TopicMisconfigured"),
        (Captured("the query ended", Captured("batch 1", Refusal("DATATYPE_MISMATCH.CAST"))), "InvalidQuery"),
        # Errors caused by a store, a catalogue, a record or a session are transient.
        *((Refusal(condition), "") for condition in ("PATH_NOT_FOUND", "TABLE_OR_VIEW_NOT_FOUND")),
        *((Refusal(condition), "") for condition in ("CAST_INVALID_INPUT", "INVALID_HANDLE.SESSION_CLOSED")),
        (full_disk(), ""),
        (UnresolvedReference("the variable PASSWORD is not set"), ""),
        (UnresolvedReference("PASSWORD is not on the allow-list", lasting=True), "InvalidOption"),
        (IllegalArgumentException("subscribe", KAFKA_OPTIONS), "InvalidOption"),
        (Captured("it ended", IllegalArgumentException("group.id", KAFKA_OPTIONS)), "InvalidOption"),
        (IllegalArgumentException("java.net.UnknownHostException: lake", "a.B.c(D.scala:1)"), ""),
        (ConnectionError("no broker"), ""),
        (SystemExit(1), ""),
    ],
)
def test_only_what_cannot_pass_has_a_reason(error: BaseException, reason: str) -> None:
    assert lasting_reason(error) == reason


def test_a_jvm_that_has_ended_is_no_reason() -> None:
    class Ended(Exception):
        def getCondition(self) -> str:  # noqa: N802
            raise ConnectionRefusedError

    assert lasting_reason(Ended()) == ""
