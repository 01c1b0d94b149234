"""Reads the state of a connector's queries at their newest commits, with Spark's state data source.

A reader holds no claim, and its session names one that nobody has: it puts nothing in place in a checkpoint.
So it may read while the query runs, is held for a member, or is stopped. The files of a commit stay until
Spark has made several more; a read that is slower is repeated with the newest commit.
"""

import json
import logging
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from cooperator.connectors.base import Cancelled
from cooperator.connectors.fence import DIRECTORY as FENCE
from cooperator.connectors.formats import JSON_WRITTEN
from cooperator.connectors.offset_operations import Subject, check_owner, places
from cooperator.connectors.offsets.sources import UnitPlace
from cooperator.connectors.offsets.unit_log import commit_version, reached
from cooperator.connectors.places import Place, directories, uri
from cooperator.connectors.query import FILE_MANAGER, activate
from cooperator.connectors.server import SCHEME
from cooperator.connectors.state_query import MOST_ROW_CHARS, Answer, StateError, StateQuery, wrong_column
from cooperator.connectors.stateful import FORMAT, STATE
from cooperator.model.text import choice

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import DataType

log = logging.getLogger(__name__)

PATIENCE_S: Final = 25.0
"""The limit of one question. A caller of a member waits for 30 s."""
_TRIES: Final = 5
_SAID_CHARS: Final = 500
_NOBODY: Final = "a reader of state"
_JOIN: Final = "symmetricHashJoin"
_SIDES: Final = ("left", "right")
_WITH_VARIABLES: Final = "transformWithState"
_turn = threading.Lock()
"""One question at a time: it takes memory and processors of a member's queries."""

Session = Callable[[threading.Event], "SparkSession"]


class StatePart(NamedTuple):
    """One part of a query's state: of a join one side, of a processor one of its variables.

    ``options`` are those of Spark's state data source.
    """

    operator: int
    kind: str
    name: str
    options: Mapping[str, str]


def read_state(subject: Subject, query: StateQuery, session: Session) -> dict[str, Any]:
    """Returns ``{"rows", "cut"}`` (``Answer``), in bounded time.

    A row is ``{"unit", "batch", "operator", "kind", "part", "key", "value"}``. ``key`` or ``value`` is None
    if it is too long; ``key_chars`` or ``value_chars`` is its length then. Raises ``StateError``, and
    ``OptionError`` when the checkpoints are another group's.
    """
    if subject.conf.get("spark.master", "").startswith(SCHEME):
        raise StateError(
            f"queries of {subject.name} run on a Spark Connect server, and not in this member: read their "
            "state there, by spark.read.format('statestore')"
        )
    check_owner(subject)
    units = _units(subject, query)
    clock = _Clock(subject.name)
    with _in_turn(clock), clock.limited(session) as member:
        answer, known = Answer(query.limit), _Columns()
        for unit in units:
            if answer.room <= 0:
                answer.is_cut = True
                break
            _read(_Reader(member, query, clock), unit.checkpoint, unit.unit, answer, known)
        if query.keys and known.columns and not known.is_found:
            raise wrong_column(list(query.keys), sorted(known.columns))
        return answer.encode()


class _Columns:
    """The columns of keys that were seen, and whether some part has all that the question names."""

    def __init__(self) -> None:
        self.columns: set[str] = set()
        self.is_found = False


def _units(subject: Subject, query: StateQuery) -> Sequence[UnitPlace]:
    """Returns the units to be read. Raises ``StateError`` if none has state."""
    there = {place.unit: place for place in places(subject)}
    if query.unit and query.unit not in there:
        known = choice(query.unit, there) if there else "it has none that has begun"
        raise StateError(f"unit {query.unit[:80]!r} is not a unit of {subject.name}: {known}")
    asked = [there[query.unit]] if query.unit else list(there.values())
    begun = [place for place in asked if reached(place.checkpoint)[0] >= 0]
    if not begun:
        raise StateError(
            f"{subject.name} has no finished batch whose state could be read: wait for the first one"
        )
    found = [place for place in begun if STATE in directories(place.checkpoint)]
    if not found:
        raise StateError(
            f"queries of {subject.name} have no state: ask a connector that groups, joins or deduplicates "
            "rows"
        )
    return found


