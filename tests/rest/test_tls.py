"""The REST API over TLS: clients verify it by the name of its Service, and its limits are those of http."""

import socket
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from cooperator.leader.tls import SERVER_NAME, ServerCertificates
from cooperator.rest.app import RestServer
from tests.harness.leader_certificates import CertificateDirectory
from tests.rest.fake_front import FakeFront

SERVICE = "lake-rest.home.svc"


@pytest.fixture
def mounted(tmp_path: Path) -> CertificateDirectory:
    mounted = CertificateDirectory(tmp_path / "own")
    mounted.renew([SERVER_NAME, "*.home.svc"])
    return mounted


@pytest.fixture
def server(mounted: CertificateDirectory) -> Iterator[RestServer]:
    server = RestServer(FakeFront({}).front, "127.0.0.1", 0, tls=ServerCertificates(mounted.path))
    server.start()
    yield server
    server.stop()


def connected(server: RestServer, mounted: CertificateDirectory, name: str) -> ssl.SSLSocket:
    plain = socket.create_connection(("127.0.0.1", server.port), 10)
    return ssl.create_default_context(cafile=mounted.ca).wrap_socket(plain, server_hostname=name)


def test_clients_verify_the_name_of_the_service(server: RestServer, mounted: CertificateDirectory) -> None:
    assert server.url.startswith("https://")
    with connected(server, mounted, SERVICE) as connection:
        connection.sendall(b"GET /connectors HTTP/1.1\r\nHost: x\r\n\r\n")
        assert connection.recv(100).startswith(b"HTTP/1.1 401 ")
    with pytest.raises(ssl.SSLCertVerificationError, match="mismatch"):
        connected(server, mounted, "lake-rest.elsewhere.svc")


def test_callers_without_a_right_are_answered_before_their_body_is_sent(
    server: RestServer, mounted: CertificateDirectory
) -> None:
    with connected(server, mounted, SERVICE) as connection:
        connection.sendall(b"POST /connectors HTTP/1.1\r\nHost: x\r\nContent-Length: 900000\r\n\r\n")
        assert connection.recv(100).startswith(b"HTTP/1.1 401 ")


def test_a_token_in_plain_http_is_refused_before_it_is_read(server: RestServer) -> None:
    request = urllib.request.Request(f"http://127.0.0.1:{server.port}/connectors")
    request.add_header("Authorization", "Bearer secret")
    with pytest.raises(urllib.error.HTTPError) as refused, urllib.request.urlopen(request, timeout=10):
        pass
    with refused.value as error:
        assert (error.code, b"use https://" in error.read()) == (400, True)
