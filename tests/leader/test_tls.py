"""The ports of an operator over TLS, at real sockets: members verify, everything else is closed in time."""

import json
import logging
import select
import socket
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from aiohttp import web

from cooperator.leader import http_listener
from cooperator.leader.endpoint import MAX_BODY_BYTES, Endpoint, body_of, json_answer
from cooperator.leader.tls import SERVER_NAME, LeaderTrust, ServerCertificates, TlsError
from tests.harness.leader_certificates import EXPIRED, CertificateDirectory
from tests.harness.support import eventually


async def hello(request: web.Request) -> web.StreamResponse:
    return json_answer(200, {"body": len(await body_of(request)), "scheme": request.scheme})


@pytest.fixture
def mounted(tmp_path: Path) -> CertificateDirectory:
    mounted = CertificateDirectory(tmp_path / "own")
    mounted.renew()
    return mounted


@pytest.fixture
def endpoint(mounted: CertificateDirectory) -> Iterator[Endpoint]:
    endpoint = Endpoint("127.0.0.1", 0, {"* /": hello}, ServerCertificates(mounted.path))
    endpoint.start()
    yield endpoint
    endpoint.stop()


def connect(endpoint: Endpoint, ca: Path, name: str = SERVER_NAME) -> ssl.SSLSocket:
    """A connection that is verified as members do."""
    plain = socket.create_connection((endpoint.host, endpoint.port), 10)
    try:
        return LeaderTrust(ca).context().wrap_socket(plain, server_hostname=name)
    except OSError:
        plain.close()
        raise


def get(connection: socket.socket) -> bytes:
    connection.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    return b"".join(iter(lambda: connection.recv(4096), b""))


def serial(endpoint: Endpoint, ca: Path) -> str:
    with connect(endpoint, ca) as connection:
        shown = connection.getpeercert()
        assert shown is not None
        return str(shown["serialNumber"])


# --- what is served ----------------------------------------------------------------------------------------


def test_the_url_says_https_and_verified_clients_are_served(
    endpoint: Endpoint, mounted: CertificateDirectory
) -> None:
    assert endpoint.url == f"https://127.0.0.1:{endpoint.port}/"
    with connect(endpoint, mounted.ca) as connection:
        assert get(connection).endswith(b'{"body": 0, "scheme": "https"}')


def test_bodies_are_bounded_as_over_http(endpoint: Endpoint, mounted: CertificateDirectory) -> None:
    with connect(endpoint, mounted.ca) as connection:
        connection.sendall(
            f"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: {MAX_BODY_BYTES + 1}\r\n\r\n".encode()
        )
        assert connection.recv(100).startswith(b"HTTP/1.1 413 ")


def test_protocols_before_tls_1_2_are_refused(endpoint: Endpoint, mounted: CertificateDirectory) -> None:
    old = LeaderTrust(mounted.ca).context()
    old.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
    with pytest.deprecated_call():
        old.maximum_version = ssl.TLSVersion.TLSv1_1
    old.set_ciphers("ALL:@SECLEVEL=0")
    with (
        socket.create_connection((endpoint.host, endpoint.port), 10) as plain,
        pytest.raises(ssl.SSLError, match=r"(?i)protocol version|unsupported protocol|EOF"),
    ):
        old.wrap_socket(plain, server_hostname=SERVER_NAME)


def test_plain_http_is_answered_with_the_remedy_and_closed(endpoint: Endpoint) -> None:
    with socket.create_connection((endpoint.host, endpoint.port), 10) as connection:
        answer = get(connection)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"this port serves https only: use https://" in answer
    request = urllib.request.Request(f"http://127.0.0.1:{endpoint.port}/", b"x" * 200_000, method="POST")
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request, timeout=10)
    with refused.value as error:
        assert json.loads(error.read())["error_code"] == 400


def test_other_bytes_are_no_handshake_either(endpoint: Endpoint, mounted: CertificateDirectory) -> None:
    for garbage in (b"\x16\x03\x01\xff\xff" + b"\x00" * 600, b"\x16garbage" * 80, b""):
        with socket.create_connection((endpoint.host, endpoint.port), 10) as connection:
            connection.sendall(garbage)
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(4096):
                pass
    assert serial(endpoint, mounted.ca)


