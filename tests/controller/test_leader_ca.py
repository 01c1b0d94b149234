"""Members get the CA of leaders that serve https from a ConfigMap that their pods mount."""

import base64
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cooperator.controller.api.client import CONFIG_MAPS, ApiError, Kind
from cooperator.controller.manifests import connect_pods
from cooperator.controller.manifests.allowed import Allowance
from cooperator.controller.manifests.leader_ca import trust_store
from cooperator.controller.manifests.pods import Defaults, revision, template
from cooperator.controller.rest_front import manifests
from cooperator.controller.supplies import Supplies
from cooperator.leader.tls import ServerCertificates
from tests.controller.workers import worker
from tests.harness.leader_certificates import CertificateDirectory

PLAIN = Defaults("registry.example/cooperator:1.0", "kafka:9092")
TLS = replace(PLAIN, leader_ca=True)
RUNTIMES = pytest.mark.parametrize("spec", ["{}", "{runtime: connect}"])


class Cluster:
    """The part of ``Api`` that ``Supplies`` uses, with the ConfigMaps that exist."""

    def __init__(self, **existing: Mapping[str, Any]) -> None:
        self.config_maps: dict[str, Mapping[str, Any]] = {**existing}
        self.read: list[str] = []

    def get(self, kind: Kind, namespace: str, name: str) -> Mapping[str, Any]:
        self.read.append(f"{kind.plural}/{name}")
        if kind is CONFIG_MAPS and name in self.config_maps:
            return self.config_maps[name]
        raise ApiError(404, "NotFound", "missing")

    def apply(self, kind: Kind, manifest: Mapping[str, Any], subresource: str = "") -> Mapping[str, Any]:
        if kind is CONFIG_MAPS:
            self.config_maps[manifest["metadata"]["name"]] = manifest
        return manifest


@pytest.fixture
def mounted(tmp_path: Path) -> CertificateDirectory:
    mounted = CertificateDirectory(tmp_path / "own")
    mounted.renew()
    return mounted


def supplies(cluster: Any, mounted: CertificateDirectory) -> Supplies:
    return Supplies(cluster, TLS, Allowance(), ServerCertificates(mounted.path))


@RUNTIMES
def test_members_mount_the_ca_and_nothing_of_the_key(spec: str) -> None:
    made = template(worker(spec), TLS)
    [volume] = [each for each in made["spec"]["volumes"] if "configMap" in each]
    assert volume["configMap"] == {"name": "lake-leader-ca"}
    [container] = made["spec"]["containers"]
    [mount] = [each for each in container["volumeMounts"] if each["name"] == volume["name"]]
    told = " ".join([*container.get("args", ()), *made["metadata"]["annotations"].values()])
    assert f"{mount['mountPath']}/ca." in told
    assert "subPath" not in mount, "a new CA would not arrive"
    assert "tls.key" not in str(made)


@RUNTIMES
def test_pods_are_replaced_when_https_is_switched_on_and_for_no_other_reason(spec: str) -> None:
    assert template(worker(spec), PLAIN) != template(worker(spec), TLS)
    assert revision(worker(spec), PLAIN, {}) != revision(worker(spec), TLS, {})
    assert revision(worker(spec), TLS, {}) == revision(worker(spec), replace(TLS, image="another"), {})


def test_stock_workers_verify_the_leader_apart_from_the_brokers() -> None:
    spec = "{runtime: connect, kafka: {securityProtocol: SSL, tls: {caSecretRef: {name: s}}}}"
    made = template(worker(spec), TLS)["metadata"]["annotations"][f"{connect_pods.FILES}worker.properties"]
    settings = dict(line.split("=", 1) for line in made.splitlines())
    assert settings["ssl.truststore.location"] == "/etc/cooperator/kafka/ca/ca.crt"
    assert settings["listeners.https.ssl.truststore.location"] == "/etc/cooperator/leader/ca.jks"
    assert settings["listeners.https.ssl.truststore.type"] == "JKS"


def test_the_config_map_has_the_ca_for_both_runtimes_and_follows_a_renewal(
    mounted: CertificateDirectory, tmp_path: Path
) -> None:
    cluster = Cluster()
    given = supplies(cluster, mounted)
    given.renew(worker())
    made = cluster.config_maps["lake-leader-ca"]
    ca = mounted.ca.read_bytes()
    assert made["data"] == {"ca.crt": ca.decode()}
    assert base64.b64decode(made["binaryData"]["ca.jks"]) == trust_store(ca)
    assert [owner["kind"] for owner in made["metadata"]["ownerReferences"]] == ["Worker"]
    before = given.revision(worker(), [])

    other = CertificateDirectory(tmp_path / "other")
    other.renew()
    mounted.write(*((other.path / name).read_bytes() for name in ("tls.crt", "tls.key", "ca.crt")))
    given.renew(worker("{replicas: 2}"))
    assert cluster.config_maps["lake-leader-ca"]["data"] == {"ca.crt": other.ca.read_text()}
    assert given.revision(worker(), []) == before, "members read it without a restart"


def test_a_foreign_config_map_is_not_taken_over(mounted: CertificateDirectory) -> None:
    foreign = {"metadata": {"name": "lake-leader-ca"}, "data": {"own": "x"}}
    cluster = Cluster(**{"lake-leader-ca": foreign})
    given = supplies(cluster, mounted)
    given.renew(worker())
    assert "there is a ConfigMap lake-leader-ca that does not belong to this Worker" in given.taken
    assert cluster.config_maps["lake-leader-ca"] is foreign


def test_without_https_no_config_map_is_written_or_read() -> None:
    cluster: Any = Cluster()
    Supplies(cluster, PLAIN, Allowance()).renew(worker())
    assert not [name for name in cluster.read if name.startswith("configmaps/")]
    assert cluster.config_maps == {}


def test_the_service_of_the_rest_api_names_its_protocol() -> None:
    def protocols(tls: bool) -> set[str | None]:
        (_, service), (_, endpoints) = manifests(worker("{rest: {enabled: true}}"), "10.0.0.1", 4321, tls)
        return {port.get("appProtocol") for port in (*service["spec"]["ports"], *endpoints["ports"])}

    assert (protocols(tls=True), protocols(tls=False)) == ({"https"}, {None})
