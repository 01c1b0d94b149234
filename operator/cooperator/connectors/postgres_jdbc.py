"""The connection of a client of libpq, as settings for PostgreSQL's JDBC driver.

Spark's tasks copy rows by that driver. They connect as the member has: to the address that it has reached,
as the same role, with the same encryption and certificates.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import quote

from cooperator.connectors.options import OptionError, Problem
from cooperator.connectors.postgres_parameters import NO_COUNTERPART, RENAMED, remedy_of
from cooperator.connectors.postgres_tls import tls_properties

if TYPE_CHECKING:
    import psycopg

_LOGIN_S: Final = 10
"""The time for a connection, with encryption and authentication."""
_CANCEL_S: Final = 5


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
    """Returns the settings for connections like this one.

    Raises ``OptionError`` for parameters from the member's environment, and for files, that the driver cannot
    follow.
    """
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


def jdbc_properties(parameters: Mapping[str, str], home: Path | None = None) -> Mapping[str, str]:
    """Returns the driver's properties for libpq's parameters; ``home`` is the member's home directory.

    Raises ``OptionError``.
    """
    for name, value in parameters.items():
        if remedy_of(name, value):
            raise _from_elsewhere(name, value)
    renamed = {RENAMED[name]: value for name, value in parameters.items() if name in RENAMED and value}
    return {**renamed, **tls_properties(parameters, home or Path.home())}


def _from_elsewhere(name: str, value: str) -> OptionError:
    """Returns the error about a parameter that is not from ``connection.url``, which was checked before."""
    from psycopg import pq

    known = {each.keyword.decode(): each for each in pq.Conninfo.get_defaults()}
    variable = (known[name].envvar or b"").decode() if name in known else ""
    # libpq marks the parameters that are passwords.
    is_secret = name in known and known[name].dispchar == b"*"
    shown = name if is_secret else f"{name}={value}"
    problem = f"does not work with {shown} from the member's environment: {NO_COUNTERPART}"
    remedy = f"unset {variable or 'PGSERVICE'} for the Worker's members"
    return OptionError([Problem("connection.url", None, problem, remedy)])
