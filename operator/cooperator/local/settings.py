"""The configuration of a one-node broker: few threads, little memory, no replication."""

import random
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from cooperator.connect.properties import properties_text

HOST: Final = "127.0.0.1"
DATA: Final = "data"
LOG: Final = "broker.log"

JVM_FLAGS: Final = (
    "-Xms64m",
    "-Xmx256m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:+ExitOnOutOfMemoryError",
    "-Djava.awt.headless=true",
)

_ONE_NODE: Final = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "default.replication.factor": "1",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    # The default of 3 s delays the first round of every group.
    "group.initial.rebalance.delay.ms": "0",
    # The default of 6 s is too long for tests that wait for a dead member.
    "group.min.session.timeout.ms": "1000",
    # After a crash the controller refuses the restarted broker until its old session has ended (9 s by
    # default).
    "broker.session.timeout.ms": "2500",
    "broker.heartbeat.interval.ms": "500",
    "num.network.threads": "2",
    "num.io.threads": "4",
    "background.threads": "2",
    "log.cleaner.threads": "1",
    # The default is 128 MB, half of the heap.
    "log.cleaner.dedupe.buffer.size": "8388608",
    "log.cleaner.io.buffer.size": "131072",
}


def server_properties(port: int, controller_port: int, overrides: Mapping[str, str]) -> str:
    """Returns the text of ``server.properties``. ``overrides`` have precedence."""
    settings = {
        **_ONE_NODE,
        "listeners": f"PLAINTEXT://{HOST}:{port},CONTROLLER://{HOST}:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://{HOST}:{port}",
        "controller.quorum.voters": f"1@{HOST}:{controller_port}",
        # Relative to the broker's directory, in which it runs: this is a list, separated by commas.
        "log.dirs": DATA,
        **overrides,
    }
    return properties_text(settings)


def log4j_properties() -> str:
    """Returns the broker's logging settings: at most 2 files of 10 MB, nothing on the console."""
    return (
        "status = error\n"
        "appender.file.type = RollingFile\n"
        "appender.file.name = file\n"
        # Relative to the broker's directory, in which it runs: these are patterns.
        f"appender.file.fileName = {LOG}\n"
        f"appender.file.filePattern = {LOG}.%i\n"
        "appender.file.layout.type = PatternLayout\n"
        "appender.file.layout.pattern = %d %-5p [%t] %c{1}: %m%n\n"
        "appender.file.policies.type = Policies\n"
        "appender.file.policies.size.type = SizeBasedTriggeringPolicy\n"
        "appender.file.policies.size.size = 10MB\n"
        "appender.file.strategy.type = DefaultRolloverStrategy\n"
        "appender.file.strategy.max = 1\n"
        "rootLogger.level = info\n"
        "rootLogger.appenderRef.file.ref = file\n"
        # It logs the whole configuration of each client and of the broker at every start.
        "logger.config.name = org.apache.kafka.common.config.AbstractConfig\n"
        "logger.config.level = warn\n"
    )


_given: Final[set[int]] = set()


def free_port() -> int:
    """Returns an unused port, below the range from which the system takes ports for connections, and never
    the same one twice: a caller may need two before it listens on either.

    In that range a client that keeps trying to reach a broker that is down would, sooner or later, be
    connected from that very port to itself, and keep it from the broker.
    """
    try:
        first_ephemeral = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        first_ephemeral = 32_768
    for port in random.sample(range(first_ephemeral // 2, first_ephemeral), k=100):
        if port not in _given and not port_taken(port):
            _given.add(port)
            return port
    raise OSError(f"no free port found below {first_ephemeral} on {HOST}")


def port_taken(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return True
    return False
