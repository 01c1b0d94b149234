"""Room on this machine for a cluster with nodes: addresses, bridges, folders; leftovers are cleared."""

from __future__ import annotations

import contextlib
import hashlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.kubernetes.caches import cache_folder, locked_if_free
from tests.kubernetes.processes import ServerFailed

SLOTS = 8
"""Clusters with nodes that this machine can have at once."""

CGROUPS = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class Slot:
    """Everything that has a fixed name is named after ``number``, so that the next holder can clear it."""

    number: int

    @property
    def folder(self) -> Path:
        return cache_folder("clusters", str(self.number))

    @property
    def bridge(self) -> str:
        return f"coop{self.number}"

    @property
    def address(self) -> str:
        """The control plane's; every pod of the cluster reaches it by its node."""
        return f"10.{100 + self.number}.0.1"

    @property
    def pod_subnet(self) -> str:
        return f"10.{100 + self.number}.0.0/16"

    @property
    def service_subnet(self) -> str:
        return f"10.{120 + self.number}.0.0/16"

    @property
    def cgroup(self) -> str:
        return f"cooperator-tests-{self.number}"

    def node_bridge(self, node: int) -> str:
        return f"{self.bridge}n{node}"

    def node_network(self, node: int) -> str:
        """The first three parts of a /20 for the node and its pods; the node itself is .1."""
        return f"10.{100 + self.number}.{16 * node}"


@contextmanager
def claim_slot() -> Iterator[Slot]:
    """A free slot, cleared of what an earlier holder left. Raises ServerFailed if all are held."""
    for number in range(SLOTS):
        slot = Slot(number)
        with locked_if_free(slot.folder.with_suffix(".lock")) as is_ours:
            if not is_ours:
                continue
            clear(slot)
            slot.folder.mkdir()
            make_bridge(slot.bridge, f"{slot.address}/20")
            try:
                yield slot
            finally:
                clear(slot)
            return
    locks = Slot(0).folder.parent / "*.lock"
    raise ServerFailed(f"{SLOTS} clusters with nodes run already; end one of the processes named in {locks}")


def make_bridge(name: str, address: str) -> None:
    """A bridge whose hardware address never changes.

    A bridge that was given none takes the lowest of its ports': it changes when a pod comes or goes, and all
    others lose their gateway until they ask for its address again. CNI's plug-in gives an address only to a
    bridge that has no IP address yet.
    """
    command("ip", "link", "add", name, "address", hardware_address(name), "type", "bridge")
    command("ip", "address", "add", address, "dev", name)
    command("ip", "link", "set", name, "up")


def hardware_address(name: str) -> str:
    """Returns the address for a bridge of that name, from the range that no maker of devices uses.

    See IEEE 802c: locally administered addresses.
    """
    return bytes([0x02, *hashlib.sha256(name.encode()).digest()[:5]]).hex(":")


def clear(slot: Slot) -> None:
    """Processes, mounts, bridges, network namespaces, cgroups and files of a slot: nothing stays."""
    end_all_below(slot.folder, slot.cgroup)
    for bridge in Path("/sys/class/net").glob(f"{slot.bridge}*"):
        if bridge.name == slot.bridge or bridge.name.startswith(f"{slot.bridge}n"):
            command("ip", "link", "delete", bridge.name)
    remove_cgroups(slot.cgroup)
    command("rm", "-rf", str(slot.folder))


def end_all_below(folder: Path, cgroup: str) -> None:
    """-9 to whatever works in ``folder`` or runs in ``cgroup``, until nothing does; then its mounts go."""
    deadline = time.monotonic() + 30
    while found := {*_working_in(folder), *pids_in(cgroup)}:
        for pid in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if time.monotonic() > deadline:
            raise ServerFailed(f"processes {sorted(found)} of {folder} do not end by SIGKILL")
        time.sleep(0.05)
    # Deepest first.
    for mount in sorted(_mounts_below(folder), reverse=True):
        subprocess.run(["umount", "-l", mount], capture_output=True, check=False)


def pids_in(cgroup: str) -> set[int]:
    """Processes anywhere below a cgroup, in each hierarchy that there is."""
    found: set[int] = set()
    for top in cgroup_folders(cgroup):
        for file in top.rglob("cgroup.procs"):
            with contextlib.suppress(OSError):
                found.update(int(word) for word in file.read_text().split())
    return found


def cgroup_folders(cgroup: str) -> list[Path]:
    """The folder of a cgroup in each hierarchy: one if unified, one per controller in the old layout."""
    return [folder for root in hierarchies() if (folder := root / cgroup).is_dir()]


def hierarchies() -> list[Path]:
    if (CGROUPS / "cgroup.controllers").exists():
        return [CGROUPS]
    return [root for root in sorted(CGROUPS.iterdir()) if (root / "cgroup.procs").exists()]


def remove_cgroups(cgroup: str) -> None:
    for top in cgroup_folders(cgroup):
        for folder in sorted((part for part in top.rglob("*") if part.is_dir()), reverse=True):
            with contextlib.suppress(OSError):
                folder.rmdir()
        with contextlib.suppress(OSError):
            top.rmdir()


def command(*words: str) -> str:
    """Returns what a system command prints. Raises ServerFailed with its words."""
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ServerFailed(f"`{' '.join(words)}` failed with {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def _working_in(folder: Path) -> Iterator[int]:
    """Processes that name the folder in their arguments: containerd, its shims, the kubelet."""
    for process in psutil.process_iter(["pid", "name", "cmdline"]):
        name = process.info["name"] or ""
        if name.startswith(("containerd", "kubelet", "kube-proxy")) and any(
            f"{folder}/" in word for word in process.info["cmdline"] or ()
        ):
            yield process.info["pid"]


def _mounts_below(folder: Path) -> list[str]:
    targets = (line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines())
    return [target for target in targets if target.startswith(f"{folder}/")]
