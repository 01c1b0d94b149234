"""A real schema registry of the test run: Apicurio's, which implements the API of Confluent's."""

import hashlib
import os
import socket
import subprocess
import tempfile
import urllib.request
import zipfile
from pathlib import Path
from urllib.error import URLError

from cooperator.artifacts import find_java, ivy
from cooperator.artifacts.bundles import Artifact
from tests.harness.support import eventually

VERSION = "2.6.13.Final"
SHA256 = "d88014c1addff1fc585e1e9510fc41276473726340f4e0997353b46342d3532b"
NAME = f"apicurio-registry-app-{VERSION}"
RELEASE = Artifact("io.apicurio", "apicurio-registry-app", VERSION, classifier="all", extension="zip")


def unpacked() -> Path:
    """The registry's directory in the cache; its first user downloads (142 MB) and verifies it."""
    root = Path(os.environ.get("COOPERATOR_CACHE") or Path.home() / ".cache" / "cooperator") / "tests"
    target = root / NAME
    if not target.is_dir():
        root.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=root) as scratch:
            archive = Path(scratch, f"{RELEASE.name}.zip")
            ivy.retrieve(
                [RELEASE],
                transitive=False,
                pattern=f"{scratch}/[artifact].[ext]",
                cache=Path(scratch, "ivy"),
                progress=print,
            )
            with archive.open("rb") as file:
                assert hashlib.file_digest(file, "sha256").hexdigest() == SHA256, (
                    f"{RELEASE} has another checksum"
                )
            with zipfile.ZipFile(archive) as content:
                content.extractall(Path(scratch, "content"))
            try:
                Path(scratch, "content").rename(target)
            except OSError:  # Another run was faster.
                assert target.is_dir()
    return target


class Registry:
    """A registry that keeps its schemas in memory."""

    def __init__(self, log: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = int(free.getsockname()[1])
        self.url = f"http://127.0.0.1:{port}/apis/ccompat/v7"
        options = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        options += ["-Dquarkus.http.host=127.0.0.1", f"-Dquarkus.http.port={port}"]
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [find_java(), *options, "-jar", unpacked() / f"{NAME}-runner.jar"],
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        eventually(self._is_up, 180, f"the registry answers, see {log}")

    def close(self) -> None:
        self._process.kill()
        self._process.wait()

    def _is_up(self) -> bool:
        assert self._process.poll() is None, "the registry has ended"
        try:
            with urllib.request.urlopen(f"{self.url}/subjects", timeout=2) as answer:
                return bool(answer.status == 200)
        except (URLError, OSError):
            return False
