"""A network of its own for one process: a namespace and a cable to it that can be pulled (Linux, as root)."""

import os
import secrets
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True)
class Network:
    """``here``: this machine's address at its end of the cable; ``there``: that of the namespace."""

    name: str
    here: str
    there: str

    @property
    def inside(self) -> tuple[str, ...]:
        """What a command begins with that is to run in there."""
        return ("ip", "netns", "exec", self.name)

    def cut(self) -> None:
        """From now on nothing passes and nobody is told: connections stay as they are."""
        _ip("link", "set", self.name, "down")

    def mend(self) -> None:
        _ip("link", "set", self.name, "up")


def missing() -> str:
    """Why no network can be made here; empty when it can."""
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
        made.mend()
        _ip("-n", name, "addr", "add", f"{made.there}/30", "dev", inner)
        for device in (inner, "lo"):
            _ip("-n", name, "link", "set", device, "up")
        yield made
    finally:
        # The cable goes with its other end.
        _ip("netns", "delete", name)


def _ip(*words: str) -> None:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"ip {' '.join(words)}: {done.stderr}"
