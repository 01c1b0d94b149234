"""libpq's parameters, and PostgreSQL's JDBC driver.

A member connects by libpq, and Spark's tasks copy rows by the driver. A value that means nothing to the
driver is refused, so that no connection has less protection than its Connector asks for.
"""

from collections.abc import Mapping
from typing import Final

RENAMED: Final = {
    "sslmode": "sslmode",
    "sslnegotiation": "sslNegotiation",
    "channel_binding": "channelBinding",
    "require_auth": "requireAuth",
    "options": "options",
    "application_name": "ApplicationName",
}
"""The driver's names of parameters with the same values and the same meaning."""
FILES: Final = ("sslcert", "sslkey", "sslrootcert")
SYSTEM: Final = "system"
"""A value of ``sslrootcert`` that is not a path: the authorities of the system."""
NO_COUNTERPART: Final = "PostgreSQL's JDBC driver, which copies the rows, has no counterpart of it"
_OF_THE_MEMBER: Final = frozenset(
    {
        *("host", "hostaddr", "port", "dbname", "user", "password", "passfile", "fallback_application_name"),
        # The member has chosen the server.
        *("target_session_attrs", "load_balance_hosts", "connect_timeout"),
        *("keepalives", "keepalives_idle", "keepalives_interval", "keepalives_count", "tcp_user_timeout"),
        # The driver's is UTF-8, in which Spark has its text.
        "client_encoding",
        # The driver has version 3.0, which every server knows; libpq ignores compression.
        *("max_protocol_version", "sslcompression"),
        # Its parameters count one by one.
        *("service", "servicefile"),
        # It is for sockets of the member, by which no server is reached.
        "requirepeer",
    }
)
_SAME: Final = {
    "gssencmode": ("disable", "prefer"),
    "gssdelegation": ("0",),
    "krbsrvname": ("postgres",),
    "min_protocol_version": ("3.0",),
    "ssl_min_protocol_version": ("TLSv1.2",),
    "ssl_max_protocol_version": ("TLSv1.3",),
    "sslcertmode": ("allow", "disable"),
    "sslsni": ("1",),
}
"""Values by which the driver connects in any case, or that ``postgres_tls`` follows."""
_METHODS: Final = ("gss", "md5", "none", "password", "scram-sha-256", "sspi")
"""The values of ``require_auth`` that the driver knows."""


def remedy_of(name: str, value: str) -> str:
    """Returns the remedy for a value without a counterpart; empty: the driver follows the value."""
    if name == "require_auth" and value:
        return "" if _are_known(value) else f"use some of {', '.join(_METHODS)}"
    if name in RENAMED or name in FILES or name in _OF_THE_MEMBER:
        return ""
    allowed = _SAME.get(name, ())
    # An empty value asks for nothing, except that it switches off what is on by default.
    if value in allowed or (not value and name != "sslsni"):
        return ""
    return f"remove it, or use {' or '.join(allowed)}" if allowed else "remove it"


def is_weak(parameters: Mapping[str, str]) -> bool:
    """Whether servers were verified less than libpq allows with the authorities of the system."""
    return (
        parameters.get("sslrootcert") == SYSTEM and parameters.get("sslmode", "verify-full") != "verify-full"
    )


def _are_known(methods: str) -> bool:
    """Whether the driver knows the methods. The exclusion of all of them means to it that any will do."""
    names = [method.removeprefix("!") for method in methods.split(",")]
    excludes_all = methods.startswith("!") and set(names) == set(_METHODS)
    return set(names) <= set(_METHODS) and not excludes_all
