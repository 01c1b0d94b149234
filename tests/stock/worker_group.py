"""A group of stock Connect workers on a real broker, with or without our leader.

The connectors in the workers write a journal of where they run.
"""

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from cooperator.group import GroupState, describe_group
from cooperator.leader.ownership import GroupPolicy
from cooperator.leader.service import LeaderService
from cooperator.leader.tls import ServerCertificates
from cooperator.model import Desired, DesiredConnector, TargetState
from cooperator.planner.view import Facts
from cooperator.wire import decode_assignment
from tests.harness.connect_worker import ConnectWorker
from tests.harness.journal import Journal, Run
from tests.harness.leader_process import settings_of
from tests.harness.support import eventually

HOLD_MS: Final = 20_000
POLICY: Final = {"scheduled_rebalance_max_delay_ms": HOLD_MS, "lease_ms": 40_000, "join_wait_ms": 1_000}
PATIENT: Final = {**POLICY, "scheduled_rebalance_max_delay_ms": 180_000}
"""A delay that no restart exceeds, however slow the machine is."""
PACKAGE: Final = "cooperator.stock."
LIMIT_S: Final = 150.0
"""The timeout of every wait; on a busy machine most of it is waiting for the processor."""


def is_instance(task: str) -> bool:
    return task.endswith("-instance")


