"""The connection of a client of libpq, as settings for PostgreSQL's JDBC driver.

Spark's tasks copy rows by that driver. They connect as the member has: to the address that it has reached,
as the same role and with the same encryption. The driver does not know all of libpq's parameters; where one
of the others is set, it is not used.
"""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import quote

if TYPE_CHECKING:
    import psycopg

    from cooperator.connectors.postgres import Database

log = logging.getLogger(__name__)

_LOGIN_S: Final = 10
"""The time for a connection, with encryption and authentication."""
_CANCEL_S: Final = 5
_RENAMED: Final = {
    "sslmode": "sslmode",
    "sslrootcert": "sslrootcert",
    "channel_binding": "channelBinding",
    "options": "options",
    "application_name": "ApplicationName",
}
_DONE_BEFORE: Final = frozenset(
    {
        *("host", "hostaddr", "port", "dbname", "user", "password", "passfile", "fallback_application_name"),
        # The member has chosen the server.
        *("target_session_attrs", "load_balance_hosts", "connect_timeout"),
        *("keepalives", "keepalives_idle", "keepalives_interval", "keepalives_count", "tcp_user_timeout"),
        # The driver's is UTF-8, in which Spark has its text.
        "client_encoding",
    }
)
_WITHOUT_EFFECT: Final = {
    "gssencmode": ("disable", "prefer"),
    "gssdelegation": ("0",),
    "sslcertmode": ("allow", "disable"),
    "sslcompression": ("0",),
    "sslnegotiation": ("postgres",),
    "sslsni": ("1",),
    "ssl_min_protocol_version": ("TLSv1.2",),
    "min_protocol_version": ("3.0",),
    "max_protocol_version": ("3.0",),
    "krbsrvname": ("postgres",),
}
"""Values that mean what the driver does in any case."""
_VERIFIES: Final = ("verify-ca", "verify-full")


class NotByJdbc(Exception):
    """The driver cannot do what a parameter asks for; the message names it."""


class JdbcSettings(NamedTuple):
    """A connection by JDBC: its URL, the numeric address and port of the server, properties of the driver.

    The properties have a password.
    """

    url: str
    address: str
    port: int
    properties: Mapping[str, str]

    def __repr__(self) -> str:
        return f"JdbcSettings({self.url!r}, {self.address!r}, {self.port})"


def jdbc_settings(connection: "psycopg.Connection[Any]") -> JdbcSettings:
    """Returns the settings for connections like this one. Raises ``NotByJdbc``."""
    info = connection.info
    host = f"[{info.host}]" if ":" in info.host else info.host
    properties = {
        "user": info.user,
        # Without one the driver would look for a password of the member itself.
        "password": info.password,
        **jdbc_properties(info.get_parameters()),
        "loginTimeout": str(_LOGIN_S),
        "cancelSignalTimeout": str(_CANCEL_S),
        "tcpKeepAlive": "true",
        "gssEncMode": "disable",
        # A prepared statement would outlive a table that is created again.
        "prepareThreshold": "0",
    }
    url = f"jdbc:postgresql://{host}:{info.port}/{quote(info.dbname, safe='')}"
    return JdbcSettings(url, info.hostaddr, info.port, properties)


def fits_jdbc(database: "Database", done: str) -> bool:
    """Returns whether Spark's tasks can connect as the member has.

    Otherwise the member's log says that rows are ``done`` ("read", "written") by it alone, and why.
    """
    try:
        database.run(jdbc_settings)
    except NotByJdbc as error:
        log.warning("%s: the JDBC driver has no counterpart, so rows are %s by the member alone", error, done)
        return False
    return True


def jdbc_properties(parameters: Mapping[str, str], home: Path | None = None) -> Mapping[str, str]:
    """Returns the driver's properties for libpq's parameters; ``home`` is the member's home directory.

    Raises ``NotByJdbc``.
    """
    found: dict[str, str] = {}
    for name, value in sorted(parameters.items()):
        if name in _RENAMED:
            found[_RENAMED[name]] = value
        elif name not in _DONE_BEFORE and value and value not in _WITHOUT_EFFECT.get(name, ()):
            raise NotByJdbc(f"{name}={value}")
    mode, root = found.get("sslmode", "prefer"), found.get("sslrootcert", "")
    if root == "system":
        raise NotByJdbc("sslrootcert=system")
    if not root and mode in ("require", *_VERIFIES):
        default = (home or Path.home()) / ".postgresql" / "root.crt"
        if mode in _VERIFIES or default.exists():
            raise NotByJdbc(f"sslmode={mode} without sslrootcert")
    if root and mode == "require":
        # libpq verifies the server then; the driver would not.
        found["sslmode"] = "verify-ca"
    return found
