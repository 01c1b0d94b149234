"""One line of a trace: what its error goes back to."""

import traceback

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cooperator.model.trace import error_of, java_root, trimmed, with_error
from tests.harness.support import bounded_work

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


def test_a_python_error_is_named_by_its_own_line() -> None:
    assert error_of(of_python(ValueError("units is 'x'\n\n  at line 3"))) == "ValueError: units is 'x'"


def test_the_last_error_of_a_chain_counts() -> None:
    assert error_of(of_python(OSError("gone"), KeyError("a"))) == "OSError: gone"


def test_a_trace_that_was_cut_at_its_front_is_one_still() -> None:
    whole = of_python(ValueError("no"))
    assert error_of(whole.partition("\n")[2]) == "ValueError: no"


@pytest.mark.parametrize("behind", ["", "caused by: java.io.IOException: No space left on device\n"])
def test_the_innermost_cause_in_the_jvm_is_what_counts(behind: str) -> None:
    said = error_of(of_python(RuntimeError("the query ended")) + behind if behind else JAVA)
    assert said == "java.io.IOException: No space left on device"


@pytest.mark.parametrize("text", ["topic: is missing; name one", "topic: is missing; name one\nline 2\n"])
def test_a_text_without_a_trace_is_named_by_its_first_line(text: str) -> None:
    assert error_of(text) == "topic: is missing; name one"


@pytest.mark.parametrize("text", ["", "\n", '  File "a.py", line 1\n    raise'])
def test_a_text_without_an_error_has_no_words(text: str) -> None:
    assert error_of(text) == ""


def test_the_words_of_py4j_are_nobodys_error() -> None:
    """As members of before tell it."""
    said = "py4j.protocol.Py4JJavaError: An error occurred while calling o9.start.\n: a.DeniedException: /x\n"
    whole = (
        f'Traceback (most recent call last):\n  File "a.py", line 1, in f\n    start()\n{said}\tat a.B.c\n'
    )
    assert error_of(whole) == "a.DeniedException: /x"


def test_the_first_line_is_found_again_whatever_follows() -> None:
    trace = of_python(RuntimeError("the query ended")) + "caused by: x.Y: another\n"
    assert error_of(with_error("java.io.IOException: no space", trace)) == "java.io.IOException: no space"


@pytest.mark.parametrize("text", ["", "no trace", "a.b.C.d(E.scala:1)\n\tat a.b.C.e(E.scala:2)"])
def test_a_text_without_a_stack_trace_has_no_root(text: str) -> None:
    assert java_root(text) == ""


def test_the_root_of_a_stack_trace_is_its_innermost_cause() -> None:
    assert java_root(JAVA) == "java.io.IOException: No space left on device"
    assert java_root(JAVA.partition("Caused")[0]) == JAVA.partition("\n")[0]


@given(st.text(max_size=400), st.integers(0, 300))
def test_a_trimmed_text_is_never_longer_and_keeps_both_ends(text: str, limit: int) -> None:
    cut = trimmed(text, limit)
    assert len(cut) <= limit
    assert cut == text or len(text) > limit
    if limit >= 100:
        assert (cut[:20], cut[-20:]) == (text[:20], text[-20:])


@pytest.mark.parametrize("line", ["\n", " \n", "\t", "\n\tat", ": ", "Caused by: "])
def test_a_long_text_costs_linear_time(line: str) -> None:
    with bounded_work():
        java_root(line * 200_000)
        java_root(f"{JAVA}{line * 200_000}")


def test_the_cause_at_the_end_of_a_long_trace_is_found() -> None:
    frames = "\n\n\tat a.B.c(B.java:1)" * 20_000
    assert java_root(f"a.Error: no{frames}\n{JAVA}") == "java.io.IOException: No space left on device"
