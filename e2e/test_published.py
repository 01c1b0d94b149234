"""A release as it is published: made twice alike, and installed from a registry."""

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from e2e.node_installation import NodeNamespace
from tests.kubernetes.helm import helm
from tests.kubernetes.images import ROOT, build_environment, build_images, in_own_mounts
from tests.kubernetes.publishing import program, registry

pytestmark = [
    pytest.mark.real,
    pytest.mark.timeout(3600),
    pytest.mark.long(
        "tests/release/test_documents.py::"
        "test_an_archive_is_the_same_whoever_packed_it_when_and_in_what_order"
    ),
]

VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]


class Maker:
    """``make release`` of the last commit, with buildah's layers of the tests."""

    def __init__(self, folder: Path, address: str) -> None:
        self._folder = folder
        self._address = address
        build_images()
        self.base, variables = build_environment(folder)
        programs = {str(Path(each).parent) for each in (helm(), program("syft"))}
        path = os.pathsep.join([*programs, os.environ["PATH"]])
        self._environment = {**os.environ, **variables, "PATH": path, "PYTHONPATH": str(ROOT)}

    def __call__(self, verb: str, name: str, *more: str) -> dict[str, str]:
        """Returns the checksums by the names of the files."""
        into = self._folder / name
        words = ("--version", VERSION, "--registry", f"{self._address}/team", "--into", str(into))
        command = in_own_mounts(sys.executable, "-m", "release", verb, *words, *more)
        subprocess.run(command, cwd=ROOT, env=self._environment, check=True)
        lines = (into / "SHA256SUMS").read_text().splitlines()
        return {name: checksum for checksum, _, name in (line.partition("  ") for line in lines)}


def test_a_release_is_made_twice_alike_and_installed_from_a_registry(
    place: NodeNamespace, tmp_path: Path
) -> None:
    (tmp_path / "registry").mkdir()
    with registry(tmp_path / "registry") as address:
        make = Maker(tmp_path, address)
        options = ("--base", make.base, "--architectures", "amd64")
        files = make("build", "first", *options)
        for name in (f"cooperator-{VERSION}-py3-none-any.whl", f"cooperator-{VERSION}.tar.gz", "notes.md"):
            assert name in files
        for name in ("cooperator-operator", "cooperator-worker"):
            bill = json.loads((tmp_path / "first" / f"{name}-{VERSION}-linux-amd64.cdx.json").read_text())
            assert {"pydantic", "tini"} <= {component["name"] for component in bill["components"]}
        assert make("build", "second", *options) == files
        make("publish", "second")

        values: dict[str, Any] = {**place.values}
        del values["image"], values["worker"]
        place.helm.install("cooperator", f"oci://{address}/team/charts/cooperator", **values)
        place.pool(replicas=1, imagePullPolicy="IfNotPresent")
        place.connector("a", tasksMax=2)
        place.runs("a-0", "a-1", timeout_s=300)
        images = [pod["spec"]["containers"][0]["image"] for pod in place.pods().values()]
        assert len(images) == 2
        assert all(
            image.startswith(f"{address}/team/cooperator-") and "@sha256:" in image for image in images
        )
