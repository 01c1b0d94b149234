"""Brings the cluster of a state directory up and down."""

import shutil
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import asdict, replace
from typing import Final, Protocol

from cooperator.artifacts import find_java, resolve
from cooperator.host.pool_step import HALT_KILL_MS
from cooperator.local import processes
from cooperator.local.broker import EmbeddedBroker
from cooperator.local.daemon import await_host_end, end_host, host_pid, make_token, start_host
from cooperator.local.layout import (
    ClusterError,
    LocalCluster,
    StateDir,
    StorageError,
    read_cluster,
    write_json,
    writing,
)
from cooperator.local.members import read_incarnations
from cooperator.local.probe import answers_metadata
from cooperator.model.extras import Extra, require

_REACH_S: Final = 6.0
"""Less than 10 s, within which `up` must report an unreachable broker."""
_HALT_S: Final = HALT_KILL_MS / 1000 + 15


class ProgressOutput(Protocol):
    """The output for progress."""

    def step(self, text: str) -> AbstractContextManager[Callable[[str], None]]:
        """Shows a step that takes time; call the yielded function with details."""

    def say(self, text: str) -> None: ...


def bring_up(state: StateDir, bootstrap_servers: str | None, console: ProgressOutput) -> None:
    """Starts the broker (unless ``bootstrap_servers`` names one) and the daemon, where they do not run.

    Raises ``NotInstalled``, ``ClusterError``, ``BrokerError``, ``HostFailed``, ``ArtifactError``. When the
    named broker cannot be reached, the daemon runs all the same, and keeps trying.
    """
    require(Extra.SPARK, "`cooperator local up`")
    if bootstrap_servers is not None:
        _check(bootstrap_servers)
    with writing(state.root):
        state.root.mkdir(parents=True, exist_ok=True)
        state.root.chmod(0o700)
    cluster = _settle(state, bootstrap_servers)
    with console.step("Java and its libraries") as detail:
        detail(str(find_java()))
        # Members need it; here users can watch the download.
        for bundle in ("spark-kafka", "postgresql"):
            resolve(bundle, detail)
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
        make_token(state)
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


def bring_down(state: StateDir, console: ProgressOutput) -> None:
    """Stops members, leaders, daemon and broker; their files stay. It is idempotent."""
    cluster = read_cluster(state)
    if cluster is None:
        return
    pid = host_pid(state)
    try:
        write_json(state.cluster, asdict(replace(cluster, down=True)))
    except StorageError as error:
        # The daemon is not asked: it must write, too. `down --delete` may be the way to get space.
        console.say(f"members are killed instead of being asked to end, since {error}")
        halt_s = 0.0
    else:
        halt_s = _HALT_S
    if pid is not None:
        with console.step("members and leaders"):
            # The daemon ends when it has brought down everything else.
            if not await_host_end(pid, state, halt_s):
                end_host(pid, state)
    _kill_left_over(state)
    if cluster.bootstrap_servers is None:
        with console.step("Kafka broker"):
            EmbeddedBroker(state.broker, detached=True).stop()


def kill_everything(state: StateDir) -> None:
    """Ends all processes of the directory at once, as a crash would."""
    pid = host_pid(state)
    if pid is not None:
        end_host(pid, state, timeout_s=0)
    _kill_left_over(state)
    EmbeddedBroker(state.broker, detached=True).kill()


def delete_state(state: StateDir) -> None:
    """Removes the directory, but only one that ``bring_up`` made."""
    if read_cluster(state) is None:
        raise ClusterError(f"{state.root} is no state directory of cooperator: nothing was removed")
    shutil.rmtree(state.root)


def _settle(state: StateDir, bootstrap_servers: str | None) -> LocalCluster:
    """Stores and returns the cluster's new settings. A daemon with other settings is ended."""
    known = read_cluster(state)
    cluster = known or LocalCluster(f"local-{uuid.uuid4().hex[:12]}", bootstrap_servers)
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
    """Kills members that the daemon, if there was one, did not bring down."""
    for members in state.workers.glob("*/members"):
        for process in read_incarnations(members):
            processes.kill_all(process.incarnation)


def _answers(servers: str) -> bool:
    """Whether one of the servers answers within 10 s."""
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
