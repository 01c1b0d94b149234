"""The contenders. Each is one cluster of members on a broker, used through Kafka Connect's REST API."""

import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from benchmarks.clusters.front import Front
from benchmarks.clusters.timeline import Follower
from cooperator.group import GroupState, describe_group
from cooperator.local import processes
from tests.harness.connect_worker import ConnectWorker
from tests.harness.member_group import MemberGroup, MemberProcess
from tests.harness.support import eventually
from tests.rest.client import Client

START_S: Final = 240.0
_AGAIN_S: Final = 0.05
_BUSY: Final = (409, 500, 503)
"""A worker that rebalances answers 409; users repeat the request."""


@dataclass(frozen=True)
class Load:
    """The conditions that all contenders of a run share.

    ``start_ms`` and ``stop_ms`` are what a light task of ours waits as it starts and stops, to cost the time
    of a Connect task's; tasks of stock workers are real source tasks without records. ``delay_ms`` is
    scheduled.rebalance.max.delay.ms.
    """

    workers: int = 3
    heartbeat_ms: int = 1_000
    session_ms: int = 10_000
    delay_ms: int = 300_000
    start_ms: int = 50
    stop_ms: int = 50
    heap_mb: int = 768
    limit_s: float = 1_800.0


class Cluster(ABC):
    """One contender. ``start`` first, ``stop`` at the end, whatever happened."""

    def __init__(self, name: str, servers: str, directory: Path, load: Load) -> None:
        self.name = name
        self.servers = servers
        self.directory = directory
        self.load = load
        self.group_id = f"article-{uuid.uuid4().hex[:8]}"
        self.journal = Follower(directory / "journal.jsonl")
        directory.mkdir(parents=True, exist_ok=True)

    # --- what each contender does in its own way ---

    @abstractmethod
    def start(self) -> None:
        """Start all members; returns when they are in the group and requests are served."""

    @abstractmethod
    def stop(self) -> None: ...

    @abstractmethod
    def client(self) -> Client: ...

    @abstractmethod
    def config(self, tasks: int) -> dict[str, Any]:
        """The configuration of a connector of light tasks."""

    @abstractmethod
    def add(self, identity: str) -> None:
        """Start a member; does not wait."""

    @abstractmethod
    def kill(self, identity: str) -> None:
        """End a member by SIGKILL; the host (if there is one) knows of its end, and expects it back."""

    @abstractmethod
    def depart(self, *identities: str) -> None:
        """End members in order (SIGTERM), for good; returns when they are gone.

        A host that has members leave names all of them at once; without one they leave one after the other.
        """

    @abstractmethod
    def bounce(self, identity: str) -> None:
        """End a member in order (SIGTERM), to be started again."""

    @abstractmethod
    def lost(self, identity: str) -> None:
        """A killed member stays away for good, and the host, if there is one, knows it from now on."""

    # --- what is the same for all ---

    def create(self, name: str, tasks: int) -> None:
        self.submit(name, self.config(tasks))

    def submit(self, name: str, config: Mapping[str, Any]) -> None:
        """Create a connector with a configuration of its own."""
        self._repeat("POST /connectors", {"name": name, "config": config}, 201)

    def change(self, name: str, config: Mapping[str, Any]) -> None:
        """Create a connector with a configuration of its own, or change it."""
        self._repeat(f"PUT /connectors/{name}/config", config, 200, 201)

    def delete(self, name: str) -> None:
        # The answer to the request before may be lost.
        self._repeat(f"DELETE /connectors/{name}", None, 204, 404)

    def _repeat(self, line: str, body: Any, *codes: int) -> None:
        deadline = time.monotonic() + self.load.limit_s
        while True:
            status, answer = 503, "no answer"
            with suppress(OSError):
                status, answer = self.client().send(line, body)
            if status in codes:
                return
            if status not in _BUSY or time.monotonic() > deadline:
                raise RuntimeError(f"{self.name}: {line} was answered by {status}: {answer}")
            time.sleep(_AGAIN_S)

    def runs(self, tasks: set[str]) -> None:
        """Wait until exactly ``tasks`` run, as the members' journal says."""

        def seen() -> bool:
            running = self.journal.poll().tasks()
            assert running == tasks, f"{len(running & tasks)} of {len(tasks)}, {len(running - tasks)} others"
            return True

        eventually(seen, self.load.limit_s, f"{self.name}: {len(tasks)} tasks run")

    def gathered(self, workers: int) -> None:
        """Wait until so many workers are in the group."""
        leaders = 0 if type(self) is StockWorkers else 1
        eventually(lambda: self._joined(workers + leaders), START_S, f"{workers} workers are in the group")

    def _joined(self, members: int) -> bool:
        group = describe_group(self.servers, self.group_id)
        return group.state is GroupState.STABLE and len(group.members) == members


