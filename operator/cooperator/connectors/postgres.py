"""The common parts of connectors for PostgreSQL: options, transactions with retries, tables.

All access goes through ``Database.run``: it runs a function in one transaction, and repeats it until the unit
is cancelled when the server is away or a lock is held. A commit whose answer was lost is repeated, too: so
the function itself must detect, in the database, what was done already.
"""

import json
import logging
import os
import re
import threading
import zlib
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from pydantic import AfterValidator

from cooperator.connectors.base import Cancelled
from cooperator.connectors.options import option
from cooperator.connectors.postgres_states import Meaning, meaning
from cooperator.connectors.postgres_tls import system_authorities
from cooperator.connectors.postgres_url import checked_url, files_of, read_by_libpq
from cooperator.connectors.spark import SparkOptions

if TYPE_CHECKING:
    import psycopg
    from psycopg import sql

log = logging.getLogger(__name__)

T = TypeVar("T")

_BACKOFF_S = 0.2
_BACKOFF_MAX_S = 5.0
_SETTINGS = (
    *("timezone=UTC", "datestyle=ISO", "intervalstyle=postgres", "bytea_output=hex"),
    *("extra_float_digits=1", "array_nulls=on"),
)
"""How sessions write and read values, also where the role or the database has other settings.

Spark's tasks connect with the same.
"""
_CONNECT_S = 5
"""The connect timeout per address of the host."""
_LOCK_S = 5
"""The longest that a statement waits for a lock before cancellation is checked again."""
_NETWORK_S = 15
"""A server that does not answer at all for this long counts as gone."""
MOST_OF_A_NAME = 63
"""The bytes of a name that the database keeps."""
_TABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_$.-]{0,126}\Z")


class PostgresOptions(SparkOptions):
    """The database's address and credentials."""

    url: Annotated[str, AfterValidator(checked_url)] = option(
        "connection.url",
        expected="jdbc:postgresql://host:5432/database, with libpq's parameters after a question mark",
    )
    user: str = option("connection.user", "", expected="the role to connect as")
    password: str = option(
        "connection.password",
        "",
        expected="a reference to its password, such as ${file:/etc/secrets/db:password}",
        secret=True,
    )

    @classmethod
    def opened_paths(cls, config: Mapping[str, str]) -> Iterator[tuple[str, str]]:
        yield from super().opened_paths(config)
        for path in files_of(config.get("connection.url", "")):
            yield "connection.url", path


def is_table_name(value: str) -> bool:
    """Whether it is a table, or ``schema.table``, of plain characters (names are case-sensitive).

    The database would cut a longer name, and so take two of them for one.
    """
    if _TABLE.match(value) is None or value.count(".") > 1:
        return False
    return all(0 < len(part) <= MOST_OF_A_NAME for part in value.split("."))


def identifier(table: str) -> "sql.Identifier":
    """Returns the name for statements, quoted part by part."""
    from psycopg import sql

    return sql.Identifier(*table.split(".", 1))


def create_table(connection: "psycopg.Connection[Any]", name: str, statement: "sql.Composed") -> None:
    """Runs ``statement``, a CREATE TABLE IF NOT EXISTS for that name, if the table is missing.

    Any number of transactions may call it concurrently. PostgreSQL looks for the table before it adds it to
    its catalog, so of two concurrent statements the second fails by a unique index there. Hence this takes a
    lock of its own. If a client without that lock causes the error, it is ignored, since the table exists
    then.
    """
    from psycopg import errors

    quoted = identifier(name).as_string(None)
    if connection.execute("SELECT to_regclass(%s)", [quoted]).fetchone() != (None,):
        return
    try:
        with connection.transaction():
            key = zlib.crc32(f"cooperator {quoted}".encode())
            connection.execute("SELECT pg_advisory_xact_lock(%s)", [key])
            connection.execute(statement)
    except (errors.UniqueViolation, errors.DuplicateTable, errors.DuplicateObject):
        log.debug("%s was created concurrently", name)


class DatabaseUnavailable(ConnectionError):
    """The database does not answer now; the message says where and why."""


