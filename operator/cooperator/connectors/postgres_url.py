"""URLs of PostgreSQL databases: the parameters that a Connector may set, and the files that they name.

libpq has parameters that open files of the member, name services and programs, or replace the address that
was checked. Those that are not listed here are refused, and so are values without a counterpart in
PostgreSQL's JDBC driver.
"""

from collections.abc import Iterator, Mapping
from typing import Final
from urllib.parse import unquote, urlsplit

from cooperator.connectors.options import OptionError, Problem, refuse
from cooperator.connectors.postgres_parameters import FILES, NO_COUNTERPART, SYSTEM, is_weak, remedy_of
from cooperator.connectors.references import contains_reference

_EXAMPLE: Final = "write it as jdbc:postgresql://host:5432/database"
_ADDRESS: Final = ("dbname", "host", "port", "user")
"""Keywords for the parts of the URL that are not parameters."""
_ALLOWED: Final = frozenset(
    {
        *FILES,
        *("application_name", "channel_binding", "client_encoding", "connect_timeout", "gssencmode"),
        *("keepalives", "keepalives_count", "keepalives_idle", "keepalives_interval", "krbsrvname"),
        *("load_balance_hosts", "max_protocol_version", "min_protocol_version", "require_auth"),
        *("ssl_max_protocol_version", "ssl_min_protocol_version", "sslcertmode", "sslcompression"),
        *("sslmode", "sslnegotiation", "sslsni", "target_session_attrs", "tcp_user_timeout", "user"),
    }
)
_REMEDY: Final = (
    f"use connection.user, connection.password, and of libpq's {', '.join(sorted(_ALLOWED))} only"
)


def checked_url(value: str) -> str:
    """Validates the option ``connection.url`` without libpq, which the operator does not have."""
    if contains_reference(value):
        return value
    try:
        parts = urlsplit(value.removeprefix("jdbc:"))
        password, host = parts.password, unquote(parts.hostname or "")
        _ = parts.port
    except ValueError:
        raise refuse("is not a URL", _EXAMPLE) from None
    if parts.scheme not in ("postgresql", "postgres"):
        raise refuse("is not for PostgreSQL, the only supported database", _EXAMPLE)
    if not host or not parts.path.strip("/"):
        raise refuse("names no host" if not host else "names no database", _EXAMPLE)
    if "/" in host or host.startswith("@"):
        raise refuse("names a socket of the member, not a host", _EXAMPLE)
    if parts.fragment:
        raise refuse("has the character '#'", "write it as %23")
    given = dict(_parameters(parts.query))
    if password or "password" in given:
        raise refuse("contains a password", "use connection.user and connection.password instead")
    if others := sorted(given.keys() - _ALLOWED):
        raise refuse(
            f"has a parameter that a Connector may not set ({others[0][:40]})", f"remove it; {_REMEDY}"
        )
    if any(not _is_file(name, path) for name, path in given.items() if name in FILES):
        raise refuse("has the relative path of a file", "write an absolute path")
    for name, text in given.items():
        if remedy := remedy_of(name, text):
            raise refuse(f"has a value of {name} that does not work: {NO_COUNTERPART}", remedy)
    if is_weak(given):
        raise refuse("has sslrootcert=system with a weaker sslmode than verify-full", "write verify-full")
    return value


def _parameters(query: str) -> Iterator[tuple[str, str]]:
    """Yields names and values as libpq reads them, which takes ``+`` literally."""
    for pair in filter(None, query.split("&")):
        name, _, value = pair.partition("=")
        yield unquote(name), unquote(value)


def _is_file(name: str, value: str) -> bool:
    return value.startswith("/") or not value or (name == "sslrootcert" and value == SYSTEM)


def read_by_libpq(url: str) -> Mapping[str, str]:
    """Returns the keywords of a URL exactly as the client reads them, which may differ from ``checked_url``.

    Raises ``OptionError`` for those that a Connector may not set.
    """
    import psycopg
    from psycopg.conninfo import conninfo_to_dict

    try:
        found = {name: str(value) for name, value in conninfo_to_dict(url.removeprefix("jdbc:")).items()}
    except psycopg.ProgrammingError:
        # Its text may quote a resolved secret.
        raise OptionError([Problem("connection.url", None, "is not understood by libpq", _REMEDY)]) from None
    host = found.get("host", "")
    named = found.keys() <= _ALLOWED | set(_ADDRESS) and all(_is_file(n, found.get(n, "")) for n in FILES)
    if not named or is_weak(found) or not host or host.startswith(("/", "@")) or "," in host:
        problem = "means to libpq what a Connector may not set"
        raise OptionError([Problem("connection.url", None, problem, f"{_EXAMPLE}; {_REMEDY}")])
    return found


def files_of(url: str) -> list[str]:
    """Returns the files that the client opens. Raises ``OptionError`` like ``read_by_libpq``."""
    found = read_by_libpq(url)
    return [path for name in FILES if (path := found.get(name, "")) and path != SYSTEM]
