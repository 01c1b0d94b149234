"""A group of stock Connect workers on a real broker, with or without a leader of ours.

What runs where is what the connectors in the workers write to a journal themselves."""

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
"""Where whoever ends comes back, however long a busy machine takes to start it."""
PACKAGE: Final = "cooperator.stock."
LIMIT_S: Final = 150.0
"""Within which everything happens; on a busy machine most of it is waiting for a turn."""


def is_instance(task: str) -> bool:
    return task.endswith("-instance")


@dataclass
class StockGroup:
    """One group. ``may_double``: the test is about workers that Kafka itself cannot keep from it."""

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
        """Numbers in sequence, each task's into a topic of the connector's name."""
        return self._connector(name, "SequenceSource", tasks, topic=self.topic(name), rate=str(rate), **more)

    def sink(self, name: str, topic: str, tasks: int = 1, **more: str) -> dict[str, str]:
        """What ``topic`` has, in a file for each incarnation of a task."""
        into = self.directory / "into"
        into.mkdir(exist_ok=True)
        return self._connector(name, "SequenceSink", tasks, topics=topic, into=str(into), **more)

    def blocking(self, kind: str, name: str, tasks: int = 1, **more: str) -> dict[str, str]:
        """``kind``: Source or Sink. Where it hangs is said by ``hangs``."""
        return self._connector(name, f"Blocking{kind}", tasks, **more)

    def _connector(self, name: str, kind: str, tasks: int, **more: str) -> dict[str, str]:
        given = {"connector.class": PACKAGE + kind, "tasks.max": str(tasks), **more}
        # What Connect adds itself to what it is told by REST, and what our leader is told, must be the same.
        return {"name": name, "journal": str(self.journal.path), **given}

    def topic(self, name: str) -> str:
        return f"{self.group_id}.{name}"

    def make_topic(self, name: str) -> str:
        """A topic before anybody writes to it."""
        topic = self.topic(name)
        admin = AdminClient({"bootstrap.servers": self.bootstrap_servers, "log_level": 0})
        admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(30)
        return topic

    # --- workers ---

    def worker(self, identity: str, **options: Any) -> ConnectWorker:
        """Starts it; does not wait."""
        worker = ConnectWorker(
            self.bootstrap_servers, self.group_id, self.directory, identity=identity, **options
        )
        self.workers[identity] = worker
        worker.start()
        return worker

    def cluster(self, *identities: str, **options: Any) -> list[ConnectWorker]:
        """Workers that lead themselves: one after another, since the first makes the topics."""
        workers = []
        for identity in identities:
            workers.append(self.worker(identity, **options))
            workers[-1].serves()
        return workers

    def kill(self, identity: str) -> set[str]:
        """-9; what ran there, and runs no more."""
        return self._end(identity, ConnectWorker.kill)

    def stop(self, identity: str) -> set[str]:
        """SIGTERM, and wait for its end."""

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
        """The member ids that it has now."""
        members = describe_group(self.bootstrap_servers, self.group_id).members
        return {member.member_id for member in members if member.client_id == identity}

    def again(self, identity: str, **changes: Any) -> None:
        """A new incarnation under the same identity, with other options if there are any."""
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
        **said: Any,
    ) -> LeaderService:
        """A leader of ours, which knows that ``expected`` should be there."""
        told = {"bootstrap_servers": self.bootstrap_servers, "group_id": self.group_id, "policy": policy}
        settings = settings_of({**told, **said})
        policy_of_group = GroupPolicy.ADOPT if adopt else GroupPolicy.CREATE
        service = LeaderService(
            replace(settings, group_policy=policy_of_group, exactly_once_source=exactly_once)
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
        """What ``leader`` is to bring about; ``targets``: of those that are not just to run."""
        self.revision += 1
        wanted = {
            name: DesiredConnector(config, targets.get(name, TargetState.STARTED))
            for name, config in connectors.items()
        }
        leader.set_desired(Desired(self.revision, wanted))

    def facts(self, leader: LeaderService, expected: Sequence[str], **more: Any) -> None:
        """What a host would tell: who should be there, and whose end is proven."""
        known = frozenset(expected) or None
        leader.set_facts(Facts(expected=known, ended=frozenset(self.ended), **more))

    def leads(self, leader: LeaderService, members: int) -> dict[str, Any]:
        """Wait until it leads so many workers and nothing moves, waits or starts."""

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
        """Wait until one of the workers leads a group without anybody of ours; who."""

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
        """Whether the workers' assignments are from somebody who is none of them."""
        group = describe_group(self.bootstrap_servers, self.group_id)
        stock = [member for member in group.members if member.client_id in self.workers]
        if group.state is not GroupState.STABLE or len(stock) < len(self.workers):
            return False
        leaders = {decode_assignment(member.assignment).leader for member in stock}
        return not leaders & {member.member_id for member in stock}

    # --- looking ---

    def runs(self, *tasks: str, timeout_s: float = LIMIT_S) -> dict[str, str]:
        """Wait until exactly these run, by the workers' own word; task to worker."""

        def seen() -> dict[str, str]:
            running = self.journal.running()
            assert set(running) == set(tasks), running
            return running

        return eventually(seen, timeout_s, f"{sorted(tasks)} run")

    def starts(self) -> Counter[str]:
        """How often each task and instance has been started."""
        return Counter(run.task for run in self.journal.runs())

    def begun(self, *tasks: str) -> tuple[dict[str, str], Counter[str]]:
        """What runs where, and ``starts``, when exactly ``tasks`` run (if none is named, any) and every
        worker has acted upon all it has read.

        One that reads configurations of tasks while it joins starts the tasks, and in the next turn of its
        loop stops them for what it has read, joins again, and starts them (``DistributedHerder.tick``).
        """

        def acted() -> tuple[dict[str, str], Counter[str]]:
            before = self.runs(*tasks) if tasks else self.journal.running(), self.starts()
            connector = sorted({task.rpartition("-")[0] for task in before[0]})[:1]
            # The loop answers for one connector, in one turn and in another one, and refuses while it has to
            # join (409). It does not answer for the list of all: that is read from the configurations.
            for worker in (*self.workers.values(), *self.workers.values()):
                for name in connector:
                    worker.ask(f"connectors/{quote(name)}")
            assert before == (self.journal.running(), self.starts()), "something starts again"
            return before

        return eventually(acted, LIMIT_S, "workers have done what they read of")

    def lives_of(self, task: str) -> list[Run]:
        return [run for run in self.journal.runs() if run.task == task]

    def stopped_for_ms(self, task: str) -> int:
        """How long it ran nowhere between its last two incarnations."""
        before, after = self.lives_of(task)[-2:]
        end_ms = before.end_ms if before.end_ms is not None else self.journal.ended[before.incarnation]
        return after.start_ms - end_ms

    def numbers(self, name: str) -> dict[str, list[int]]:
        """What each task of a source has written and committed so far, in the topic's order."""
        found: dict[str, list[int]] = {}
        for value in self.values(self.topic(name)):
            task, number = value.split(":")
            found.setdefault(task, []).append(int(number))
        return found

    def values(self, topic: str) -> list[str]:
        """All committed values of the first partition up to its present end."""
        settings = {"bootstrap.servers": self.bootstrap_servers, "group.id": "scene", "log_level": 0}
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
            # While it is written to, its end is never met: what came later ends the reading, too.
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
        """Wait until each task has written more than it had."""
        before = more_than or {}

        def grown() -> dict[str, list[int]]:
            found = self.numbers(name)
            assert found
            assert all(found.get(task, [-1])[-1] > before[task][-1] for task in before), found.keys()
            return found

        return eventually(grown, LIMIT_S, f"{name} writes on")

    def told(self, sink: str) -> list[str]:
        """All that the tasks of a sink got, over all their incarnations."""
        files = sorted((self.directory / "into").glob(f"{sink}-*.txt"))
        return [line for file in files for line in file.read_text().splitlines()]

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
    """Numbers that a task left out below its greatest."""
    return {
        task: gone
        for task, seen in numbers.items()
        if (gone := sorted(set(range(max(seen) + 1)) - set(seen)))
    }


def doubled(numbers: Mapping[str, Sequence[int]]) -> dict[str, int]:
    """How many numbers each task wrote again."""
    return {task: again for task, seen in numbers.items() if (again := len(seen) - len(set(seen)))}


def now_ms() -> int:
    return time.time_ns() // 1_000_000
