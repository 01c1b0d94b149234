"""Reports of errors that ended a task: the root cause first, then the trace."""

import traceback
from collections.abc import Callable, Iterator
from typing import Final

from cooperator.artifacts import ArtifactError
from cooperator.connectors.exactly_once import CheckpointBehind
from cooperator.connectors.options import OptionError
from cooperator.connectors.output_owner import OutputTaken
from cooperator.connectors.places import NoPlace
from cooperator.connectors.references import UnresolvedReference
from cooperator.connectors.topics import TopicMisconfigured
from cooperator.model.status import INVALID_OPTION, INVALID_QUERY, TOPIC_MISCONFIGURED
from cooperator.model.trace import java_root, trimmed, with_error

_TRACE_LIMIT: Final = 8_000  # characters: traces travel in status records
_CAUSES_LIMIT: Final = 2_000
_ERROR_LIMIT: Final = 600


_REFUSED_QUERY: Final = (
    *("AMBIGUOUS_", "DATATYPE_MISMATCH", "INVALID_PARAMETER_VALUE.PATTERN", "MISSING_", "PARSE_"),
    *("STREAMING_OUTPUT_MODE.", "UNRESOLVED_", "UNSUPPORTED_", "WRONG_NUM_ARGS"),
)
"""Spark error conditions that the query itself causes. Those that concern a store or a catalogue (a path or a
table that is not there) are not among them: they may pass."""


_CHECK_OF_OPTIONS: Final = "KafkaSourceProvider.validate"
"""Methods that look at options only. Other errors of this class may have causes that pass, such as an unknown
host."""


class TaskFailed(Exception):
    """The failure of a job. The message is the whole report, without secrets.

    ``reason`` is that of ``lasting_reason``.
    """

    def __init__(self, report: str, reason: str = "") -> None:
        super().__init__(report)
        self.reason = reason


_SAID_IN_FULL: Final = (
    *(OptionError, UnresolvedReference, TaskFailed, ArtifactError, NoPlace, OutputTaken, CheckpointBehind),
    TopicMisconfigured,
)
"""Errors whose message is meant for users, and says what to do."""


def describe(error: Exception, scrub: Callable[[str], str] = str) -> str:
    """Returns the report: the root cause in one line, then the head and the tail of the traceback.

    Errors in a configuration are reported by their message alone. ``scrub`` removes secrets from a text; it
    gets the whole text, since it would not recognize a secret that is cut in two.
    """
    if isinstance(error, _SAID_IN_FULL):
        return scrub(str(error))
    causes = "".join(f"caused by: {cause}\n" for cause in _causes(error))[:_CAUSES_LIMIT]
    trace = "".join(traceback.format_exception(error)) + causes
    first = trimmed(scrub(root_cause(error)), _ERROR_LIMIT).replace("\n", " ")
    return trimmed(with_error(first, scrub(trace)), _TRACE_LIMIT)


def lasting_reason(error: BaseException) -> str:
    """Returns the one-word reason why every restart would fail in the same way (see ``LASTING_FAILURES``);
    empty if it may pass."""
    if isinstance(error, TaskFailed):
        return error.reason
    if isinstance(error, OptionError):
        return "" if error.passing else INVALID_OPTION
    if isinstance(error, UnresolvedReference):
        return INVALID_OPTION if error.lasting else ""
    if any(map(_is_of_options, _chain(error))):
        return INVALID_OPTION
    if isinstance(error, TopicMisconfigured):
        return TOPIC_MISCONFIGURED
    return INVALID_QUERY if any(map(_is_of_query, _chain(error))) else ""


def _is_of_options(error: BaseException) -> bool:
    """Whether Spark's Kafka source or sink refused its options before it asked Kafka for anything."""
    trace = getattr(error, "_stackTrace", None)
    is_refused = type(error).__name__ == "IllegalArgumentException"
    return is_refused and isinstance(trace, str) and _CHECK_OF_OPTIONS in trace


def _is_of_query(error: BaseException) -> bool:
    """Does not import PySpark, which a member without queries has not loaded."""
    try:
        condition = getattr(error, "getCondition", lambda: None)()
    except Exception:
        return False  # Py4J asks the JVM, which may have ended
    return isinstance(condition, str) and condition.startswith(_REFUSED_QUERY)


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yields the error and its causes, as Python and as PySpark keep them."""
    seen: list[BaseException] = []
    following: BaseException | None = error
    while isinstance(following, BaseException) and following not in seen:
        seen.append(following)
        yield following
        following = getattr(following, "_cause", None) or following.__cause__


def root_cause(error: BaseException) -> str:
    """Returns class and message of the root cause in one line, taken from the JVM if it comes from there."""
    chain = [error]
    while (cause := chain[-1].__cause__) is not None and cause not in chain:
        chain.append(cause)
    for one in reversed(chain):
        if found := _in_the_jvm(one):
            return found
    words = [_named(one) for one in chain]
    first, last = words[0], words[-1]
    return first if len(words) == 1 or last.partition(": ")[2] in first else f"{first} (caused by {last})"


def _named(error: BaseException) -> str:
    """Returns the line of the error in a traceback."""
    return "".join(traceback.format_exception_only(error)).strip().partition("\n")[0]


def _in_the_jvm(error: BaseException) -> str:
    """Returns the root cause of an error that PySpark or Py4J brought from the JVM; empty for others.

    PySpark keeps the causes (``_cause``), each with its stack trace as text; the message of Py4J's own error
    is a stack trace, and that of a Spark Connect server may contain one.
    """
    innermost = error
    while isinstance(cause := getattr(innermost, "_cause", None), BaseException):
        innermost = cause
    for text in (getattr(innermost, "_stackTrace", None), _text(innermost)):
        is_stack_trace = isinstance(text, str) and ("\n\tat " in text or "\nCaused by: " in text)
        if is_stack_trace and (found := java_root(str(text))):
            return found
    if innermost is error and not hasattr(error, "_stackTrace"):
        return ""
    words = _text(innermost).strip().partition("\n")[0]
    return words if ": " in words else f"{type(innermost).__name__}: {words}"


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:
        return ""  # Py4J asks the JVM, which may have ended


def _causes(error: Exception) -> Iterator[str]:
    """Yields the causes in the JVM, a line each.

    PySpark keeps them, but its message is that of the first error only.
    """
    said = _text(error)
    cause = getattr(error, "_cause", None)
    while cause is not None:
        words = _text(cause).strip().partition("\n")[0]
        if words and words not in said:
            said += words
            yield words
        cause = getattr(cause, "_cause", None)
