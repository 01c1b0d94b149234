"""Commands refuse a certificate that members would refuse, before they do anything else."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from cooperator.cli.app import program
from cooperator.leader.tls import SERVER_NAME
from tests.harness.leader_certificates import CertificateDirectory

WORKER = """
apiVersion: cooperator.dev/v1alpha1
kind: Worker
metadata: {name: lake}
spec: {bootstrapServers: "127.0.0.1:1"}
"""


@pytest.mark.parametrize("command", ["operator", "leader"])
def test_a_certificate_that_members_would_refuse_is_refused_with_the_remedy(
    tmp_path: Path, command: str
) -> None:
    manifest = tmp_path / "worker.yaml"
    manifest.write_text(WORKER)
    mounted = CertificateDirectory(tmp_path / "own")
    words = [command, "--tls-directory", str(mounted.path)]
    if command == "leader":
        words += ["-f", str(manifest)]

    def refusal() -> str:
        result = CliRunner().invoke(program(), words)
        assert result.exit_code == 2, result.output
        # The console breaks lines.
        return " ".join(result.output.split())

    assert "use a readable PEM file" in refusal()
    mounted.renew(["leader.example"])
    assert f"issue it for the DNS name {SERVER_NAME}" in refusal()
