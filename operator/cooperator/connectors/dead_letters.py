"""Records that cannot be converted: the options that tolerate them, and their format in a dead-letter topic.

With ``errors.tolerance`` = all the SELECT runs on the collected batch. When it fails, the rows that make it
fail are found (``failing_rows``), and the others are converted as if those were not there. The SELECT must
treat each row by itself (no aggregate over several rows, no order, no limit); otherwise its result would
change.

Names of options and headers are Kafka Connect's (KIP-298).
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, NamedTuple, Self

from pydantic import model_validator

from cooperator.connectors.base import UnitContext
from cooperator.connectors.failing_rows import SparkFailure
from cooperator.connectors.options import TopicName, option, refuse
from cooperator.connectors.output_record import OutputRecord
from cooperator.connectors.spark import SparkOptions
from cooperator.connectors.sql_rules import load_grammar, parse_bounded
from cooperator.connectors.transform import first_line
from cooperator.model.visible import visible_line

_PREFIX = "__connect.errors."
_TOPIC_OPTION = "errors.deadletterqueue.topic.name"
_MESSAGE_LIMIT = 2_000  # characters: headers count against the size of a record
_SHOWN = 200  # characters of a key or value
_ENDS = 1_000  # bytes: more than are shown
LETTER_BYTES = 16_384
"""The upper limit by which a letter is larger than its record."""


class DeadLetterOptions(SparkOptions):
    tolerance: Literal["none", "all"] = option(
        "errors.tolerance",
        "none",
        expected="none (a row that cannot be converted fails the task) or all (it is skipped)",
    )
    dead_letters: TopicName | Literal[""] = option(
        _TOPIC_OPTION, "", expected="the topic for skipped rows, as they were read"
    )

    @property
    def select(self) -> str:
        """The SELECT that rows go through; empty: none."""
        return self.transform_sql

    @property
    def select_option(self) -> str:
        """The name of the option that sets it."""
        return "transform.sql"

    @property
    def can_fail(self) -> bool:
        """Whether anything besides the SELECT can fail for a row."""
        return False

    @model_validator(mode="after")
    def _tolerant(self) -> Self:
        if self.dead_letters and self.tolerance == "none":
            raise refuse(
                "is not used with errors.tolerance = none", "set errors.tolerance to all", _TOPIC_OPTION
            )
        if self.tolerance == "all" and not self.select and not self.can_fail:
            remedy = "set transform.sql, or remove it: without transform.sql nothing is converted"
            raise refuse("has no effect here", remedy, "errors.tolerance")
        if self.tolerance == "all" and self.select and not treats_rows_alone(self.select):
            remedy = (
                "remove aggregates, windows, DISTINCT, joins, hints, LIMIT, OFFSET and ORDER, SORT, "
                "DISTRIBUTE or CLUSTER BY, or set it to none"
            )
            raise refuse("requires a SELECT that treats each row by itself", remedy, "errors.tolerance")
        return self


def treats_rows_alone(sql: str) -> bool:
    """Whether the query converts each row of ``input`` without looking at other rows."""
    load_grammar()
    from sqlglot import exp

    over_several = (exp.AggFunc, exp.Group, exp.Window, exp.Distinct, exp.Join, exp.SetOperation)
    of_partitions = (exp.Order, exp.Sort, exp.Distribute, exp.Cluster, exp.Hint)
    chosen_by_number = (exp.Limit, exp.Offset, exp.Fetch, exp.TableSample)
    query = parse_bounded(sql)[0]
    if query.find(*over_several, *of_partitions, *chosen_by_number) is not None:
        return False
    tables = [table.name.lower() for table in query.find_all(exp.Table)]
    return len(tables) == len(set(tables))  # a table that is read twice is compared with itself


_MALFORMED = "[MALFORMED_RECORD_IN_PARSING"


def reason(error: Exception) -> str:
    """Returns the text of an error for a header. Spark quotes the data, with what would act on a terminal."""
    return visible_line(first_line(error), _MESSAGE_LIMIT)


class RecordRefused(Exception):
    """The sink refuses a record; the message names its position, key and value, the reason and a remedy."""


def record_refused(row: Mapping[str, Any], reason: str, remedy: str) -> RecordRefused:
    """Returns the refusal of a record as it was read."""
    where = f"{row['topic']}-{row['partition']}, offset {row['offset']}"
    shown = f"key {_shown(row['key'])}, value {_shown(row['value'])}"
    return RecordRefused(f"{where}, {shown}: {visible_line(reason)}; {remedy}")


def _shown(data: bytes | None) -> str:
    if data is None:
        return "null"
    ends = data if len(data) <= 2 * _ENDS else data[:_ENDS] + data[-_ENDS:]
    return visible_line(ends.decode(errors="backslashreplace"), _SHOWN)


def _message(row: Mapping[str, Any], error: Exception) -> str:
    if _MALFORMED in str(error):
        # Spark shows what it has read, which is nothing.
        return (
            f"not JSON of the converter's schema: key {_shown(row['key'])}, value {_shown(row['value'])}; "
            "write JSON that key.schema or value.schema describes, or set the converter to string"
        )
    told = reason(error)
    return told if isinstance(error, RecordRefused) else f"{told} (key: {_shown(row['key'])})"


class Letter(NamedTuple):
    """A record as it was read, its error, and the stage (one of Connect's) that failed."""

    row: Mapping[str, Any]
    stage: str
    error: Exception


def letters(found: Iterable[Letter], topic: str, context: UnitContext) -> Iterator[OutputRecord]:
    """Yields the records as they were read, with the errors in their headers."""
    for row, stage, error in found:
        details = {
            "topic": row["topic"],
            "partition": row["partition"],
            "offset": row["offset"],
            "connector.name": context.task.connector,
            "task.id": context.task.task,
            "stage": stage,
            "exception.class.name": error.name if isinstance(error, SparkFailure) else type(error).__name__,
            "exception.message": _message(row, error),
        }
        headers = [(header["key"], header["value"]) for header in row["headers"] or ()]
        headers += [(f"{_PREFIX}{name}", str(value).encode()) for name, value in details.items()]
        yield OutputRecord(row["key"], row["value"], topic=topic, headers=tuple(headers))
