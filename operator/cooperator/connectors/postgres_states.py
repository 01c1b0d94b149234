"""What PostgreSQL's errors are about, by their SQLSTATE: the server for now, a row, or the schema.

The server's state passes, and is waited for. An error of ``ROW`` *may* be due to the values of one row:
whether it is, only a trial of that row alone shows, while the same statement without rows succeeds
(``postgres_refusals``). The others fail whatever the rows are: who connects to which database (``LOGIN``),
and the schema, with the statements that use it.

Spark's tasks only report SQLSTATEs, so that this is the only such list.
"""

from enum import Enum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import psycopg


class Meaning(Enum):
    PASSES = "passes"
    ROW = "row"
    SCHEMA = "schema"
    LOGIN = "login"


_PASSES, _ROW, _SCHEMA = Meaning.PASSES, Meaning.ROW, Meaning.SCHEMA

CLASSES: Final = {
    "00": _SCHEMA,  # success: no error has it
    "01": _SCHEMA,  # a warning
    "02": _SCHEMA,  # no data, of embedded SQL
    "03": _SCHEMA,  # a statement is not complete
    "08": _PASSES,  # the connection
    "09": _ROW,  # the action of a trigger
    "0A": _ROW,  # not supported: among others infinity as an integer
    "0B": _SCHEMA,  # how a transaction begins
    "0F": _SCHEMA,  # locators
    "0L": _SCHEMA,  # who grants
    "0P": _SCHEMA,  # a role
    "0Z": _SCHEMA,  # diagnostics outside of a handler
    "10": _ROW,  # an argument of XQuery
    "20": _ROW,  # a CASE of a trigger without this case
    "21": _ROW,  # a subquery of a trigger, or of a rule, with more than one row
    "22": _ROW,  # data exceptions
    "23": _ROW,  # constraints
    "24": _SCHEMA,  # the state of a cursor
    "25": _SCHEMA,  # the state of a transaction
    "26": _SCHEMA,  # the name of a statement
    "27": _ROW,  # a trigger has changed the row already
    "28": Meaning.LOGIN,  # the role, or its password
    "2B": _SCHEMA,  # privileges that others depend on
    "2D": _SCHEMA,  # a trigger that ends transactions
    "2F": _ROW,  # a function of SQL, among others one that ends without RETURN
    "34": _SCHEMA,  # the name of a cursor
    "38": _ROW,  # an exception of a trigger in Python, Perl and others
    "39": _ROW,  # the call of such a function, as with a null
    "3B": _SCHEMA,  # savepoints
    "3D": Meaning.LOGIN,  # the database's name
    "3F": _SCHEMA,  # the schema's name
    "40": _PASSES,  # the transaction is to be repeated
    # Names and types of a statement: also of a trigger's, which a letter for each row would hide.
    "42": _SCHEMA,
    "44": _ROW,  # WITH CHECK OPTION of a view
    "53": _PASSES,  # resources
    "54": _ROW,  # limits, among others the size of an index row
    "55": _PASSES,  # the state of an object: locks, or a view that cannot be written for now
    "57": _PASSES,  # an operator has intervened, or a time-out
    "58": _PASSES,  # the system
    "72": _PASSES,  # a snapshot that is too old
    "F0": _PASSES,  # the configuration file
    "HV": _SCHEMA,  # a foreign table
    "P0": _ROW,  # PL/pgSQL: RAISE, STRICT, ASSERT
    "XX": _PASSES,  # internal, as of a table that is dropped at the same moment
}
"""By the first two characters. Other classes are those of a database's own functions (``_ROW``)."""
STATES: Final = {
    "25006": _PASSES,  # read-only: a standby that will be promoted
    "25P03": _PASSES,  # idle in a transaction for too long
    "42501": _ROW,  # a privilege; also a policy of row-level security, which judges rows
    "HV00N": _PASSES,  # no connection to the foreign server
}
"""Those that differ from their class."""
_RAISED: Final = "exec_stmt_raise"
"""The routine of RAISE in PL/pgSQL, which may choose any SQLSTATE."""
_REPEATED: Final = ("40", "55P03")
"""The SQLSTATEs by which a function asks for a repetition."""


def meaning_of(state: str, routine: str = "") -> Meaning:
    """Returns what an error of the server is about; ``routine`` is the one that it reports."""
    if routine == _RAISED and not state.startswith(_REPEATED):
        return _ROW
    return STATES.get(state) or CLASSES.get(state[:2], _ROW)


def meaning(error: "psycopg.Error") -> Meaning:
    """Returns what an error of the server, or of its client, is about."""
    import psycopg

    if error.sqlstate is not None:
        return meaning_of(error.sqlstate, error.diag.source_function or "")
    if isinstance(error, psycopg.OperationalError):
        return _PASSES
    # The client alone looks for U+0000.
    return _ROW if isinstance(error, psycopg.DataError) else _SCHEMA