@dataclass
class StockGroup:
    """One group. ``may_double`` is for tests of workers that Kafka itself cannot keep from running a task
    twice."""

    bootstrap_servers: str
    directory: Path
    group_id: str
    workers: dict[str, ConnectWorker] = field(default_factory=dict)
    leaders: list[LeaderService] = field(default_factory=list)
    ended: set[tuple[str, str]] = field(default_factory=set)
    may_double: bool = False
    revision: int = 0
    journal: Journal = field(init=False)

    def __post_init__(self) -> None:
        self.journal = Journal(self.directory / "journal.jsonl")

    # --- connectors ---

    def source(self, name: str, tasks: int = 2, rate: int = 20, **more: str) -> dict[str, str]:
        """A source of consecutive numbers; each task writes to a topic named after the connector."""
        return self._connector(name, "SequenceSource", tasks, topic=self.topic(name), rate=str(rate), **more)

    def sink(self, name: str, topic: str, tasks: int = 1, **more: str) -> dict[str, str]:
        """A sink of ``topic``, which writes a file for each incarnation of a task."""
        into = self.directory / "into"
        into.mkdir(exist_ok=True)
        return self._connector(name, "SequenceSink", tasks, topics=topic, into=str(into), **more)

    def blocking(self, kind: str, name: str, tasks: int = 1, **more: str) -> dict[str, str]:
        """``kind`` is Source or Sink. ``hangs`` sets where it hangs."""
        return self._connector(name, f"Blocking{kind}", tasks, **more)

    def _connector(self, name: str, kind: str, tasks: int, **more: str) -> dict[str, str]:
        given = {"connector.class": PACKAGE + kind, "tasks.max": str(tasks), **more}
        # The configuration given by REST, with Connect's own additions, must equal the one given to our
        # leader.
        return {"name": name, "journal": str(self.journal.path), **given}

    def topic(self, name: str) -> str:
        return f"{self.group_id}.{name}"

    def make_topic(self, name: str) -> str:
        """Creates a topic before anything writes to it."""
        topic = self.topic(name)
        admin = AdminClient({"bootstrap.servers": self.bootstrap_servers, "log_level": 0})
        admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(30)
        return topic

    # --- workers ---

    def worker(self, identity: str, **options: Any) -> ConnectWorker:
        """Starts a worker; does not wait."""
        worker = ConnectWorker(
            self.bootstrap_servers, self.group_id, self.directory, identity=identity, **options
        )
        self.workers[identity] = worker
        worker.start()
        return worker

    def cluster(self, *identities: str, **options: Any) -> list[ConnectWorker]:
        """Starts workers that lead themselves, one after another, since the first one creates the topics."""
        workers = []
        for identity in identities:
            workers.append(self.worker(identity, **options))
            workers[-1].serves()
        return workers

    def kill(self, identity: str) -> set[str]:
        """Sends SIGKILL; returns the tasks that ran there."""
        return self._end(identity, ConnectWorker.kill)

    def stop(self, identity: str) -> set[str]:
        """Sends SIGTERM and waits for the end."""

        def stop(worker: ConnectWorker) -> None:
            worker.terminate()
            assert worker.child is not None
            worker.child.wait(LIMIT_S)

        return self._end(identity, stop)

    def _end(self, identity: str, end: Callable[[ConnectWorker], None]) -> set[str]:
        worker = self.workers[identity]
        ran = self.journal.running_at(identity)
        incarnations = self.incarnations(identity)
        end(worker)
        self.journal.ended[worker.incarnation] = now_ms()
        self.ended |= {(identity, incarnation) for incarnation in incarnations}
        return ran

    def incarnations(self, identity: str) -> set[str]:
        """The identity's present member ids."""
        members = describe_group(self.bootstrap_servers, self.group_id).members
        return {member.member_id for member in members if member.client_id == identity}

    def again(self, identity: str, **changes: Any) -> None:
        """Starts a new incarnation of the identity, with other options if any are given."""
        self.workers[identity] = replace(self.workers[identity], **changes)
        self.workers[identity].start()

    # --- our leader ---

    def leader(
        self,
        connectors: Mapping[str, Mapping[str, str]],
        expected: Sequence[str] = (),
        adopt: bool = False,
        exactly_once: bool = False,
        policy: Mapping[str, Any] = POLICY,
        tls: ServerCertificates | None = None,
        **said: Any,
    ) -> LeaderService:
        """Starts our leader, which expects the members ``expected``."""
        given = {"bootstrap_servers": self.bootstrap_servers, "group_id": self.group_id, "policy": policy}
        settings = settings_of({**given, **said})
        policy_of_group = GroupPolicy.ADOPT if adopt else GroupPolicy.CREATE
        service = LeaderService(
            replace(
                settings,
                group_policy=policy_of_group,
                exactly_once_source=exactly_once,
                tls=tls,
                # A worker may join before the leader does.
                stock_pool="w",
            )
        )
        service.start()
        self.leaders.append(service)
        self.facts(service, expected)
        self.want(service, connectors)
        return service

    def want(
        self,
        leader: LeaderService,
        connectors: Mapping[str, Mapping[str, str]],
        **targets: TargetState,
    ) -> None:
        """Sets the desired state of ``leader``; ``targets`` has the connectors that are not to run."""
        self.revision += 1
        wanted = {
            name: DesiredConnector(config, targets.get(name, TargetState.STARTED))
            for name, config in connectors.items()
        }
        leader.set_desired(Desired(self.revision, wanted))

    def facts(self, leader: LeaderService, expected: Sequence[str], **more: Any) -> None:
        """Reports as a host would: the expected members, and proven ends."""
        known = frozenset(expected) or None
        leader.set_facts(Facts(expected=known, ended=frozenset(self.ended), **more))

    def leads(self, leader: LeaderService, members: int) -> dict[str, Any]:
        """Waits until it leads these workers and nothing moves, waits or starts."""

        def calm() -> dict[str, Any] | None:
            status = leader.status()
            found = len(status.get("members", ()))
            assert found == members, f"{found} members: {status.get('conditions')}"
            assert status["settled"], [task for task in status["tasks"] if task["state"] != "RUNNING"]
            return status

        found = eventually(calm, LIMIT_S, f"{members} members at rest")
        assert found is not None
        return found

    def led_by_a_worker(self) -> str:
        """Waits until a worker leads a group without our leader; returns that worker."""

        def leading() -> str:
            group = describe_group(self.bootstrap_servers, self.group_id)
            assert group.state is GroupState.STABLE, group.state
            members = {member.member_id: member.client_id for member in group.members}
            assert set(members.values()) <= self.workers.keys(), members
            leaders = {decode_assignment(member.assignment).leader for member in group.members}
            assert leaders <= members.keys(), leaders
            return members[leaders.pop()]

        return eventually(leading, LIMIT_S, "a worker leads")

    def led_by_us(self) -> bool:
        """Whether the leader of the workers' assignments is none of them."""
        group = describe_group(self.bootstrap_servers, self.group_id)
        stock = [member for member in group.members if member.client_id in self.workers]
        if group.state is not GroupState.STABLE or len(stock) < len(self.workers):
            return False
        leaders = {decode_assignment(member.assignment).leader for member in stock}
        return not leaders & {member.member_id for member in stock}

    # --- looking ---

    def runs(self, *tasks: str, timeout_s: float = LIMIT_S) -> dict[str, str]:
        """Waits until exactly these run, by the workers' own journal; maps tasks to workers."""

        def seen() -> dict[str, str]:
            running = self.journal.running()
            assert set(running) == set(tasks), running
            return running

        return eventually(seen, timeout_s, f"{sorted(tasks)} run")

    def starts(self) -> Counter[str]:
        """The number of starts of each task and instance."""
        return Counter(run.task for run in self.journal.runs())

    def begun(self, *tasks: str) -> tuple[dict[str, str], Counter[str]]:
        """Returns what runs where, and ``starts``, once exactly ``tasks`` run (any, if none is named) and
        every worker has applied all that it has read.

        A worker that reads task configurations while it joins starts the tasks, and in the next turn of its
        loop stops them for what it has read, joins again, and starts them (``DistributedHerder.tick``).
        """

        def acted() -> tuple[dict[str, str], Counter[str]]:
            before = self.runs(*tasks) if tasks else self.journal.running(), self.starts()
            connector = sorted({task.rpartition("-")[0] for task in before[0]})[:1]
            # A worker's loop answers for a single connector in one turn, and refuses while it has to join
            # (409). The list of all connectors needs no turn: it is read from the configurations.
            for worker in (*self.workers.values(), *self.workers.values()):
                for name in connector:
                    worker.ask(f"connectors/{quote(name)}")
            assert before == (self.journal.running(), self.starts()), "a task starts again"
            return before

        return eventually(acted, LIMIT_S, "workers have done what they read of")

    def incarnations_of(self, task: str) -> list[Run]:
        return [run for run in self.journal.runs() if run.task == task]

    def stopped_for_ms(self, task: str) -> int:
        """Milliseconds between the task's last two runs."""
        before, after = self.incarnations_of(task)[-2:]
        end_ms = before.end_ms if before.end_ms is not None else self.journal.ended[before.incarnation]
        return after.start_ms - end_ms

    def numbers(self, name: str) -> dict[str, list[int]]:
        """The numbers that each task of a source has committed so far, in the topic's order."""
        found: dict[str, list[int]] = {}
        for value in self.values(self.topic(name)):
            task, number = value.split(":")
            found.setdefault(task, []).append(int(number))
        return found

    def values(self, topic: str) -> list[str]:
        """All committed values of the first partition up to its present end."""
        settings = {"bootstrap.servers": self.bootstrap_servers, "group.id": "inspection", "log_level": 0}
        consumer = Consumer(
            {**settings, "enable.auto.commit": False, "isolation.level": "read_committed"}
            | {"enable.partition.eof": True}
        )
        values: list[str] = []
        try:
            topics = consumer.list_topics(timeout=30).topics
            assert topic in topics, f"{topic} is not there yet"
            end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=30)[1]
            consumer.assign([TopicPartition(topic, 0, 0)])
            # While others write, the event of the end never comes, so a later record ends the read, too.
            while end:
                message = consumer.poll(30)
                assert message is not None, f"{topic}: nothing within 30 s"
                if message.error():
                    break
                values.append((message.value() or b"").decode())
                if (message.offset() or 0) >= end - 1:
                    break
            return values
        finally:
            consumer.close()

    def written(self, name: str, more_than: Mapping[str, list[int]] | None = None) -> dict[str, list[int]]:
        """Waits until each task has written more numbers than before."""
        before = more_than or {}

        def grown() -> dict[str, list[int]]:
            found = self.numbers(name)
            assert found
            assert all(found.get(task, [-1])[-1] > before[task][-1] for task in before), found.keys()
            return found

        return eventually(grown, LIMIT_S, f"{name} writes on")

    def records_of(self, sink: str) -> list[str]:
        """All values that the tasks of a sink got, over all incarnations."""
        files = sorted((self.directory / "into").glob(f"{sink}-*.txt"))
        return [line for file in files for line in file.read_text().splitlines()]

    def clear(self) -> None:
        """Ends our leader, deletes all connectors, and waits until nothing runs."""
        while self.leaders:
            self.leaders.pop().stop(leave=True)
        self.led_by_a_worker()
        worker = next(each for each in self.workers.values() if each.child and each.child.poll() is None)

        def deleted() -> bool:
            # A worker refuses while the group is in a round.
            for name in worker.ask("connectors"):
                worker.ask(f"connectors/{quote(name)}", method="DELETE")
            return not worker.ask("connectors")

        eventually(deleted, LIMIT_S, "no connector is left")
        eventually(lambda: not self.journal.running(), LIMIT_S, "nothing runs")

    def close(self) -> None:
        for leader in self.leaders:
            leader.stop()
        for worker in self.workers.values():
            if worker.child is not None and worker.child.poll() is None:
                worker.kill()
                self.journal.ended[worker.incarnation] = now_ms()
        if not self.may_double:
            assert self.journal.doubled() == []


def missing(numbers: Mapping[str, Sequence[int]]) -> dict[str, list[int]]:
    """The numbers below its greatest that a task left out."""
    return {
        task: gone
        for task, seen in numbers.items()
        if (gone := sorted(set(range(max(seen) + 1)) - set(seen)))
    }


def doubled(numbers: Mapping[str, Sequence[int]]) -> dict[str, int]:
    """Returns how many numbers each task wrote twice."""
    return {task: again for task, seen in numbers.items() if (again := len(seen) - len(set(seen)))}


def now_ms() -> int:
    return time.time_ns() // 1_000_000