class StockWorkers(Cluster):
    """Kafka Connect's own workers, led by one of them."""

    def __init__(self, name: str, servers: str, directory: Path, load: Load, protocol: str) -> None:
        super().__init__(name, servers, directory, load)
        self.protocol = protocol
        self._workers: dict[str, ConnectWorker] = {}

    def start(self) -> None:
        for number in range(self.load.workers):
            self.add(f"lake-{number}")
            if number == 0:
                # The first one creates the topics.
                self._workers["lake-0"].serves(START_S)
        for worker in self._workers.values():
            worker.serves(START_S)
        eventually(lambda: self._joined(self.load.workers), START_S, "all workers are in the group")

    def stop(self) -> None:
        for worker in self._workers.values():
            worker.kill()

    def client(self) -> Client:
        living = [w for w in [*self._workers.values()] if w.child is not None and w.child.poll() is None]
        return Client(f"http://{living[0].address}")

    def config(self, tasks: int) -> dict[str, Any]:
        return {
            "connector.class": "cooperator.stock.SequenceSource",
            "tasks.max": str(tasks),
            "topic": f"{self.group_id}-records",
            "rate": "0",
            "journal": str(self.journal.path),
        }

    def add(self, identity: str) -> None:
        worker = self._workers.get(identity)
        if worker is None:
            worker = self._workers[identity] = ConnectWorker(
                self.servers,
                self.group_id,
                self.directory,
                identity=identity,
                protocol=self.protocol,
                heap_mb=self.load.heap_mb,
                settings={
                    "heartbeat.interval.ms": self.load.heartbeat_ms,
                    "session.timeout.ms": self.load.session_ms,
                    "scheduled.rebalance.max.delay.ms": self.load.delay_ms,
                },
            )
        worker.start()

    def kill(self, identity: str) -> None:
        worker = self._workers[identity]
        worker.kill()
        self.journal.ended(worker.incarnation, _now_ms())

    def depart(self, *identities: str) -> None:
        for identity in identities:
            self.bounce(identity)
            del self._workers[identity]

    def lost(self, identity: str) -> None:
        del self._workers[identity]

    def bounce(self, identity: str) -> None:
        worker = self._workers[identity]
        worker.terminate()
        assert worker.child is not None
        worker.child.wait(self.load.limit_s)
        self.journal.ended(worker.incarnation, _now_ms())


class Led(StockWorkers):
    """Kafka Connect's workers, led by this project."""

    def __init__(self, name: str, servers: str, directory: Path, load: Load) -> None:
        super().__init__(name, servers, directory, load, protocol="sessioned")
        self._ended: list[tuple[str, str]] = []
        self.front = Front(servers, directory, {**_spec(self), "runtime": "connect", "fencing": "BestEffort"})

    def start(self) -> None:
        self.front.expect(*(f"lake-{number}" for number in range(self.load.workers)))
        self.front.start()
        for number in range(self.load.workers):
            self.add(f"lake-{number}")
        for worker in self._workers.values():
            worker.serves(START_S)
        eventually(lambda: self._joined(self.load.workers + 1), START_S, "all workers are in the group")
        _await_front(self.front)

    def stop(self) -> None:
        self.front.kill()
        super().stop()

    def client(self) -> Client:
        return self.front.client

    def add(self, identity: str) -> None:
        super().add(identity)
        self.front.expect(identity)

    def kill(self, identity: str) -> None:
        ended = self._incarnations(identity)
        super().kill(identity)
        self._know_end(ended)

    def depart(self, *identities: str) -> None:
        self.front.let_go(*identities)
        for identity in identities:
            ended = self._incarnations(identity)
            # The operator ends a pod when its tasks are elsewhere.
            eventually(partial(self._is_empty, identity), self.load.limit_s)
            super().bounce(identity)
            del self._workers[identity]
            self._know_end(ended)
        self.front.know(leaving=[])

    def lost(self, identity: str) -> None:
        super().lost(identity)
        self.front.let_go(identity)
        self.front.know(leaving=[])

    def bounce(self, identity: str) -> None:
        ended = self._incarnations(identity)
        self.front.know(returning=[identity])
        super().bounce(identity)
        self._know_end(ended)

    def _is_empty(self, identity: str) -> bool:
        return not self.journal.poll().tasks(identity)

    def _incarnations(self, identity: str) -> list[tuple[str, str]]:
        members = describe_group(self.servers, self.group_id).members
        return [(identity, each.member_id) for each in members if each.client_id == identity]

    def _know_end(self, ended: list[tuple[str, str]]) -> None:
        self._ended += ended
        self.front.know(ended=self._ended)