# --- clients that never finish their handshake -------------------------------------------------------------


def test_slow_handshakes_hold_up_nobody_and_end(
    endpoint: Endpoint, mounted: CertificateDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A client that waited for one of the others would run into its own time-out.
    monkeypatch.setattr(http_listener, "FIRST_REQUEST_S", 600.0)
    slow = slow_handshakes(endpoint)
    assert serial(endpoint, mounted.ca)
    assert select.select(slow, [], [], 0)[0] == [], "none of them has ended"

    monkeypatch.setattr(http_listener, "FIRST_REQUEST_S", 1.0)
    ending = slow_handshakes(endpoint)
    assert all(closed(connection) for connection in ending)
    for connection in (*slow, *ending):
        connection.close()


def slow_handshakes(endpoint: Endpoint) -> list[socket.socket]:
    begun = (b"", b"\x16", b"\x16\x03\x01\x02\x00\x01")
    slow = [socket.create_connection((endpoint.host, endpoint.port), 30) for _ in range(30)]
    for number, connection in enumerate(slow):
        connection.sendall(begun[number % len(begun)])
    return slow


def test_the_oldest_handshake_gives_way_to_further_ones(
    endpoint: Endpoint, mounted: CertificateDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_listener, "MAX_WAITING", 3)
    slow = [socket.create_connection((endpoint.host, endpoint.port), 10) for _ in range(6)]
    for connection in slow[:3]:
        assert closed(connection)
    assert serial(endpoint, mounted.ca)
    for connection in slow:
        connection.close()


def closed(connection: socket.socket) -> bool:
    """Whether the server ends it within the socket's time-out."""
    try:
        return not connection.recv(1)
    except ConnectionResetError:
        return True


def test_stop_ends_everything(mounted: CertificateDirectory) -> None:
    endpoint = Endpoint("127.0.0.1", 0, {"* /": hello}, ServerCertificates(mounted.path))
    endpoint.start()
    waiting = socket.create_connection((endpoint.host, endpoint.port), 10)
    served = connect(endpoint, mounted.ca)
    endpoint.stop()
    with waiting, served:
        assert closed(waiting)
        assert closed(served)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((endpoint.host, endpoint.port), 10)


# --- clients that refuse -----------------------------------------------------------------------------------


def test_a_client_refuses_another_ca_and_another_name(
    endpoint: Endpoint, mounted: CertificateDirectory, tmp_path: Path
) -> None:
    foreign = CertificateDirectory(tmp_path / "foreign")
    foreign.renew()
    with pytest.raises(ssl.SSLCertVerificationError, match="signature failure"):
        connect(endpoint, foreign.ca)
    with pytest.raises(ssl.SSLCertVerificationError, match="mismatch"):
        connect(endpoint, mounted.ca, "127.0.0.1")
    assert serial(endpoint, mounted.ca), "others are served"


# --- renewals ----------------------------------------------------------------------------------------------


def test_a_renewed_certificate_is_used_for_the_next_connection(
    endpoint: Endpoint, mounted: CertificateDirectory
) -> None:
    with connect(endpoint, mounted.ca) as open_before:
        first = serial(endpoint, mounted.ca)
        assert serial(endpoint, mounted.ca) == first
        mounted.renew()
        assert serial(endpoint, mounted.ca) != first
        assert get(open_before).startswith(b"HTTP/1.1 200 "), "open connections go on"


def test_files_that_cannot_be_used_do_not_replace_the_former_ones(
    endpoint: Endpoint, mounted: CertificateDirectory, caplog: pytest.LogCaptureFixture
) -> None:
    ca = mounted.ca.read_bytes()
    trusted = mounted.path / "trusted"
    trusted.write_bytes(ca)
    first = serial(endpoint, trusted)
    other = mounted.authority.server("other", [SERVER_NAME])
    broken: list[Callable[[], None]] = [
        lambda: mounted.write(b"", b"", b""),
        lambda: mounted.write(b"no PEM", other.key.read_bytes(), ca),
        lambda: mounted.write((mounted.path / "..1/tls.crt").read_bytes(), other.key.read_bytes(), ca),
        lambda: mounted.renew(["elsewhere.example"]),
    ]
    for breaks in broken:
        caplog.clear()
        breaks()
        assert serial(endpoint, trusted) == first
        serial(endpoint, trusted)
        [said] = [each for each in caplog.records if "the former certificates stay in use" in each.message]
        assert ": use " in said.message or ": issue " in said.message
    mounted.renew()
    assert serial(endpoint, trusted) != first


def test_members_read_a_replaced_ca(mounted: CertificateDirectory, tmp_path: Path) -> None:
    trust = LeaderTrust(mounted.ca)
    before = trust.context()
    assert trust.context() is before
    foreign = CertificateDirectory(tmp_path / "foreign")
    foreign.renew()
    mounted.write(b"", b"", foreign.ca.read_bytes())
    assert trust.context() is not before
    mounted.write(b"", b"", b"damaged")
    assert trust.context().cert_store_stats()["x509_ca"] == 1, "the last good one stays"


# --- what an operator refuses at its start -----------------------------------------------------------------


def test_a_certificate_that_members_would_refuse_is_refused_with_the_remedy(
    mounted: CertificateDirectory, tmp_path: Path
) -> None:
    def refusal() -> str:
        with pytest.raises(TlsError) as refused:
            ServerCertificates(mounted.path)
        return str(refused.value)

    mounted.renew(["leader.example"])
    assert f"issue it for the DNS name {SERVER_NAME}" in refusal()

    foreign = CertificateDirectory(tmp_path / "foreign")
    foreign.renew()
    signed = mounted.authority.server("signed", [SERVER_NAME])
    mounted.write(signed.certificate.read_bytes(), signed.key.read_bytes(), foreign.ca.read_bytes())
    assert "use the certificate of the CA that has signed it as ca.crt" in refusal()

    mounted.write(signed.certificate.read_bytes(), foreign_key(foreign), mounted.ca.read_bytes())
    assert "its own unencrypted key" in refusal()

    (mounted.path / "ca.crt").unlink()
    assert "ca.crt: No such file or directory: use a readable PEM file" in refusal()


def foreign_key(foreign: CertificateDirectory) -> bytes:
    return (foreign.path / "tls.key").read_bytes()


def test_an_expired_certificate_is_logged_and_the_leader_goes_on(
    mounted: CertificateDirectory, caplog: pytest.LogCaptureFixture
) -> None:
    mounted.renew(valid=EXPIRED)
    with caplog.at_level(logging.ERROR):
        assert ServerCertificates(mounted.path).context()
    assert "certificate has expired: renew it" in caplog.text


def test_keys_are_in_no_message(mounted: CertificateDirectory, caplog: pytest.LogCaptureFixture) -> None:
    secret = "SECRET-KEY-MATERIAL"
    mounted.write(b"x", f"-----BEGIN PRIVATE KEY-----\n{secret}\n-----END".encode(), mounted.ca.read_bytes())
    with pytest.raises(TlsError) as refused:
        ServerCertificates(mounted.path)
    assert secret not in str(refused.value) + caplog.text


def test_a_listener_goes_on_after_it_could_not_accept(
    endpoint: Endpoint, mounted: CertificateDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = endpoint._loop
    accept, failures = loop.sock_accept, iter([OSError(24, "Too many open files")] * 2)

    async def failing(listening: socket.socket) -> tuple[socket.socket, object]:
        if (failure := next(failures, None)) is not None:
            raise failure
        return await accept(listening)

    monkeypatch.setattr(http_listener, "_AGAIN_S", 0.01)
    monkeypatch.setattr(loop, "sock_accept", failing)
    serial(endpoint, mounted.ca)
    assert eventually(lambda: serial(endpoint, mounted.ca), 10)
