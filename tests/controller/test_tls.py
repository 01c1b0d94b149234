"""An operator with a certificate, under the chart's rights: members of both runtimes verify their leader."""

import socket
import ssl
from pathlib import Path

import pytest

from cooperator.leader.tls import SERVER_NAME
from tests.controller.test_rest import EDITING, account, front
from tests.harness.installation import Installation, own_address
from tests.harness.leader_certificates import CertificateDirectory
from tests.harness.stock_connectors import plugin_path
from tests.rest.client import Client

pytestmark = pytest.mark.real


@pytest.fixture
def mounted(installation: Installation, tmp_path: Path) -> CertificateDirectory:
    mounted = CertificateDirectory(tmp_path / "own")
    mounted.renew([SERVER_NAME, f"*.{installation.namespace}.svc"])
    return mounted


def test_members_verify_their_leader_and_callers_the_rest_api(
    installation: Installation, mounted: CertificateDirectory
) -> None:
    installation.grant(rest=True, tls=True)
    installation.operator(rest=True, host=own_address(), more=("--tls-directory", str(mounted.path)))
    installation.worker(replicas=2, rest={"enabled": True, "port": 8084})
    installation.connector("a", tasksMax=2)
    # Tasks start only after a member has posted their configurations to its leader.
    installation.runs("a-0", "a-1")
    installation.settled()
    path = f"/api/v1/namespaces/{installation.namespace}/configmaps/lake-leader-ca"
    assert installation.cluster.api.get(path)["data"] == {"ca.crt": mounted.ca.read_text()}

    url = front(installation)
    authorization = account(installation, "editor", EDITING)
    host, port = url.removeprefix("http://").rsplit(":", 1)
    context = ssl.create_default_context(cafile=mounted.ca)
    with (
        socket.create_connection((host, int(port)), 10) as plain,
        context.wrap_socket(plain, server_hostname=f"lake-rest.{installation.namespace}.svc") as connection,
    ):
        connection.sendall(
            f"GET /connectors HTTP/1.1\r\nHost: x\r\nAuthorization: {authorization}\r\n\r\n".encode()
        )
        assert connection.recv(4096).startswith(b"HTTP/1.1 200 ")
    assert "https://" in Client(url, authorization)("GET /connectors", code=400)["message"]


@pytest.mark.long("tests/stock/test_tls.py::test_workers_post_to_a_leader_that_they_have_verified")
def test_a_stock_worker_verifies_its_leader(
    installation: Installation, mounted: CertificateDirectory
) -> None:
    installation.grant(tls=True)
    installation.operator(more=("--tls-directory", str(mounted.path)))
    stock = {"heapMb": 160, "pluginPath": [str(plugin_path())]}
    installation.worker(replicas=1, runtime="connect", connect=stock)
    config = {"topic": "numbers", "journal": installation.journal_path}
    installation.connector("a", **{"class": "cooperator.stock.SequenceSource"}, tasksMax=1, config=config)
    installation.runs("a-0", "a-instance", timeout_s=240)
