"""Directories like those in which a Secret with a leader's certificate is mounted."""

import datetime
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from cooperator.leader.tls import CA, CERTIFICATE, KEY, SERVER_NAME
from tests.kubernetes.certificates import Authority

MONTH: Final = datetime.timedelta(days=30)
EXPIRED: Final = datetime.timedelta(seconds=-5)


class CertificateDirectory:
    """``path`` holds the files as the kubelet lays them out: links that are replaced at once."""

    def __init__(self, folder: Path, authority: str = "own") -> None:
        self.path = folder / "mounted"
        self._folder = folder
        self._versions = 0
        self.path.mkdir(parents=True)
        self.authority = Authority(folder / authority)
        for name in (CERTIFICATE, KEY, CA):
            (self.path / name).symlink_to(Path("..data") / name)

    @property
    def ca(self) -> Path:
        """The file by which members verify."""
        return self.path / CA

    def renew(self, names: Sequence[str] = (SERVER_NAME,), valid: datetime.timedelta = MONTH) -> None:
        """Replace all files by those of a new certificate for ``names``."""
        signed = self.authority.server(f"leader-{self._versions}", names, valid)
        self.write(
            signed.certificate.read_bytes(),
            signed.key.read_bytes(),
            self.authority.own.certificate.read_bytes(),
        )

    def write(self, certificate: bytes, key: bytes, ca: bytes) -> None:
        self._versions += 1
        version = self.path / f"..{self._versions}"
        version.mkdir()
        for name, content in ((CERTIFICATE, certificate), (KEY, key), (CA, ca)):
            (version / name).write_bytes(content)
        link = self.path / "..next"
        link.symlink_to(version.name)
        os.replace(link, self.path / "..data")