def _read(reader: "_Reader", checkpoint: Place, unit: str, answer: Answer, known: _Columns) -> None:
    """Adds the rows of one unit, all of one commit."""
    for left in reversed(range(_TRIES)):
        batch, _ = reached(checkpoint)
        try:
            rows = list(reader.rows(checkpoint, batch, answer.room, known))
        except StateError:
            raise
        except Exception as error:
            reader.clock.check()
            if reached(checkpoint)[0] == batch or not left:
                raise
            log.info("state of batch %d cannot be read, another one is: %s", batch, f"{error}"[:_SAID_CHARS])
            continue
        for row in rows:
            answer.add({"unit": unit, "batch": batch, **row})
        return


class _Clock:
    """The end of a question's time."""

    def __init__(self, connector: str) -> None:
        self._connector = connector
        self._deadline = time.monotonic() + PATIENCE_S

    @property
    def left_s(self) -> float:
        return max(0.0, self._deadline - time.monotonic())

    def check(self) -> None:
        """Raises ``StateError`` if the time is over."""
        if self.left_s == 0:
            raise self.over("could not be read")

    def over(self, what: str) -> StateError:
        return StateError(
            f"the state of {self._connector} {what} within {PATIENCE_S:g} s: ask for one unit or operator, "
            "or later, or read a large state with Spark itself, by spark.read.format('statestore')"
        )

    @contextmanager
    def limited(self, session: Session) -> "Iterator[SparkSession]":
        """Yields the member's session; its jobs in this thread end with the time."""
        over = threading.Event()
        ending = threading.Timer(self.left_s, over.set)
        ending.daemon = True
        ending.start()
        try:
            member = session(over)
        except Cancelled:
            raise self.over("could not be read, since Spark did not start") from None
        finally:
            ending.cancel()
        context: Any = member.sparkContext
        group = f"state-{uuid.uuid4().hex}"
        context.setJobGroup(group, f"state of {self._connector}")
        ending = threading.Timer(self.left_s, context.cancelJobGroup, (group,))
        ending.daemon = True
        ending.start()
        try:
            yield member
        finally:
            ending.cancel()
            for name in ("spark.jobGroup.id", "spark.job.description"):
                context.setLocalProperty(name, None)


@contextmanager
def _in_turn(clock: _Clock) -> Iterator[None]:
    if not _turn.acquire(timeout=clock.left_s):
        raise clock.over("could not be read, since other questions came first,")
    try:
        yield
    finally:
        _turn.release()


class _Reader:
    def __init__(self, member: "SparkSession", query: StateQuery, clock: _Clock) -> None:
        self._member = member
        self._query = query
        self.clock = clock

    def rows(self, checkpoint: Place, batch: int, room: int, known: _Columns) -> Iterator[dict[str, Any]]:
        """Yields the rows of a commit: one more than there is room for, if there are so many."""
        session = self._session(checkpoint)
        where = {"path": uri(checkpoint), "batchId": str(batch)}
        for part in self._parts(session, where):
            self.clock.check()
            options = {**where, "operatorId": str(part.operator), **part.options}
            frame = session.read.format("statestore").options(**options).load()
            columns = _columns(frame.schema["key"].dataType)
            known.columns |= columns.keys()
            by_lower = {name.lower(): path for name, path in columns.items()}
            if not all(name.lower() in by_lower for name in self._query.keys):
                continue
            known.is_found = True
            for name, text in self._query.keys.items():
                frame = frame.where(_equals(by_lower[name.lower()], text, frame, name))
            for row in _collected(frame, room + 1):
                room -= 1
                about = {"operator": part.operator, "kind": part.kind, "part": part.name}
                yield {**about, **row}
            if room < 0:
                return

    def _session(self, checkpoint: Place) -> "SparkSession":
        session = self._member.newSession()
        session.conf.set(FORMAT, str(commit_version(checkpoint) or 1))
        session.conf.set(*FILE_MANAGER)
        session.conf.set("cooperator.fence.directory", str(checkpoint / FENCE))
        session.conf.set("cooperator.fence.claim", _NOBODY)
        activate(session)
        # Makes the coordinator of stores, which Spark asks; no JVM has it that has run no query.
        _ = session.streams
        return session

    def _parts(self, session: "SparkSession", where: Mapping[str, str]) -> list[StatePart]:
        entries = session.read.format("state-metadata").options(**where).load().collect()
        operators = {entry["operatorId"]: entry for entry in entries}
        if self._query.operator is not None:
            if self._query.operator not in operators:
                numbers = ", ".join(map(str, sorted(operators)))
                raise StateError(
                    f"operator {self._query.operator} is not an operator with state: use one of {numbers}"
                )
            operators = {self._query.operator: operators[self._query.operator]}
        return [part for number in sorted(operators) for part in _parts_of(operators[number])]


