"""Claims and positions of units in a table of the target database.

The table has a row for each unit: the offset of its next record, and the attempt that has claimed it. A
database has compare-and-set, so this is all of it: an attempt takes the rows of its units in one transaction
unless a newer one has them; each of its transactions locks the rows, and writes only while they are still
its own and where it thinks they are.

A **session** is one claim or recovery: a transaction of an earlier one, which may hang anywhere, is refused.
A **line** is a stretch of offsets that are read one after the other: it ends where a position is moved by
anything else than a batch. So a position that was left and reached again is not taken for the same.

Rows are locked in the order of their units, so that attempts with common units do not deadlock. The
functions run in a transaction of their caller.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from cooperator.connectors.exactly_once import Replaced
from cooperator.connectors.microbatch.claims import Claim
from cooperator.connectors.postgres import create_table, identifier
from cooperator.connectors.units import Layout
from cooperator.model import Epoch

if TYPE_CHECKING:
    import psycopg
    from psycopg import sql

LEAST: Final = Claim(Epoch(0, 0), 0, "offsets")
"""The claim of positions that an operation on offsets writes: every attempt is newer."""
_LAYOUT: Final = ""
"""The row of a connector's layout; no unit has this name."""

_CREATE: Final = """
CREATE TABLE IF NOT EXISTS {table} (
    worker text, connector text, unit text,
    next bigint, topic_id text NOT NULL DEFAULT '', line text NOT NULL DEFAULT '',
    term bigint NOT NULL DEFAULT 0, generation bigint NOT NULL DEFAULT 0, attempt bigint NOT NULL DEFAULT 0,
    owner text NOT NULL DEFAULT '', session text NOT NULL DEFAULT '', note bytea,
    letters text NOT NULL DEFAULT '',
    PRIMARY KEY (worker, connector, unit)
)"""
_MOVES: Final = """
batch AS (SELECT %(batch)s::json AS it),
given AS (
    SELECT it->>'worker' AS worker, it->>'connector' AS connector, it->>'session' AS session, move.*
    FROM batch, json_to_recordset(it->'moves')
    AS move(unit text, line text, line_after text, "start" bigint, "end" bigint, topic_id text, letters text)
)"""
"""The moves of one transaction, as rows. They are its only parameter, so that any client can run it."""
_CHECK: Final = f"""
WITH {_MOVES},
stored AS (
    SELECT unit, next, line, session FROM {{table}}
    WHERE worker = (SELECT it->>'worker' FROM batch) AND connector = (SELECT it->>'connector' FROM batch)
    AND unit = ANY(ARRAY(SELECT unit FROM given)) ORDER BY unit FOR UPDATE
),
compared AS (
    SELECT given.*, stored.next, stored.session IS NOT DISTINCT FROM given.session AS mine,
    stored.line = line_after AND stored.next = "end" AND (line_after <> given.line OR "start" < "end")
    AS done,
    stored.line = given.line AND (line_after <> given.line OR stored.next = "start") AS here
    FROM given LEFT JOIN stored ON stored.unit = given.unit
)
SELECT CASE
    WHEN NOT mine THEN format('unit %%s is claimed anew, or its offsets were reset', unit)
    WHEN NOT coalesce(done OR here, false)
    THEN format('unit %%s is at %%s, not at %%s', unit, coalesce(next::text, 'none'), "start")
END AS problem, coalesce(done, false) AS done
FROM compared ORDER BY unit"""
_ADVANCE: Final = f"""
WITH {_MOVES}
UPDATE {{table}} AS stored SET next = given."end", topic_id = given.topic_id, line = given.line_after,
letters = given.letters
FROM given
WHERE stored.worker = given.worker AND stored.connector = given.connector AND stored.unit = given.unit"""
_OF_CONNECTOR: Final = "worker = %(worker)s AND connector = %(connector)s"
_OF_UNITS: Final = f"{_OF_CONNECTOR} AND unit = ANY(%(units)s)"


class Superseded(Exception):
    """The units are not where this transaction expects them; nothing of it may be written."""


class UnitState(NamedTuple):
    """A unit's row. ``next`` None: it has no position. ``claim`` None: nobody has claimed it yet.

    ``letters`` are those of the last batch (``KeptLetters``), which may not be written yet.
    """

    next: int | None
    topic_id: str
    line: str
    claim: Claim | None
    session: str
    letters: str = ""


@dataclass(frozen=True, slots=True)
class Move:
    """A unit's position moves from ``start`` to ``end`` on a line; a jump begins the line ``jump``.

    ``letters`` are kept with the position until the next move (``KeptLetters``).
    """

    unit: str
    line: str
    start: int
    end: int
    topic_id: str = ""
    jump: str = ""
    letters: str = ""

    @property
    def line_after(self) -> str:
        return self.jump or self.line


