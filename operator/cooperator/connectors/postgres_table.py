"""A table to write to, as one query describes it.

Transactions that write compare the digest, while their locks keep the table as it is: rows of a table that
has changed meanwhile are not written as those of the table that was described.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from cooperator.connectors.postgres import identifier
from cooperator.connectors.postgres_types import TYPE_OF_ATTRIBUTE

if TYPE_CHECKING:
    import psycopg
    from psycopg import sql

_DESCRIBED: Final = f"""
SELECT json_build_object(
  'oid', described.oid::bigint,
  'columns', (
    SELECT coalesce(json_agg(json_build_array(attname, {TYPE_OF_ATTRIBUTE}, attnotnull,
      atthasdef OR attidentity <> '',
      attidentity = 'a' OR coalesce(to_jsonb(pg_attribute)->>'attgenerated', '') <> '')
      ORDER BY attnum), '[]')
    FROM pg_attribute WHERE attrelid = described.oid AND attnum > 0 AND NOT attisdropped),
  'unique', (
    SELECT coalesce(json_agg(json_build_array(indisprimary, names)
      ORDER BY indisprimary DESC, indexrelid), '[]')
    FROM (
      SELECT indisprimary, indexrelid, (
        SELECT json_agg(attname ORDER BY place) FROM unnest(indkey::int[])
        WITH ORDINALITY AS key (number, place) JOIN pg_attribute ON attrelid = indrelid AND attnum = number)
        AS names
      FROM pg_index WHERE indrelid = described.oid AND indisunique AND indisvalid AND indimmediate
      AND indpred IS NULL AND indexprs IS NULL AND indnkeyatts = indnatts) AS keys),
  'inserts_wait', relkind <> 'r' OR relrowsecurity OR relhasrules OR relhastriggers
    OR EXISTS (SELECT FROM pg_index WHERE indrelid = described.oid AND (indisunique OR indisexclusion))
    OR EXISTS (
      SELECT FROM pg_attribute WHERE attrelid = described.oid AND attidentity = 'a' AND NOT attisdropped)
)::text AS description FROM pg_class AS described WHERE described.oid = to_regclass({{name}})"""


@dataclass(frozen=True, slots=True)
class Table:
    """A table as the database describes it; ``digest`` stands for all of it.

    ``columns`` maps names to types, in order; those that are ``generated`` cannot be written. ``unique``
    holds the sets of columns with a unique index that ON CONFLICT may name, and ``primary`` those of the
    primary key. ``required`` maps the columns that must not be null to whether they have a default.
    ``inserts_wait``: a new row may wait for, or lock, what another transaction has written (keys, triggers),
    or COPY treats it in another way than INSERT.
    """

    name: str
    columns: dict[str, str]
    unique: Sequence[tuple[str, ...]]
    required: Mapping[str, bool] = field(default_factory=dict)
    inserts_wait: bool = True
    primary: tuple[str, ...] = ()
    generated: Collection[str] = ()
    digest: str = ""


def describe_table(connection: "psycopg.Connection[Any]", name: str) -> Table | None:
    """Returns the table of that name (without a schema: in the search path); None if it does not exist."""
    from psycopg import sql

    query = sql.SQL("SELECT md5(description), description FROM ({}) AS found").format(_described(name))
    row = connection.execute(query).fetchone()
    if row is None:
        return None
    found = json.loads(row[1])
    unique = [(is_primary, tuple(names)) for is_primary, names in found["unique"]]
    return Table(
        name,
        {column: kind for column, kind, *_ in found["columns"]},
        [names for _, names in unique],
        {column: has_default for column, _, required, has_default, _ in found["columns"] if required},
        found["inserts_wait"],
        next((names for is_primary, names in unique if is_primary), ()),
        [column for column, *_, is_generated in found["columns"] if is_generated],
        row[0],
    )


def digest_query(name: str) -> "sql.Composed":
    """Returns the query for the digest of a table; it has no row if the table does not exist."""
    from psycopg import sql

    return sql.SQL("SELECT md5(description) FROM ({}) AS found").format(_described(name))


def digest_of(connection: "psycopg.Connection[Any]", name: str) -> str:
    """Returns the digest of a table now; an empty text if it does not exist."""
    row = connection.execute(digest_query(name)).fetchone()
    return "" if row is None else str(row[0])


def _described(name: str) -> "sql.Composed":
    from psycopg import sql

    quoted = sql.Literal(identifier(name).as_string(None))
    return sql.SQL(_DESCRIBED).format(name=quoted)