def _parts_of(entry: Any) -> Iterator[StatePart]:
    number, kind = entry["operatorId"], entry["operatorName"]
    if kind == _JOIN:
        yield from (StatePart(number, kind, side, {"joinSide": side}) for side in _SIDES)
    elif kind.startswith(_WITH_VARIABLES):
        for variable in json.loads(entry["operatorProperties"] or "{}").get("stateVariables", ()):
            name = variable["stateName"]
            if not name.startswith("$"):  # Spark's own: timers, times of expiry
                yield StatePart(number, kind, name, {"stateVarName": name})
    else:
        yield StatePart(number, kind, "", {})


def _columns(key: "DataType", above: tuple[str, ...] = ()) -> dict[str, tuple[str, ...]]:
    """Returns the paths of a key's columns by their names, such as ``window.start``."""
    from pyspark.sql.types import StructType

    if not isinstance(key, StructType):
        return {".".join(above): above}
    return {
        name: path
        for column in key.fields
        for name, path in _columns(column.dataType, (*above, column.name)).items()
    }


def _equals(path: Sequence[str], text: str, frame: "DataFrame", name: str) -> "Column":
    """Returns the condition that a column of the key has the value ``text`` in its own type."""
    from pyspark.sql import functions as f
    from pyspark.sql.types import StringType

    column = f.col("key")
    kind: Any = frame.schema["key"].dataType
    for step in path:
        column, kind = column.getField(step), kind[step].dataType
    if isinstance(kind, StringType):
        return column == f.lit(text)
    value = f.lit(text).try_cast(kind)
    (known,) = frame.sparkSession.range(1).select(value.isNotNull()).first() or (False,)
    if not known:
        raise StateError(f"key {name} is {text[:80]!r}: use a value of type {kind.simpleString()}")
    return column == value


def _collected(frame: "DataFrame", most: int) -> Iterator[dict[str, Any]]:
    from pyspark.sql import functions as f

    others = [name for name in frame.columns if name not in ("key", "partition_id")]
    value = _declared(frame, "value") if others == ["value"] else f.struct(*map(f.col, others))
    texts = {"key": _json(_declared(frame, "key")), "value": _json(value)}
    chosen = []
    for name, text in texts.items():
        chosen.append(f.length(text).alias(f"{name}_chars"))
        chosen.append(f.when(f.length(text) <= MOST_ROW_CHARS, text).alias(name))
    for row in frame.select(*chosen).limit(most).collect():
        found: dict[str, Any] = {}
        for name in texts:
            found[name] = None if row[name] is None else json.loads(row[name])["_"]
            if row[name] is None:
                found[f"{name}_chars"] = row[f"{name}_chars"]
        yield found


def _declared(frame: "DataFrame", name: str) -> "Column":
    """Returns a column with the fields that its type has: rows of joins have one more."""
    from pyspark.sql import functions as f
    from pyspark.sql.types import StructType

    column, kind = f.col(name), frame.schema[name].dataType
    if not isinstance(kind, StructType):
        return column
    fields = f.struct(*(column.getField(each.name).alias(each.name) for each in kind.fields))
    return f.when(column.isNotNull(), fields)


def _json(column: "Column") -> "Column":
    from pyspark.sql import functions as f

    return f.to_json(f.struct(column.alias("_")), JSON_WRITTEN)
