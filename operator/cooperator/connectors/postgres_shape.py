"""The shape of a table to read: all that its records and its numbers depend on, as one query describes it.

Whoever reads rows asks for the shape, too, while the lock of its SELECT keeps others from changing it. So no
row of a table that has changed is written as one of the table that was described.
"""

import json
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from cooperator.connectors.options import OptionError, Problem
from cooperator.connectors.postgres_types import TYPE_OF_ATTRIBUTE

if TYPE_CHECKING:
    import psycopg
    from psycopg import sql

_DESCRIBED = f"""
SELECT name, json_build_object(
  'oid', described.oid::bigint,
  'kind', relkind,
  'is_standby', pg_is_in_recovery(),
  'columns', (
    SELECT coalesce(json_agg(json_build_array(attname, {TYPE_OF_ATTRIBUTE}, attnotnull)
      ORDER BY attnum), '[]')
    FROM pg_attribute WHERE attrelid = described.oid AND attnum > 0 AND NOT attisdropped),
  'unique', (
    SELECT coalesce(json_agg(names ORDER BY indisprimary DESC, indexrelid), '[]') FROM (
      SELECT indisprimary, indexrelid, (
        SELECT json_agg(attname ORDER BY place) FROM unnest(indkey::int[])
        WITH ORDINALITY AS key (number, place) JOIN pg_attribute ON attrelid = indrelid AND attnum = number
        WHERE place <= indnkeyatts) AS names
      FROM pg_index WHERE indrelid = described.oid AND indisunique AND indisvalid AND indpred IS NULL
      AND indexprs IS NULL) AS keys),
  'sequences', (
    SELECT coalesce(json_agg(json_build_array(attname, seqrelid::regclass::text, seqrelid::bigint,
      pg_relation_filenode(seqrelid)::bigint, seqcache, seqincrement, seqcycle)
      ORDER BY attnum, seqrelid), '[]')
    FROM (
      SELECT refobjsubid AS number, objid AS sequence FROM pg_depend
      WHERE classid = 'pg_class'::regclass AND refclassid = 'pg_class'::regclass
      AND refobjid = described.oid AND refobjsubid > 0 AND deptype IN ('a', 'i')
      UNION
      SELECT adnum, refobjid FROM pg_attrdef JOIN pg_depend ON classid = 'pg_attrdef'::regclass
      AND objid = pg_attrdef.oid AND refclassid = 'pg_class'::regclass WHERE adrelid = described.oid) AS used
    JOIN pg_sequence ON seqrelid = sequence
    JOIN pg_attribute ON attrelid = described.oid AND attnum = number)
  )::text AS description
FROM unnest({{names}}::text[]) AS wanted (name)
JOIN pg_class AS described ON described.oid = to_regclass(name)
"""
_INCREMENTING = "incrementing.column.name"
_BY_TIME = "set mode to timestamp+incrementing"
_DIGEST = "hashtextextended(description, 0)::text"
_VIEW = "v"
_INDEXED = ("r", "p")
"""Tables, also partitioned ones; others have no unique indexes."""


class Numbers(NamedTuple):
    """A sequence that belongs to a column, or gives it its default. A restart changes its ``file``."""

    column: str
    name: str
    oid: int
    file: int
    cache: int
    increment: int
    cycles: bool


class TableShape(NamedTuple):
    """A table as the database describes it. ``digest`` stands for all of it.

    ``columns`` maps names to types, in order; ``unique`` holds the columns of each unique index, that of the
    primary key first.
    """

    digest: str
    oid: int
    kind: str
    is_standby: bool
    columns: Mapping[str, str]
    not_null: Collection[str]
    unique: tuple[tuple[str, ...], ...]
    sequences: tuple[Numbers, ...]

    def numbers_of(self, column: str) -> tuple[Numbers, ...]:
        return tuple(each for each in self.sequences if each.column == column)

    def origin(self, column: str | None) -> str:
        """Returns what the numbers of ``column`` began with; None: positions are no numbers.

        A view has no rows of its own, so another one of its name is as good.
        """
        if self.kind == _VIEW:
            return "view"
        files = [each.file for each in self.numbers_of(column)] if column is not None else []
        return ".".join(map(str, [self.oid, *files]))

    def check_numbers(self, table: str, column: str) -> None:
        """Raises ``OptionError`` if rows might come with lower numbers than others, which no lock shows."""
        for each in self.numbers_of(column):
            source = f"sequence {each.name} of table {table}"
            if each.cache > 1:
                problem = f"is filled by {source}, from which sessions take {each.cache} numbers at a time"
                raise _unsafe(column, problem, f"ALTER SEQUENCE {each.name} CACHE 1")
            if each.increment != 1:
                how = "counts down" if each.increment < 0 else f"counts in steps of {each.increment}"
                problem = f"is filled by {source}, which {how}"
                raise _unsafe(column, problem, f"ALTER SEQUENCE {each.name} INCREMENT BY 1")
            if each.cycles:
                problem = f"is filled by {source}, which begins again after its last number"
                raise _unsafe(column, problem, f"ALTER SEQUENCE {each.name} NO CYCLE")
        if self.kind in _INDEXED and not self.numbers_of(column) and (column,) not in self.unique:
            problem = f"is not unique in table {table}, so a row with a number that was read would be skipped"
            raise OptionError(
                [Problem(_INCREMENTING, column, problem, f"create a unique index on it, or {_BY_TIME}")]
            )


def shapes(connection: "psycopg.Connection[Any]", tables: Collection[str]) -> Mapping[str, TableShape]:
    """Returns the shapes of those tables that exist, by the given (quoted) names."""
    from psycopg import sql

    query = sql.SQL(f"SELECT name, {_DIGEST}, description FROM ({{}}) AS shapes").format(_described(tables))
    return {name: _shape(digest, text) for name, digest, text in connection.execute(query)}


def digests(connection: "psycopg.Connection[Any]", tables: Collection[str]) -> Mapping[str, str]:
    """Returns the digests of the shapes of those tables that exist, by the given (quoted) names."""
    from psycopg import sql

    query = sql.SQL(f"SELECT name, {_DIGEST} FROM ({{}}) AS shapes").format(_described(tables))
    return dict(connection.execute(query).fetchall())


def digest_query(table: str) -> str:
    """Returns the query for the digest of one table; it has no row if the table does not exist."""
    from psycopg import sql

    return sql.SQL(f"SELECT {_DIGEST} FROM ({{}}) AS shapes").format(_described([table])).as_string(None)


def _described(tables: Collection[str]) -> "sql.Composed":
    from psycopg import sql

    return sql.SQL(_DESCRIBED).format(names=sql.Literal(list(tables)))


def _shape(digest: str, description: str) -> TableShape:
    found = json.loads(description)
    return TableShape(
        digest,
        found["oid"],
        found["kind"],
        found["is_standby"],
        {name: kind for name, kind, _ in found["columns"]},
        frozenset(name for name, _, is_required in found["columns"] if is_required),
        tuple(map(tuple, found["unique"])),
        tuple(Numbers(*each) for each in found["sequences"]),
    )


def _unsafe(column: str, problem: str, statement: str) -> OptionError:
    problem = f"{problem}: rows with lower numbers than those that were read would be skipped"
    return OptionError([Problem(_INCREMENTING, column, problem, f"run {statement}, or {_BY_TIME}")])