class Database:
    """One connection, renewed when it breaks. It is not thread-safe.

    ``idle_ms`` is how long the server keeps an idle transaction (a frozen process holds its locks no longer
    than that). ``say`` shows what is being waited for; ``cancelled`` ends every wait.
    """

    def __init__(
        self,
        options: PostgresOptions,
        name: str,
        cancelled: threading.Event,
        say: Callable[[str], None],
        idle_ms: int = 10_000,
    ) -> None:
        self._url = options.url.removeprefix("jdbc:")
        address = read_by_libpq(self._url)
        self._where = f"PostgreSQL at {address['host']}:{address.get('port') or 5432}"
        self._arguments: dict[str, Any] = {
            **({"user": options.user} if options.user else {}),
            **system_authorities(address),
            # Without these two the client would look for a password of the member itself (PGPASSWORD,
            # ~/.pgpass), and show it to the server that the Connector names.
            "password": options.password,
            "passfile": f"{os.devnull}/none",
            "application_name": f"cooperator {name}"[:63],
            "connect_timeout": _CONNECT_S,
            "keepalives_idle": _NETWORK_S // 3,
            "keepalives_interval": _NETWORK_S // 3,
            "keepalives_count": 2,
            "tcp_user_timeout": _NETWORK_S * 1000,
            "options": f"-c idle_in_transaction_session_timeout={idle_ms} -c lock_timeout={_LOCK_S}s "
            f"{' '.join(f'-c {setting}' for setting in _SETTINGS)}",
        }
        self._cancelled = cancelled
        self._say = say
        self._reported = ""
        self._connection: psycopg.Connection[Any] | None = None

    def once(self, work: "Callable[[psycopg.Connection[Any]], T]") -> T:
        """Runs ``work`` in one transaction; raises ``DatabaseUnavailable`` after a transient error.

        The wait is reported before it begins: a host that is out of reach does not answer for long.
        """
        import psycopg

        try:
            connection = self._connected()
            with connection.transaction():
                result = work(connection)
        except psycopg.Error as error:
            if meaning(error) is not Meaning.PASSES:
                raise
            unavailable = DatabaseUnavailable(f"{self._where}: {str(error).strip()}")
            self._tell(f"waiting for {unavailable}")
            raise unavailable from error
        except Exception:
            self._tell("")  # The server has answered.
            raise
        self._tell("")
        return result

    def run(self, work: "Callable[[psycopg.Connection[Any]], T]") -> T:
        """Runs ``work`` in one transaction; repeats it after transient errors and raises others."""
        backoff_s = _BACKOFF_S
        while not self._cancelled.is_set():
            try:
                return self.once(work)
            except DatabaseUnavailable as error:
                log.info("%s", error)
                self._cancelled.wait(backoff_s)
                backoff_s = min(backoff_s * 2, _BACKOFF_MAX_S)
        raise Cancelled

    def cancelled_by(self, cancelled: threading.Event) -> None:
        """Changes the event that ends every wait, while nothing waits."""
        self._cancelled = cancelled

    def interrupt(self) -> None:
        """Ends a statement that runs in another thread, as far as the server can be reached."""
        connection = self._connection
        if connection is not None and not connection.closed:
            try:
                connection.cancel_safe(timeout=_CONNECT_S)
            except Exception as error:
                log.info("interrupting a statement at %s: %s", self._where, error)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()

    def _connected(self) -> "psycopg.Connection[Any]":
        import psycopg
        from psycopg.types.json import JsonDumper, set_json_dumps

        if self._connection is None or self._connection.closed:
            # The last attempt's error is more helpful than the start of another attempt.
            self._tell(self._reported or f"waiting for {self._where}: no answer yet")
            self._connection = psycopg.connect(self._url, autocommit=True, **self._arguments)
            self._connection.adapters.register_dumper(dict, JsonDumper)  # structs are JSON there
            set_json_dumps(as_json, self._connection)
            self._tell("")
        return self._connection

    def _tell(self, text: str) -> None:
        if text != self._reported:
            self._reported = text
            self._say(text)


def as_json(value: Any) -> str:
    """Returns a value of a row as JSON, with all digits of its numbers."""
    match value:
        case dict():
            parts = (f"{json.dumps(str(name))}: {as_json(part)}" for name, part in value.items())
            return f"{{{', '.join(parts)}}}"
        case list() | tuple():
            return f"[{', '.join(map(as_json, value))}]"
        case Decimal():
            return format(value, "f")
    return json.dumps(value, default=str)
