"""Stock workers verify a leader that serves https, and refuse another one."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from cooperator.artifacts.java import find_java
from cooperator.connect.properties import leader_trust
from cooperator.controller.manifests.leader_ca import trust_store
from cooperator.leader.tls import ServerCertificates
from tests.harness.leader_certificates import CertificateDirectory
from tests.harness.support import eventually
from tests.stock.worker_group import LIMIT_S, StockGroup

pytestmark = pytest.mark.real


def replace_store(store: Path, mounted: CertificateDirectory) -> None:
    part = store.with_suffix(".part")
    part.write_bytes(trust_store(mounted.ca.read_bytes()))
    part.replace(store)


@pytest.mark.parametrize(
    "line",
    [
        "4",
        pytest.param(
            "3.9",
            marks=pytest.mark.long(
                "tests/stock/test_tls.py::test_workers_post_to_a_leader_that_they_have_verified"
            ),
        ),
    ],
)
def test_workers_post_to_a_leader_that_they_have_verified(
    stock: StockGroup, archived: Callable[[str], None], tmp_path: Path, line: str
) -> None:
    archived(line)
    mounted, foreign = (CertificateDirectory(tmp_path / name) for name in ("own", "foreign"))
    mounted.renew()
    foreign.renew()
    store = tmp_path / "ca.jks"
    replace_store(store, foreign)

    leader = stock.leader({}, ("w-1", "w-2"), tls=ServerCertificates(mounted.path))
    assert leader.url.startswith("https://127.0.0.1:")
    for name in ("w-1", "w-2"):
        stock.worker(name, line=line, settings=leader_trust(str(store)))
    stock.leads(leader, 2)
    stock.want(leader, {"a": stock.source("a", tasks=2)})
    stock.runs("a-instance")

    def refused() -> bool:
        logs = "".join(path.read_text(errors="replace") for path in tmp_path.glob("*.log"))
        return "PKIX path" in logs

    eventually(refused, LIMIT_S, "a worker refuses the leader")
    stock.runs("a-instance", timeout_s=5)

    # Workers read the trust store for each request, so that a CA that arrives later needs no restart.
    replace_store(store, mounted)
    stock.runs("a-instance", "a-0", "a-1")
    mounted.renew()
    stock.want(leader, {"a": stock.source("a", tasks=3)})
    stock.runs("a-instance", "a-0", "a-1", "a-2")


def test_java_reads_the_trust_store_of_several_authorities(tmp_path: Path) -> None:
    pems = []
    for name in ("one", "two"):
        mounted = CertificateDirectory(tmp_path / name)
        mounted.renew()
        pems.append(mounted.ca.read_bytes())
    store = tmp_path / "ca.jks"
    store.write_bytes(trust_store(b"# a comment\n" + b"\n".join(pems)))
    keytool = find_java().with_name("keytool")
    listed = subprocess.run(
        [keytool, "-list", "-keystore", store, "-storetype", "JKS", "-storepass", "changeit"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert listed.count("trustedCertEntry") == 2
    assert trust_store(pems[0]) == trust_store(pems[0])