class Own(Cluster):
    """This project's members under one of its policies; without Spark unless ``runtime`` is ``spark``."""

    def __init__(
        self,
        name: str,
        servers: str,
        directory: Path,
        load: Load,
        policy: str,
        runtime: str = "inline",
        protocol: str = "sessioned",
    ) -> None:
        super().__init__(name, servers, directory, load)
        self._options: dict[str, Any] = {"runtime": runtime}
        if policy == "Kip415":
            # Kafka's rules move nothing away from a member that departs: it would run on until this time-out.
            self._options["drain_timeout_ms"] = "1"
        self._group = MemberGroup(servers, directory, self.group_id)
        self._members: dict[str, MemberProcess] = {}
        self.front = Front(servers, directory, {**_spec(self), "policy": policy, "protocol": protocol})

    def start(self) -> None:
        self.front.expect(*(f"lake-{number}" for number in range(self.load.workers)))
        self.front.start()
        for number in range(self.load.workers):
            self.add(f"lake-{number}")
        eventually(lambda: self._joined(self.load.workers + 1), START_S, "all members are in the group")
        _await_front(self.front)

    def stop(self) -> None:
        self.front.kill()
        for member in self._members.values():
            if member.child.poll() is None or processes.marked(member.incarnation):
                member.kill()

    def client(self) -> Client:
        return self.front.client

    def config(self, tasks: int) -> dict[str, Any]:
        return {
            "connector.class": "noop",
            "tasks.max": str(tasks),
            "units": str(tasks),
            "journal": str(self.journal.path),
            "start.delay.ms": str(self.load.start_ms),
            "stop.delay.ms": str(self.load.stop_ms),
        }

    def add(self, identity: str) -> None:
        self._members[identity] = self._group.member(
            identity,
            heartbeat_interval_ms=str(self.load.heartbeat_ms),
            session_timeout_ms=str(self.load.session_ms),
            **self._options,
        )
        self.front.expect(identity)

    def kill(self, identity: str) -> None:
        self._members[identity].kill()
        self._know_end(self._members[identity])

    def depart(self, *identities: str) -> None:
        members = [self._members.pop(identity) for identity in identities]
        self.front.let_go(*identities)
        for member in members:
            member.terminate()
        for member in members:
            self._gone(member)
        self.front.know(leaving=[])

    def lost(self, identity: str) -> None:
        del self._members[identity]
        self.front.let_go(identity)
        self.front.know(leaving=[])

    def bounce(self, identity: str) -> None:
        self.front.know(returning=[identity])
        self._end(self._members[identity])

    def _end(self, member: MemberProcess) -> None:
        member.terminate()
        self._gone(member)

    def _gone(self, member: MemberProcess) -> None:
        member.child.wait(self.load.limit_s)
        member.wait_ended()
        self._know_end(member)

    def _know_end(self, member: MemberProcess) -> None:
        self.journal.ended(member.incarnation, _now_ms())
        self.front.know(ended=sorted(self._group.ended))


def _spec(cluster: Cluster) -> dict[str, Any]:
    load = cluster.load
    return {
        "groupId": cluster.group_id,
        "replicas": load.workers,
        "heartbeatIntervalMs": load.heartbeat_ms,
        "sessionTimeoutMs": load.session_ms,
        "scheduledRebalanceMaxDelayMs": load.delay_ms,
    }


def _await_front(front: Front) -> None:
    eventually(lambda: front.client("GET /connectors") == [], START_S, "the REST API answers")


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


CONTENDERS: Final[Mapping[str, Callable[[str, str, Path, Load], Cluster]]] = {
    "stock eager": partial(StockWorkers, protocol="eager"),
    "stock sessioned": partial(StockWorkers, protocol="sessioned"),
    "stock led": Led,
    "Eager": partial(Own, policy="Eager"),
    "Kip415": partial(Own, policy="Kip415"),
    "Default": partial(Own, policy="Default"),
    "without rounds": partial(Own, policy="Default", protocol="auto"),
}
"""By name; each takes its name, the bootstrap servers, a directory and the load."""
