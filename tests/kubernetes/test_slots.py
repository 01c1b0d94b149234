"""Bridges of clusters with nodes keep their hardware addresses."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.network import Network, network
from tests.kubernetes import slots
from tests.kubernetes.nodes import pod_network
from tests.kubernetes.slots import SLOTS, Slot, hardware_address

BRIDGE = "coop0n1"
NETWORK = "10.100.16"


class Bridge:
    """The bridge of a node, in a network of its own instead of this machine's."""

    def __init__(self, network: Network) -> None:
        self.network = network

    def address(self) -> str:
        [link] = json.loads(slots.command("ip", "-json", "link", "show", BRIDGE))
        return link["address"]

    def add_port(self, name: str, address: str) -> None:
        slots.command(
            "ip", "link", "add", name, "address", address, "type", "veth", "peer", "name", f"{name}i"
        )
        slots.command("ip", "link", "set", name, "master", BRIDGE, "up")

    def call_plugin(self, command: str, pod: str, settings: dict[str, object]) -> None:
        """As containerd does when a pod comes (ADD) or goes (DEL)."""
        done = subprocess.run(
            [*self.network.inside, "/usr/lib/cni/bridge"],
            env={
                "CNI_COMMAND": command,
                "CNI_CONTAINERID": pod,
                "CNI_NETNS": f"/var/run/netns/{pod}",
                "CNI_IFNAME": "eth0",
                "CNI_PATH": "/usr/lib/cni",
                "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
            },
            input=json.dumps(settings),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture
def bridge(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bridge]:
    command = slots.command
    with network() as own:
        monkeypatch.setattr(slots, "command", lambda *words: command(*own.inside, *words))
        slots.make_bridge(BRIDGE, f"{NETWORK}.1/20")
        yield Bridge(own)


@pytest.fixture
def pods(bridge: Bridge) -> Iterator[list[str]]:
    """Network namespaces as pods have them."""
    names = [f"{bridge.network.name}p{number}" for number in range(3)]
    made: list[str] = []
    try:
        for name in names:
            subprocess.run(["ip", "netns", "add", name], check=True)
            made.append(name)
        yield made
    finally:
        for name in made:
            subprocess.run(["ip", "netns", "delete", name], check=True)


@pytest.mark.real
def test_a_bridge_keeps_its_address_when_ports_come_and_go(bridge: Bridge) -> None:
    before = bridge.address()
    lower = [f"00:00:00:00:00:0{number}" for number in (3, 2, 1)]
    for number, address in enumerate(lower):
        bridge.add_port(f"port{number}", address)
        assert bridge.address() == before, f"after a port with {address} has come"
    for number, address in reversed(list(enumerate(lower))):
        slots.command("ip", "link", "delete", f"port{number}")
        assert bridge.address() == before, f"after the port with {address} has gone"


@pytest.mark.real
def test_a_bridge_keeps_its_address_when_pods_come_and_go(
    bridge: Bridge, pods: list[str], tmp_path: Path
) -> None:
    whole = json.loads(pod_network(BRIDGE, NETWORK, tmp_path))
    settings = {"cniVersion": whole["cniVersion"], "name": whole["name"], **whole["plugins"][0]}
    before = bridge.address()
    for command in ("ADD", "DEL"):
        for pod in pods:
            bridge.call_plugin(command, pod, settings)
            assert bridge.address() == before, f"after {command} of {pod}"


def test_all_bridges_of_a_machine_have_addresses_of_their_own() -> None:
    bridges = [
        name
        for slot in map(Slot, range(SLOTS))
        for name in (slot.bridge, *map(slot.node_bridge, range(1, 16)))
    ]
    addresses = {name: bytes.fromhex(hardware_address(name).replace(":", "")) for name in bridges}
    assert len(set(addresses.values())) == len(bridges)
    # IEEE 802: the lowest bit of the first byte is of groups, the next one of addresses that we give.
    assert {address[0] & 0b11 for address in addresses.values()} == {0b10}
    assert {len(address) for address in addresses.values()} == {6}
