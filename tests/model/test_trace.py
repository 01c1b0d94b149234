"""One line of a trace: what its error goes back to."""

import traceback

import pytest

from cooperator.model.trace import error_of

JAVA = """org.apache.kafka.connect.errors.ConnectException: Exiting due to unrecoverable exception.
\tat org.apache.kafka.connect.runtime.WorkerSinkTask.deliverMessages(WorkerSinkTask.java:636)
\tat java.base/java.lang.Thread.run(Thread.java:840)
Caused by: java.io.IOException: No space left on device
\tat java.base/java.io.FileOutputStream.writeBytes(Native Method)
\t... 11 more
"""


def of_python(error: Exception, cause: Exception | None = None) -> str:
    try:
        raise error from cause
    except Exception as raised:
        return "".join(traceback.format_exception(raised))


def test_what_python_raised_is_named_by_its_own_line() -> None:
    assert error_of(of_python(ValueError("units is 'x'\n\n  at line 3"))) == "ValueError: units is 'x'"


def test_of_errors_that_were_raised_in_a_row_the_last_counts() -> None:
    assert error_of(of_python(OSError("gone"), KeyError("a"))) == "OSError: gone"


def test_a_trace_that_was_cut_at_its_front_is_one_still() -> None:
    whole = of_python(ValueError("no"))
    assert error_of(whole.partition("\n")[2]) == "ValueError: no"


@pytest.mark.parametrize("behind", ["", "caused by: java.io.IOException: No space left on device\n"])
def test_the_innermost_cause_in_the_jvm_is_what_counts(behind: str) -> None:
    said = error_of(of_python(RuntimeError("the query ended")) + behind if behind else JAVA)
    assert said == "java.io.IOException: No space left on device"


@pytest.mark.parametrize("text", ["topic: is missing; name one", "topic: is missing; name one\nline 2\n"])
def test_what_is_no_trace_is_known_by_its_first_line(text: str) -> None:
    assert error_of(text) == "topic: is missing; name one"


@pytest.mark.parametrize("text", ["", "\n", '  File "a.py", line 1\n    raise'])
def test_a_text_without_an_error_has_no_words(text: str) -> None:
    assert error_of(text) == ""
