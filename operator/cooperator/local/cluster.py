"""A state directory's cluster: brought up, brought down, and what stays the same in between."""

import shutil
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, replace
from typing import Final, Protocol

from cooperator.artifacts import find_java, resolve
from cooperator.local import processes
from cooperator.local.broker import EmbeddedBroker
from cooperator.local.daemon import await_host_end, end_host, host_pid, start_host
from cooperator.local.layout import StateDir, read_json, write_json
from cooperator.local.members import read_lives
from cooperator.local.pool_loop import HALT_KILL_MS
from cooperator.local.probe import answers_metadata

_REACH_S: Final = 6.0
"""An unreachable broker is said within 10 s of the command."""
_HALT_S: Final = HALT_KILL_MS / 1000 + 15


class ClusterError(Exception):
    """What was asked for cannot be done; the text says why, and what can be done."""


class Console(Protocol):
    """Where progress goes."""

    def step(self, text: str) -> AbstractContextManager[Callable[[str], None]]:
        """Something that takes its time; the value is called with details."""

    def say(self, text: str) -> None: ...


@dataclass(frozen=True, slots=True)
class Cluster:
    """What belongs to a state directory for good.

    ``id``: part of the groups' owner, so that two directories never lead one group. ``bootstrap_servers``:
    None for the embedded broker. ``down``: everything was brought down, or is being.
    """

    id: str
    bootstrap_servers: str | None = None
    down: bool = False


def read_cluster(state: StateDir) -> Cluster | None:
    value = read_json(state.cluster)
    return Cluster(**value) if value is not None else None


def bring_up(state: StateDir, bootstrap_servers: str | None, console: Console) -> None:
    """Start what does not run: broker (unless ``bootstrap_servers`` names one) and daemon.

    Raises ClusterError, BrokerError, HostFailed, ArtifactError. When the broker named cannot be reached,
    the daemon runs all the same, and goes on trying.
    """
    if bootstrap_servers is not None:
        _check(bootstrap_servers)
    state.root.mkdir(parents=True, exist_ok=True)
    state.root.chmod(0o700)
    cluster = _settle(state, bootstrap_servers)
    with console.step("Java and its libraries") as detail:
        detail(str(find_java()))
        # Members need it; here its download can be watched.
        resolve("spark-kafka", detail)
        if cluster.bootstrap_servers is None:
            resolve("kafka", detail)
    if cluster.bootstrap_servers is None:
        broker = EmbeddedBroker(state.broker, detached=True)
        with console.step("Kafka broker") as detail:
            broker.start()
            detail(broker.bootstrap_servers)
    unreachable = cluster.bootstrap_servers is not None and not _answers(cluster.bootstrap_servers)
    if unreachable:
        console.say(
            f"Kafka at {cluster.bootstrap_servers} does not answer; the host daemon will go on trying"
        )
    with console.step("host daemon") as detail:
        pid = host_pid(state)
        if pid is None:
            start_host(state)
            pid = host_pid(state)
        detail(f"process {pid}")
    if unreachable:
        raise ClusterError(
            f"Kafka at {cluster.bootstrap_servers} did not answer: start that broker, or repeat `up` with "
            "the right --bootstrap-servers"
        )


def bring_down(state: StateDir, console: Console) -> None:
    """Stop members, leaders, daemon and broker; what they have written stays. Does nothing twice."""
    cluster = read_cluster(state)
    if cluster is None:
        return
    write_json(state.cluster, asdict(replace(cluster, down=True)))
    pid = host_pid(state)
    if pid is not None:
        with console.step("members and leaders"):
            # The daemon ends when it has brought down everything else.
            if not await_host_end(pid, state, _HALT_S):
                end_host(pid, state)
    _kill_left_over(state)
    if cluster.bootstrap_servers is None:
        with console.step("Kafka broker"):
            EmbeddedBroker(state.broker, detached=True).stop()


def kill_everything(state: StateDir) -> None:
    """End all processes of the directory at once, as a crash would."""
    pid = host_pid(state)
    if pid is not None:
        end_host(pid, state, timeout_s=0)
    _kill_left_over(state)
    EmbeddedBroker(state.broker, detached=True).kill()


def delete_state(state: StateDir) -> None:
    """Remove the directory. Only what ``bring_up`` made is removed: never a directory of somebody else."""
    if read_cluster(state) is None:
        raise ClusterError(f"{state.root} is no state directory of cooperator: nothing was removed")
    shutil.rmtree(state.root)


def _settle(state: StateDir, bootstrap_servers: str | None) -> Cluster:
    """The cluster as it is to be now, written down. A daemon that knows it differently is ended."""
    known = read_cluster(state)
    cluster = known or Cluster(f"local-{uuid.uuid4().hex[:12]}", bootstrap_servers)
    if bootstrap_servers is not None and bootstrap_servers != cluster.bootstrap_servers:
        if any(state.workers.glob("*/worker.yaml")):
            raise ClusterError(
                f"{state.root} belongs to {cluster.bootstrap_servers or 'its embedded broker'}, and the "
                "checkpoints in it are positions in that broker's topics. Use another --state-dir, or remove "
                "this one by `cooperator local down --delete`"
            )
        cluster = replace(cluster, bootstrap_servers=bootstrap_servers)
        pid = host_pid(state)
        if pid is not None:
            end_host(pid, state)
    write_json(state.cluster, asdict(replace(cluster, down=False)))
    return cluster


def _kill_left_over(state: StateDir) -> None:
    """Members that the daemon, if there was one, did not bring down."""
    for members in state.workers.glob("*/members"):
        for life in read_lives(members):
            processes.kill_all(life.incarnation)


def _answers(servers: str) -> bool:
    """Whether one of the servers answers; within 10 s."""
    addresses = [server.strip().rpartition(":") for server in servers.split(",")]
    with ThreadPoolExecutor(max_workers=len(addresses)) as pool:
        return any(pool.map(lambda a: answers_metadata(a[0].strip("[]"), int(a[2]), _REACH_S), addresses))


def _check(servers: str) -> None:
    for server in servers.split(","):
        host, _, port = server.strip().rpartition(":")
        if not host or not port.isdecimal() or not 0 < int(port) < 65_536:
            raise ClusterError(
                f"--bootstrap-servers: {server.strip()!r} is not host:port; write host1:port1,host2:port2"
            )
