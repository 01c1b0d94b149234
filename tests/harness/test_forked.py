"""A forked command is the program: the same code, output and errors."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.forked import run_forked

WORKER = """
apiVersion: cooperator.dev/v1alpha1
kind: Worker
metadata: {name: lake}
"""
KUBECTL = "import sys; from cooperator.cli.kubectl import main; main()"


@pytest.mark.parametrize(
    ("words", "stdin"),
    [
        (["local", "apply", "-f", "-"], WORKER),
        (["local", "pause", "nobody"], ""),
    ],
)
def test_a_forked_command_says_what_a_started_one_says(tmp_path: Path, words: list[str], stdin: str) -> None:
    said = []
    for name in ("forked", "started"):
        environment = {**os.environ, "COOPERATOR_STATE_DIR": str(tmp_path / name)}
        if name == "forked":
            done = run_forked(words, environment, stdin)
        else:
            done = started(["-m", "cooperator.cli", *words], environment, stdin)
        said.append((done.returncode, done.stdout, done.stderr.replace(str(tmp_path / name), "STATE")))
    assert said[0] == said[1]


def test_a_forked_plug_in_reads_its_own_environment(tmp_path: Path) -> None:
    """Kubernetes' client reads a variable when it is imported, which was long before."""
    environment = {**os.environ, "KUBECONFIG": str(tmp_path / "none"), "HOME": str(tmp_path)}
    forked = run_forked(["status"], environment, main="cooperator.cli.kubectl")
    done = started(["-c", KUBECTL, "status"], environment)
    assert (forked.returncode, forked.stdout, forked.stderr) == (done.returncode, done.stdout, done.stderr)
    assert f"kubeconfig {tmp_path / 'none'} names no cluster" in forked.stderr


def started(
    words: list[str], environment: dict[str, str], stdin: str = ""
) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, *words],
        env=environment,
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