@dataclass(frozen=True, slots=True)
class PostgresPositions:
    """The positions of one connector of a Worker's group, in the table of that name."""

    table: str
    group_id: str
    connector: str

    def create(self, connection: "psycopg.Connection[Any]") -> None:
        """Creates the table if it is missing."""
        create_table(connection, self.table, self._sql(_CREATE))

    def exists(self, connection: "psycopg.Connection[Any]") -> bool:
        found = connection.execute("SELECT to_regclass(%s)", [identifier(self.table).as_string(None)])
        return found.fetchone() != (None,)

    def claim(
        self,
        connection: "psycopg.Connection[Any]",
        units: Sequence[str],
        claim_of: Callable[[Claim | None], Claim],
        session: str,
    ) -> Mapping[str, UnitState]:
        """Claims the units for a session; returns their rows.

        ``claim_of`` returns the claim, given the newest one on these units. Raises ``Replaced`` when a newer
        attempt has claimed one of them.
        """
        self._run(
            connection,
            "INSERT INTO {table} (worker, connector, unit) SELECT %(worker)s, %(connector)s, unit "
            "FROM unnest(%(units)s::text[]) AS unit ORDER BY unit ON CONFLICT DO NOTHING",
            units=list(units),
        )
        found = self.locked(connection, units)
        known = {unit: state.claim for unit, state in found.items() if state.claim is not None}
        newest = max(known, key=known.__getitem__, default=None)
        claim = claim_of(known[newest] if newest is not None else None)
        if newest is not None and known[newest] > claim:
            raise Replaced(
                f"unit {newest} was claimed under epoch {known[newest].epoch} by attempt {known[newest]}, "
                f"which is newer than this one ({claim}); it must stop. If the group's topics were "
                "recreated, so that its epochs restarted: stop the connector, and reset or alter its offsets"
            )
        self._take(connection, list(found), claim, session)
        return {unit: state._replace(claim=claim, session=session) for unit, state in found.items()}

    def renew(
        self, connection: "psycopg.Connection[Any]", units: Sequence[str], claim: Claim, session: str
    ) -> Mapping[str, UnitState]:
        """Begins another session of an attempt; returns the rows of its units.

        Raises ``Replaced`` unless all of them are still claimed by it.
        """
        found = self.locked(connection, units)
        for unit in units:
            if unit not in found:
                raise Replaced(f"the claim of this attempt on unit {unit} is gone: its offsets were reset")
            if found[unit].claim != claim:
                raise Replaced(f"unit {unit} is claimed by attempt {found[unit].claim} now, not by {claim}")
        self._take(connection, list(found), claim, session)
        return {unit: state._replace(session=session) for unit, state in found.items()}

    def advance(self, connection: "psycopg.Connection[Any]", session: str, moves: Sequence[Move]) -> bool:
        """Moves positions; the rows stay locked until the transaction ends.

        Returns False if a transaction with the same moves was committed before (its answer was lost), so
        that nothing must be written. Raises ``Superseded``.
        """
        if not self.check(connection, session, moves):
            return False
        self.move(connection, session, moves)
        return True

    def check(self, connection: "psycopg.Connection[Any]", session: str, moves: Sequence[Move]) -> bool:
        """Locks the rows, and returns as ``advance`` does; nothing moves."""
        found = self._run(connection, _CHECK, batch=self.encoded(session, moves)).fetchall()
        for problem, _ in found:
            if problem is not None:
                raise Superseded(problem)
        done = sum(is_done for _, is_done in found)
        if done and done == len(moves):
            return False
        if done:
            raise Superseded(f"{done} of {len(moves)} units were moved by another transaction")
        return True

    def move(self, connection: "psycopg.Connection[Any]", session: str, moves: Sequence[Move]) -> None:
        """Moves positions that were checked in this transaction."""
        self._run(connection, _ADVANCE, batch=self.encoded(session, moves))

    def encoded(self, session: str, moves: Sequence[Move]) -> str:
        """Returns the parameter of the statements of ``advance``, in JSON."""
        rows = [{**asdict(move), "line_after": move.line_after} for move in moves]
        batch = {"worker": self.group_id, "connector": self.connector, "session": session, "moves": rows}
        return json.dumps(batch)

    @property
    def statements(self) -> "tuple[str, str]":
        """The statements of ``advance`` for another client, whose parameter is written as a question mark.

        The first one locks the rows and returns one for each move: its ``problem`` (null: there is none), and
        whether it was ``done`` before. The second one moves the positions.
        """
        return _for_jdbc(self._sql(_CHECK)), _for_jdbc(self._sql(_ADVANCE))

    def put(
        self, connection: "psycopg.Connection[Any]", offsets: Mapping[str, int | None], session: str
    ) -> None:
        """Sets positions (None: none) as an operation on offsets: all attempts lose their claims.

        Their transactions wait for this one, or this one for them; later attempts are newer in any case.
        """
        units = list(offsets)
        self.claim(connection, units, lambda newest: newest or LEAST, session)
        self._take(connection, units, LEAST, session)
        self._run(
            connection,
            "UPDATE {table} AS stored SET next = given.next, topic_id = '', line = %(session)s "
            "FROM unnest(%(units)s::text[], %(ends)s::bigint[]) AS given (unit, next) "
            f"WHERE {_OF_CONNECTOR} AND stored.unit = given.unit",
            units=units,
            ends=list(offsets.values()),
            session=session,
        )

    def forget(self, connection: "psycopg.Connection[Any]") -> None:
        """Removes everything of the connector: an attempt that runs finds its claim gone."""
        self._run(connection, f"SELECT unit FROM {{table}} WHERE {_OF_CONNECTOR} ORDER BY unit FOR UPDATE")
        self._run(connection, f"DELETE FROM {{table}} WHERE {_OF_CONNECTOR}")

    def all(self, connection: "psycopg.Connection[Any]") -> Mapping[str, UnitState]:
        """Returns the rows of all units."""
        return self._states(connection, f"{_OF_CONNECTOR} AND unit <> %(layout)s", layout=_LAYOUT)

    def locked(self, connection: "psycopg.Connection[Any]", units: Sequence[str]) -> Mapping[str, UnitState]:
        """Returns the rows of those units that have one, locked until the transaction ends."""
        return self._states(connection, f"{_OF_UNITS} ORDER BY unit FOR UPDATE", units=list(units))

    def note(self, connection: "psycopg.Connection[Any]", unit: str) -> bytes | None:
        """Returns what converters remember of a unit."""
        found = self._run(
            connection,
            f"SELECT note FROM {{table}} WHERE {_OF_CONNECTOR} AND unit = %(unit)s",
            unit=unit,
        ).fetchone()
        return None if found is None or found[0] is None else bytes(found[0])

    def set_note(self, connection: "psycopg.Connection[Any]", unit: str, content: bytes) -> None:
        """Keeps it, if the unit has a row."""
        self._run(
            connection,
            f"UPDATE {{table}} SET note = %(note)s WHERE {_OF_CONNECTOR} AND unit = %(unit)s",
            unit=unit,
            note=content,
        )

    def layout(self, connection: "psycopg.Connection[Any]") -> Layout | None:
        """Returns the connector's layout; None when it has none yet."""
        found = self.note(connection, _LAYOUT)
        return None if found is None else Layout.decode(found)

    def settle_layout(self, connection: "psycopg.Connection[Any]", layout: Layout) -> None:
        """Writes the layout unless there is one. Raises ``OptionError`` when a fixed option has changed."""
        self.keep_layout(connection, layout.encode())
        (self.layout(connection) or layout).check_fixed(layout.fixed)

    def keep_layout(self, connection: "psycopg.Connection[Any]", encoded: bytes) -> None:
        """Writes the layout unless there is one."""
        self._run(
            connection,
            "INSERT INTO {table} (worker, connector, unit, note) "
            "VALUES (%(worker)s, %(connector)s, %(unit)s, %(note)s) ON CONFLICT DO NOTHING",
            unit=_LAYOUT,
            note=encoded,
        )

    def _take(
        self, connection: "psycopg.Connection[Any]", units: Sequence[str], claim: Claim, session: str
    ) -> None:
        self._run(
            connection,
            "UPDATE {table} SET term = %(term)s, generation = %(generation)s, attempt = %(attempt)s, "
            f"owner = %(owner)s, session = %(session)s WHERE {_OF_UNITS}",
            units=list(units),
            term=claim.epoch.term,
            generation=claim.epoch.generation,
            attempt=claim.attempt,
            owner=claim.owner,
            session=session,
        )

    def _states(
        self, connection: "psycopg.Connection[Any]", where: str, **values: Any
    ) -> Mapping[str, UnitState]:
        rows = self._run(
            connection,
            "SELECT unit, next, topic_id, line, term, generation, attempt, owner, session, letters "
            f"FROM {{table}} WHERE {where}",
            **values,
        )
        return {
            unit: UnitState(
                at,
                topic_id,
                line,
                Claim(Epoch(term, generation), attempt, owner) if owner else None,
                session,
                letters,
            )
            for unit, at, topic_id, line, term, generation, attempt, owner, session, letters in rows
        }

    def _run(
        self, connection: "psycopg.Connection[Any]", statement: str, **values: Any
    ) -> "psycopg.Cursor[Any]":
        named = {"worker": self.group_id, "connector": self.connector, **values}
        return connection.execute(self._sql(statement), named)

    def _sql(self, text: Any) -> "sql.Composed":
        from psycopg import sql

        return sql.SQL(text).format(table=identifier(self.table))


def _for_jdbc(statement: "sql.Composed") -> str:
    return statement.as_string(None).replace("%(batch)s", "?").replace("%%", "%")
