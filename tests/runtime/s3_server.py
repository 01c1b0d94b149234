"""An S3 store on this machine: VersityGW over a directory, built once through the Go module proxy."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import obstore
from obstore.store import S3Store

from cooperator.local.settings import free_port
from tests.harness.support import eventually
from tests.kubernetes.caches import cache_folder, once

VERSION = "v1.8.0"
_MODULE = "github.com/versity/versitygw"


class S3Server:
    """Has the bucket ``bucket``. A test that stops the server starts it again."""

    bucket = "lake"
    KEYS: ClassVar = {
        "AWS_ACCESS_KEY_ID": "user-of-the-lake",
        "AWS_SECRET_ACCESS_KEY": "hunter2-of-the-lake",
        "AWS_REGION": "us-east-1",
    }

    def __init__(self, directory: Path) -> None:
        self._program = program()
        self._data = directory / "data"
        (self._data / self.bucket).mkdir(parents=True)
        self._log = directory / "versitygw.log"
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables that S3 clients read."""
        return {**self.KEYS, "AWS_ENDPOINT_URL_S3": f"http://127.0.0.1:{self.port}"}

    def start(self) -> None:
        keys = self.environment
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [str(self._program), "--port", f"127.0.0.1:{self.port}", "posix", str(self._data)],
                env={
                    **os.environ,
                    "ROOT_ACCESS_KEY": keys["AWS_ACCESS_KEY_ID"],
                    "ROOT_SECRET_KEY": keys["AWS_SECRET_ACCESS_KEY"],
                    "HOME": str(self._data.parent),
                },
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        eventually(self._answers, 30)

    def stop(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def store(self) -> S3Store:
        """The bucket's contents as files."""
        return bucket_client(self.environment)

    def _answers(self) -> bool:
        try:
            obstore.list_with_delimiter(self.store(), "")
        except Exception as error:
            raise AssertionError(str(error)[:300]) from None
        return True


def bucket_client(environment: Mapping[str, str]) -> S3Store:
    """``environment`` is that of S3 clients."""
    return S3Store(
        S3Server.bucket,
        endpoint=environment["AWS_ENDPOINT_URL_S3"],
        access_key_id=environment["AWS_ACCESS_KEY_ID"],
        secret_access_key=environment["AWS_SECRET_ACCESS_KEY"],
        region=environment["AWS_REGION"],
        virtual_hosted_style_request=False,
        client_options={"allow_http": True},
    )


def program() -> Path:
    """The static program, built if it is missing, which takes minutes."""
    return once(cache_folder("versitygw", f"{VERSION}-static"), _build) / "versitygw"


def _build(folder: Path) -> None:
    go = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin:/usr/lib/go/bin")
    assert go is not None, "Go is needed to build VersityGW: python3 run.py tests --yes installs it"
    # Without C, since pods that run it have no libc: Go would link to it where there is a compiler.
    environment = {**os.environ, "GOWORK": "off", "CGO_ENABLED": "0"}
    with tempfile.TemporaryDirectory(prefix="cooperator-versitygw-") as work:
        for command in (
            [go, "mod", "init", "build"],
            [go, "get", "-tool", f"{_MODULE}/cmd/versitygw@{VERSION}"],
            [
                go,
                "build",
                "-o",
                str(folder / "versitygw"),
                f"{_MODULE}/cmd/versitygw",
            ],
        ):
            done = subprocess.run(
                ["nice", "-n", "10", *command], cwd=work, env=environment, capture_output=True, text=True
            )
            assert done.returncode == 0, f"{' '.join(command)}: {done.stderr[-2000:]}"
