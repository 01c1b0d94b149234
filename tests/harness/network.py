"""A network for one process: a namespace and a link to it that can be cut (Linux, as root)."""

import os
import secrets
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True)
class Network:
    """``here`` is this machine's address at its end of the link; ``there`` is the namespace's."""

    name: str
    here: str
    there: str

    @property
    def inside(self) -> tuple[str, ...]:
        """The prefix of a command that runs in the namespace."""
        return ("ip", "netns", "exec", self.name)

    def cut(self) -> None:
        """Silently drop everything from now on; connections stay open."""
        _ip("link", "set", self.name, "down")

    def restore(self) -> None:
        _ip("link", "set", self.name, "up")


def missing() -> str:
    """Returns why no network can be made here; empty if one can."""
    if os.geteuid() != 0:
        return "network namespaces are made by root"
    if shutil.which("ip") is None:
        return "there is no command ip (package iproute2)"
    return ""


@contextmanager
def network() -> Iterator[Network]:
    name = f"cooperator{secrets.token_hex(2)}"
    third = secrets.randbelow(250)
    made = Network(name, f"10.213.{third}.1", f"10.213.{third}.2")
    inner = f"{name}i"
    _ip("netns", "add", name)
    try:
        _ip("link", "add", name, "type", "veth", "peer", "name", inner, "netns", name)
        _ip("addr", "add", f"{made.here}/30", "dev", name)
        made.restore()
        _ip("-n", name, "addr", "add", f"{made.there}/30", "dev", inner)
        for device in (inner, "lo"):
            _ip("-n", name, "link", "set", device, "up")
        yield made
    finally:
        # Deleting one end of the link deletes the other.
        _ip("netns", "delete", name)


def _ip(*words: str) -> None:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"ip {' '.join(words)}: {done.stderr}"
