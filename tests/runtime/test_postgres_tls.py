"""Spark's tasks use the certificates and keys that libpq uses, if PostgreSQL's JDBC driver can read them."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
)

from cooperator.connectors.options import OptionError
from cooperator.connectors.postgres_tls import system_authorities, tls_properties

PEM, DER = Encoding.PEM, Encoding.DER
PKCS8, TRADITIONAL = PrivateFormat.PKCS8, PrivateFormat.TraditionalOpenSSL
CERTIFICATE = "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n"
NO_CERTIFICATE = {"sslcert": "", "sslkey": ""}
RSA = rsa.generate_private_key(65537, 2048)
EC = ec.generate_private_key(ec.SECP256R1())

PrivateKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey


def written(
    key: PrivateKey,
    encoding: Encoding,
    form: PrivateFormat,
    protection: KeySerializationEncryption | None = None,
) -> bytes:
    return key.private_bytes(encoding, form, protection or NoEncryption())


def client(folder: Path, key: bytes, name: str = "client.key") -> Mapping[str, str]:
    """Parameters of libpq for a client with that key."""
    (folder / "client.crt").write_text(CERTIFICATE)
    (folder / name).write_bytes(key)
    return {"sslmode": "require", "sslcert": f"{folder / 'client.crt'}", "sslkey": f"{folder / name}"}


def own(home: Path, **files: str | bytes) -> Path:
    """Writes files where libpq looks for those that no parameter names."""
    folder = home / ".postgresql"
    folder.mkdir(exist_ok=True)
    for name, content in files.items():
        data = content if isinstance(content, bytes) else content.encode()
        (folder / name.replace("_", ".")).write_bytes(data)
    return folder


@pytest.mark.parametrize(
    ("key", "name", "algorithm"),
    [
        (written(RSA, PEM, PKCS8), "client.key", "RSA"),
        (written(RSA, PEM, PKCS8), "client.pem", "RSA"),
        (written(EC, PEM, PKCS8), "client.key", "EC"),
        (b"\n" + written(EC, PEM, PKCS8) + CERTIFICATE.encode(), "tls.PEM", "EC"),
        (written(RSA, DER, PKCS8), "client.pk8", "RSA"),
        (written(EC, DER, PKCS8), "client.der", "EC"),
    ],
)
def test_keys_are_passed_to_the_driver_with_their_algorithm(
    tmp_path: Path, key: bytes, name: str, algorithm: str
) -> None:
    given = client(tmp_path, key, name)
    wanted = {"sslcert": given["sslcert"], "sslkey": given["sslkey"], "pemKeyAlgorithm": algorithm}
    assert tls_properties(given, tmp_path) == wanted


@pytest.mark.parametrize(
    ("key", "name"),
    [
        (written(RSA, PEM, TRADITIONAL), "client.key"),
        (written(RSA, PEM, TRADITIONAL), "client.pem"),
        (written(EC, PEM, TRADITIONAL), "client.key"),
        (written(RSA, DER, TRADITIONAL), "client.key"),
        (written(EC, DER, TRADITIONAL), "client.key"),
        (written(EC, PEM, PKCS8, BestAvailableEncryption(b"secret")), "client.key"),
        (written(RSA, DER, PKCS8, BestAvailableEncryption(b"secret")), "client.key"),
        (written(ed25519.Ed25519PrivateKey.generate(), PEM, PKCS8), "client.key"),
        (written(RSA, PEM, PKCS8), "client.der"),
        (written(RSA, PEM, PKCS8), "client.p12"),
        (written(RSA, DER, PKCS8), "client.pem"),
        (CERTIFICATE.encode() + written(RSA, PEM, PKCS8), "client.key"),
        (b"-----BEGIN PRIVATE KEY-----", "client.key"),
        (b"-----BEGIN PRIVATE KEY-----\nA\n-----END PRIVATE KEY-----", "client.key"),
        (b"", "client.key"),
    ],
)
def test_keys_that_the_driver_cannot_read_are_refused(tmp_path: Path, key: bytes, name: str) -> None:
    given = client(tmp_path, key, name)
    with pytest.raises(
        OptionError, match=r"'connection\.url': has a file as sslkey .*openssl pkcs8 -topk8"
    ) as error:
        tls_properties(given, tmp_path)
    assert error.value.passing, "another file may be there next time"
    assert tls_properties({**given, "sslcertmode": "disable"}, tmp_path) == NO_CERTIFICATE
    assert tls_properties({**given, "sslmode": "disable"}, tmp_path) == NO_CERTIFICATE


@pytest.mark.parametrize("content", ["", CERTIFICATE + "-----BEGIN PRIVATE KEY-----\n", "\x30\x82"])
def test_a_file_with_more_than_certificates_is_refused(tmp_path: Path, content: str) -> None:
    given = client(tmp_path, written(EC, PEM, PKCS8))
    (tmp_path / "client.crt").write_text(content)
    with pytest.raises(OptionError, match="as sslcert that has no certificates in PEM, or something else"):
        tls_properties(given, tmp_path)
    with pytest.raises(OptionError, match="as sslrootcert that has no certificates in PEM"):
        tls_properties({"sslmode": "verify-ca", "sslrootcert": given["sslcert"]}, tmp_path)


@pytest.mark.parametrize("name", ["sslcert", "sslkey", "sslrootcert"])
def test_a_file_that_the_member_lacks_is_refused(tmp_path: Path, name: str) -> None:
    given = {**client(tmp_path, written(EC, PEM, PKCS8)), name: "/none"}
    with pytest.raises(OptionError, match=rf"as {name} that this member cannot read \(No such file") as error:
        tls_properties(given, tmp_path)
    assert error.value.passing


@pytest.mark.parametrize(
    ("mode", "found"),
    [
        ("verify-full", {"sslmode": "verify-full"}),
        ("verify-ca", {"sslmode": "verify-ca"}),
        # libpq verifies the server where it has a root, whatever the name of the mode says.
        ("require", {"sslmode": "verify-ca"}),
    ],
)
def test_servers_are_verified_as_by_libpq(tmp_path: Path, mode: str, found: dict[str, str]) -> None:
    root = tmp_path / "ca.crt"
    root.write_text(CERTIFICATE)
    given = {"sslmode": mode, "sslrootcert": f"{root}"}
    assert tls_properties(given, tmp_path) == {**found, "sslrootcert": f"{root}", **NO_CERTIFICATE}


def test_files_of_the_member_itself_are_named_to_the_driver(tmp_path: Path) -> None:
    assert tls_properties({"sslmode": "require"}, tmp_path) == NO_CERTIFICATE
    folder = own(tmp_path, root_crt=CERTIFICATE, postgresql_crt=CERTIFICATE)
    with pytest.raises(OptionError, match="as sslkey that this member cannot read"):
        tls_properties({"sslmode": "require"}, tmp_path)
    own(tmp_path, postgresql_key=written(EC, PEM, PKCS8))
    certificate = {
        "sslcert": f"{folder / 'postgresql.crt'}",
        "sslkey": f"{folder / 'postgresql.key'}",
        "pemKeyAlgorithm": "EC",
    }
    root = {"sslmode": "verify-ca", "sslrootcert": f"{folder / 'root.crt'}"}
    assert tls_properties({"sslmode": "require"}, tmp_path) == {**root, **certificate}
    assert tls_properties({}, tmp_path) == certificate, "a server without TLS does not get any"


def test_lists_of_revoked_certificates_are_refused(tmp_path: Path) -> None:
    own(tmp_path, root_crt=CERTIFICATE, root_crl="")
    with pytest.raises(OptionError, match=r"root\.crl: the JDBC driver reads no revocation lists"):
        tls_properties({"sslmode": "require"}, tmp_path)
    assert tls_properties({}, tmp_path) == NO_CERTIFICATE


def test_the_authorities_of_the_system_are_a_file_to_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authorities = tmp_path / "authorities.pem"
    authorities.write_text(CERTIFICATE)
    monkeypatch.setenv("SSL_CERT_FILE", f"{authorities}")
    found = system_authorities({"sslrootcert": "system"})
    assert found == {"sslmode": "verify-full", "sslrootcert": f"{authorities}"}
    assert system_authorities({"sslrootcert": "/ca.pem"}) == {}
    authorities.unlink()
    with pytest.raises(OptionError, match="no file of the system's authorities; set SSL_CERT_FILE"):
        system_authorities({"sslrootcert": "system"})
