"""The certificates and keys that libpq uses for a connection, as properties of PostgreSQL's JDBC driver.

Both open the same files. The driver reads fewer kinds of them; others are refused.
"""

import binascii
import re
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from cooperator.connectors.options import OptionError, Problem
from cooperator.connectors.postgres_parameters import SYSTEM

_VERIFIES: Final = ("verify-ca", "verify-full")
_NO_CERTIFICATE: Final = {"sslcert": "", "sslkey": ""}
"""Without these the driver would look for files of its own."""
_PEM_KEY: Final = b"-----BEGIN PRIVATE KEY-----"
_LABEL: Final = re.compile(rb"-----BEGIN ([^-]*)-----")
_ALGORITHMS: Final = {bytes.fromhex("2a864886f70d010101"): "RSA", bytes.fromhex("2a8648ce3d0201"): "EC"}
"""The algorithms of keys, by their object identifiers."""
_HEAD_BYTES: Final = 32
"""A key in PKCS #8 names its algorithm here."""


def system_authorities(parameters: Mapping[str, str]) -> Mapping[str, str]:
    """Returns the parameters that name the system's authorities by their file, where ``sslrootcert=system``.

    The driver needs a file, and the OpenSSL in psycopg's wheels looks in a directory of its own. Raises
    ``OptionError`` if this member has no file of authorities.
    """
    if parameters.get("sslrootcert") != SYSTEM:
        return {}
    file = ssl.get_default_verify_paths().cafile
    if file is None:
        raise _refused(
            "has sslrootcert=system, but this member has no file of the system's authorities",
            "set SSL_CERT_FILE for the Worker's members, or write the path of a file as sslrootcert",
        )
    return {"sslmode": "verify-full", "sslrootcert": file}


def tls_properties(parameters: Mapping[str, str], home: Path) -> Mapping[str, str]:
    """Returns the properties for the files of a connection with these parameters of libpq.

    ``home`` is the member's home directory, where libpq looks for files that no parameter names. Raises
    ``OptionError`` for files that the driver cannot use.
    """
    if parameters.get("sslmode") == "disable":
        return _NO_CERTIFICATE
    defaults = home / ".postgresql"
    return {**_of_server(parameters, defaults), **_of_client(parameters, defaults)}


def _of_server(parameters: Mapping[str, str], defaults: Path) -> Mapping[str, str]:
    mode, named = parameters.get("sslmode", "prefer"), parameters.get("sslrootcert", "")
    if named == SYSTEM:
        problem = "does not work with sslrootcert=system from the member's environment"
        raise _refused(problem, "set sslrootcert in connection.url")
    root = Path(named) if named else defaults / "root.crt"
    # libpq verifies the server where it has a root, whatever the name of the mode says.
    if mode not in _VERIFIES and (mode != "require" or not (named or root.exists())):
        return {}
    _check_certificates("sslrootcert", root)
    if (defaults / "root.crl").exists():
        problem = f"does not work with {defaults / 'root.crl'}: the JDBC driver reads no revocation lists"
        raise _refused(problem, "remove the file from the Worker's members", passing=True)
    return {"sslrootcert": str(root), "sslmode": "verify-ca" if mode == "require" else mode}


def _of_client(parameters: Mapping[str, str], defaults: Path) -> Mapping[str, str]:
    if parameters.get("sslcertmode") == "disable":
        return _NO_CERTIFICATE
    named = parameters.get("sslcert", "")
    certificate = Path(named) if named else defaults / "postgresql.crt"
    if not named and not certificate.exists():
        return _NO_CERTIFICATE
    _check_certificates("sslcert", certificate)
    key = Path(parameters.get("sslkey", "") or defaults / "postgresql.key")
    return {"sslcert": str(certificate), "sslkey": str(key), "pemKeyAlgorithm": _algorithm(key)}


def _check_certificates(name: str, file: Path) -> None:
    """Raises ``OptionError`` unless the driver can read the file, in which it expects certificates only."""
    if set(_LABEL.findall(_content(name, file))) != {b"CERTIFICATE"}:
        problem = f"has a file as {name} that has no certificates in PEM, or something else beside them"
        raise _refused(problem, "use a file of certificates only", passing=True)


def _algorithm(file: Path) -> str:
    """Returns the algorithm of a key. The driver tells the format from the end of the file's name, too."""
    content = _content("sslkey", file)
    is_pem = content.lstrip().startswith(_PEM_KEY)
    key = _decoded(content) if is_pem else content
    found = [name for number, name in _ALGORITHMS.items() if number in key[:_HEAD_BYTES]]
    misleading = (".p12", ".pfx", ".der" if is_pem else ".pem")
    if not found or str(file).lower().endswith(misleading):
        raise _refused(
            "has a file as sslkey that the JDBC driver cannot read",
            "use an RSA or EC key in PKCS #8 without a password, in a file such as client.key (openssl pkcs8 "
            "-topk8 -nocrypt writes it)",
            passing=True,
        )
    return found[0]


def _decoded(pem: bytes) -> bytes:
    try:
        return binascii.a2b_base64(pem.split(b"-----")[2])
    except (binascii.Error, IndexError):
        return b""


def _content(name: str, file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        problem = f"has a file as {name} that this member cannot read ({error.strerror})"
        raise _refused(problem, "mount it on the Worker's members, or use another", passing=True) from None


def _refused(problem: str, remedy: str, *, passing: bool = False) -> OptionError:
    """The value is not shown: it may have been a reference."""
    return OptionError([Problem("connection.url", None, problem, remedy)], passing=passing)
