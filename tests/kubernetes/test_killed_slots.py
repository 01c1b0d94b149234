"""A slot whose holder was killed is cleared by the next run, which knows what was left.

Networks and mounts are this test's own, as long as its processes live; control groups are the machine's,
under the name of a slot that no cluster takes. No cluster runs in it: these are the things that one makes.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.kubernetes.slots import SLOTS, Slot, cgroup_folders

ROOT = Path(__file__).parents[2]
SLOT = Slot(90)

HOLDS = """
import subprocess, sys
from pathlib import Path
from tests.kubernetes.slots import claim_slot, command, hierarchies, make_bridge

with claim_slot([int(sys.argv[1])]) as slot:
    make_bridge(slot.node_bridge(1), f"{slot.node_network(1)}.1/20")
    command("ip", "link", "add", "cable", "type", "veth", "peer", "name", "inside")
    command("ip", "link", "set", "cable", "master", slot.node_bridge(1))
    volumes = slot.folder / "node1" / "volumes"
    for folder in (volumes, volumes / "inner"):
        folder.mkdir(parents=True)
        command("mount", "-t", "tmpfs", "tmpfs", str(folder))
    state = slot.folder / "node1/containerd/state/io.containerd.runtime.v2.task/k8s.io/c0ffee"
    elsewhere = (
        "/run/containerd/s/50c4e7",
        "/run/containerd/runc/k8s.io/c0ffee/state.json",
        "/var/lib/cni/results/pods-c0ffee-eth0",
    )
    of_others = (each.replace("c0ffee", "f00d") for each in elsewhere)
    for path in map(Path, (*elsewhere, *of_others, state / "address")):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("unix:///run/containerd/s/50c4e7")
    links = Path("/var/log/containers")
    links.mkdir()
    (links / "ours.log").symlink_to(slot.folder / "node1" / "pod-logs" / "0.log")
    (links / "theirs.log").symlink_to("/var/log/pods/0.log")
    # Neither its environment nor its arguments name the tests: a container.
    container = subprocess.Popen(["sleep", "60"], env={}, start_new_session=True, stdout=subprocess.DEVNULL)
    for root in hierarchies():
        group = root / slot.cgroup / "node1"
        group.mkdir(parents=True)
        if not (group / "cpuset.cpus").exists():
            (group / "cgroup.procs").write_text(str(container.pid))
    print("holds", flush=True)
    sys.stdin.read()
"""
KILLS = """
import json, subprocess, sys
from pathlib import Path
from tests.harness.leftovers import describe
from tests.kubernetes.slots import Slot, clear_abandoned, command

number = int(sys.argv[2])
for folder in ("/run", "/var/lib", "/var/log"):
    command("mount", "-t", "tmpfs", "tmpfs", folder)
command_line = [sys.executable, "-c", sys.argv[1], sys.argv[2]]
with subprocess.Popen(command_line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
    assert holder.stdout.readline() == "holds\\n"
    print("held:", describe(clear_abandoned([number])))
    holder.kill()
print("killed:", describe(clear_abandoned([number])))
print("cleared:", describe(clear_abandoned([number])))
files = (path for top in ("/run", "/var/lib", "/var/log") for path in sorted(Path(top).rglob("*")))
print("files:", *(path for path in files if path.is_symlink() or path.is_file()))
print("links:", *(link["ifname"] for link in json.loads(command("ip", "-json", "link"))))
print("mounts:", *(line for line in open("/proc/self/mounts") if "volumes" in line))
"""


def test_the_slot_of_a_killed_holder_is_cleared(tmp_path: Path) -> None:
    assert SLOT.number not in range(SLOTS)
    assert os.geteuid() == 0, "run it as root: it makes bridges, mounts and control groups"

    done = subprocess.run(
        ["unshare", "--net", "--mount", sys.executable, "-c", KILLS, HOLDS, str(SLOT.number)],
        cwd=ROOT,
        env={**os.environ, "XDG_CACHE_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    said = {
        name: text.strip() for name, _, text in (line.partition(":") for line in done.stdout.splitlines())
    }
    assert said["held"] == said["cleared"] == said["mounts"] == ""
    assert said["killed"].startswith(
        "cleaned up after a killed test run: 1 process (sleep), 2 mounts, 4 files, 3 network devices, "
    )
    assert said["files"].split() == [
        "/run/containerd/runc/k8s.io/f00d/state.json",
        "/var/lib/cni/results/pods-f00d-eth0",
        "/var/log/containers/theirs.log",
    ]
    assert "coop90" not in said["links"]
    assert "cable" not in said["links"]
    assert cgroup_folders(SLOT.cgroup) == []
    assert list((tmp_path / "cooperator" / "clusters").iterdir()) == [
        tmp_path / "cooperator/clusters/90.lock"
    ]
