"""The way to a cluster of kind's, as far as it can be gone without an engine: in place of kind, docker and
kubectl there are programs that note what they are asked."""

import base64
import json
import os
from pathlib import Path

import pytest
import yaml

from tests.kubernetes import kind
from tests.kubernetes.certificates import Authority
from tests.kubernetes.images import BUSYBOX, OPERATOR, ROOT, WORKER

STUB = """#!/bin/sh
echo "$(basename "$0") $*" >> "$NOTES"
case "$*" in
  "create cluster"*) cat > "$NOTES.config"; cp "$NOTES.kubeconfig" "$6" ;;
  "network inspect kind")
    echo '[{"IPAM": {"Config": [{"Gateway": "fc00::1"}, {"Gateway": "172.18.0.1"}]}}]' ;;
  "inspect --format"*) echo true ;;
esac
"""


@pytest.fixture
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    notes = tmp_path / "notes"
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("kind", "docker", "kubectl"):
        (programs / name).write_text(STUB)
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("NOTES", str(notes))
    return notes


def test_a_cluster_is_made_filled_and_taken_away(notes: Path, authority_text: bytes) -> None:
    inside = {
        "server": "https://127.0.0.1:6443",
        "certificate-authority-data": base64.b64encode(authority_text).decode(),
    }
    kubeconfig = {
        "clusters": [{"name": "k", "cluster": inside}],
        "users": [{"name": "k", "user": {"token": "t"}}],
    }
    notes.with_suffix(".kubeconfig").write_text(json.dumps(kubeconfig))
    with kind.KindCluster.start() as cluster:
        assert cluster.plane.host == "172.18.0.1"
        [one, two] = cluster.nodes
        assert two.name == f"{one.name}2"
        two.freeze()
        two.freeze(containers=True)
        two.thaw()
        two.kill()
        two.up()
        two.tag(WORKER, f"{WORKER}-next")
        made = yaml.safe_load(notes.with_suffix(".config").read_text())
        [mount] = [m for m in made["nodes"][1]["extraMounts"] if m["hostPath"] == str(cluster.shared_root)]
        assert mount["containerPath"] == mount["hostPath"], "a path is the same inside and outside"
    said = notes.read_text().splitlines()
    assert said[:2] == [
        f"docker build --target operator --tag {OPERATOR} {ROOT}",
        f"docker build --target worker --tag {WORKER} {ROOT}",
    ]
    assert any(line.startswith(f"kind load docker-image {OPERATOR} {WORKER} {BUSYBOX}") for line in said)
    assert f"docker pause {two.name}" in said
    assert f"docker unpause {two.name}" in said
    assert f"docker kill {two.name}" in said
    assert said[-1].startswith("kind delete cluster --name cooperator-")


@pytest.fixture
def authority_text(tmp_path: Path) -> bytes:
    return Authority(tmp_path / "certificates").own.certificate.read_bytes()
