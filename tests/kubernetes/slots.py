"""Room on this machine for a cluster with nodes: addresses, bridges, folders; leftovers are cleared."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

from tests.kubernetes.caches import cache_folder, locked_if_free
from tests.kubernetes.processes import ServerFailed
from tests.kubernetes.removal import Leftover, remove_all, unmount_below

SLOTS = 8
"""Clusters with nodes that this machine can have at once."""

CGROUPS = Path("/sys/fs/cgroup")

_CONTAINERS: Final = "containerd/state/io.containerd.runtime.v2.task/k8s.io/*"
_LOG_LINKS: Final = Path("/var/log/containers")
_NETWORKS: Final = Path("/var/lib/cni/results")
_RUN: Final = Path("/run/containerd")


@dataclass(frozen=True)
class Slot:
    """Everything that has a fixed name is named after ``number``, so that the next holder can clear it."""

    number: int

    @property
    def folder(self) -> Path:
        return cache_folder("clusters", str(self.number))

    @property
    def lock(self) -> Path:
        """The system releases it when the holder has ended, however that happened."""
        return self.folder.with_suffix(".lock")

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
def claim_slot(numbers: Iterable[int] = range(SLOTS)) -> Iterator[Slot]:
    """A free slot, cleared of what an earlier holder left. Raises ServerFailed if all are held."""
    for slot in map(Slot, numbers):
        with locked_if_free(slot.lock) as is_ours:
            if not is_ours:
                continue
            clear(slot)
            # It comes before everything else, and goes last: without it, nothing of a slot is left.
            slot.folder.mkdir()
            make_bridge(slot.bridge, f"{slot.address}/20")
            try:
                yield slot
            finally:
                clear(slot)
            return
    locks = Slot(0).folder.parent / "*.lock"
    raise ServerFailed(f"{SLOTS} clusters with nodes run already; end one of the processes named in {locks}")


def clear_abandoned(numbers: Iterable[int] = range(SLOTS)) -> list[Leftover]:
    """Clear the slots whose holders were killed; returns what they had left. Raises ServerFailed."""
    found: list[Leftover] = []
    for slot in map(Slot, numbers):
        if slot.folder.exists():
            with locked_if_free(slot.lock) as ours:
                if ours:
                    found += clear(slot)
    return found


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


def clear(slot: Slot) -> list[Leftover]:
    """Processes, mounts, network devices, cgroups and files of a slot: nothing stays. Returns what there was.
    Raises ServerFailed for what does not go."""
    found = end_all_below(slot.folder, slot.cgroup)
    found += remove_all("network device", lambda: _devices(slot), _delete_device)
    found += remove_cgroups(slot.cgroup)
    if serves(slot):
        delete_service_tables()
        found.append(("table of services", slot.service_subnet))
    command("rm", "-rf", str(slot.folder))
    return found


def end_all_below(folder: Path, cgroup: str) -> list[Leftover]:
    """-9 to whatever works in ``folder`` or runs in ``cgroup``, until nothing does; then its mounts go, and
    its files elsewhere. The files in it stay."""
    ended = remove_all("process", lambda: {**_working_in(folder), **_names(pids_in(cgroup))}, _kill)
    unmounted = unmount_below(folder)
    return [*ended, *unmounted, *remove_all("file", lambda: _files_elsewhere(folder), _remove_file)]


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


def remove_cgroups(cgroup: str) -> list[Leftover]:
    def below() -> dict[Path, str]:
        parts = (part for top in cgroup_folders(cgroup) for part in (top, *top.rglob("*")) if part.is_dir())
        # Deepest first.
        return {part: str(part) for part in sorted(parts, reverse=True)}

    return remove_all("cgroup", below, Path.rmdir)


def delete_service_tables() -> None:
    """kube-proxy's, which have fixed names: the caller knows that they are not another cluster's."""
    for family in ("ip", "ip6"):
        subprocess.run(["nft", "delete", "table", family, "kube-proxy"], capture_output=True, check=False)


def serves(slot: Slot) -> bool:
    """Whether the service "kubernetes" of this slot's cluster is in kube-proxy's table: others will be."""
    nft = shutil.which("nft")
    if nft is None:
        return False
    first = slot.service_subnet.replace(".0.0/16", ".0.1")
    listed = subprocess.run(
        [nft, "list", "table", "ip", "kube-proxy"], capture_output=True, text=True, check=False
    )
    return first in listed.stdout


def command(*words: str) -> str:
    """Returns what a system command prints. Raises ServerFailed with its words."""
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ServerFailed(f"`{' '.join(words)}` failed with {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def _files_elsewhere(folder: Path) -> dict[Path, str]:
    """Kubelets, shims and runc write to fixed places, however they are configured: links to logs, and state,
    sockets and addresses by the ids of containers."""
    containers = {path.name: path for deep in ("", "*/") for path in folder.glob(f"{deep}{_CONTAINERS}")}
    found = [
        link
        for link in _LOG_LINKS.glob("*.log")
        if link.is_symlink() and link.readlink().is_relative_to(folder)
    ]
    for container, state in containers.items():
        found += [_RUN / "runc" / "k8s.io" / container, *_NETWORKS.glob(f"*-{container}-*")]
        for answer in (state / "address", state / "bootstrap.json"):
            if answer.exists():
                names = re.findall(rf"{_RUN}/s/(\w+)", answer.read_text())
                found += [_RUN / "s" / name for name in names]
    return {path: str(path) for path in found if path.is_symlink() or path.exists()}


def _remove_file(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()


def _working_in(folder: Path) -> dict[int, str]:
    """Processes that name the folder in their arguments: containerd, its shims, the kubelet."""
    found = {}
    for process in psutil.process_iter(["pid", "name", "cmdline"]):
        name = process.info["name"] or ""
        if name.startswith(("containerd", "kubelet", "kube-proxy")) and any(
            f"{folder}/" in word for word in process.info["cmdline"] or ()
        ):
            found[process.info["pid"]] = name
    return found


def _names(pids: Iterable[int]) -> dict[int, str]:
    found = {}
    for pid in pids:
        with contextlib.suppress(psutil.NoSuchProcess):
            found[pid] = psutil.Process(pid).name()
    return found


def _kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)


def _devices(slot: Slot) -> dict[str, str]:
    """The slot's bridges, and behind each the ends of its pods' cables."""
    links = json.loads(command("ip", "-json", "link", "show"))
    bridges = {name for link in links if re.fullmatch(rf"{slot.bridge}(n\d+)?", name := link["ifname"])}
    cables = [link["ifname"] for link in links if link.get("master") in bridges]
    return {name: name for name in (*cables, *sorted(bridges))}


def _delete_device(name: str) -> None:
    # A cable's end goes with its pod's network, perhaps just now.
    subprocess.run(["ip", "link", "delete", name], capture_output=True, check=False)
