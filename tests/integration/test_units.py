"""Units in mid-stream: other numbers of tasks, more partitions, and a member that dies during either.

The tests check the sink record by record, and the members' own logs for the tasks that they started.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field

import pytest

from cooperator.connectors.topics import ensure_topic, grow_topic
from cooperator.leader.service import LeaderService
from cooperator.local.broker import EmbeddedBroker
from cooperator.logs import LogsConfig, open_logs
from cooperator.model import Desired
from tests.guarantees.pipeline import Kafka
from tests.harness.leader_process import desired_of
from tests.harness.member_group import MemberGroup
from tests.harness.support import eventually

pytestmark = [pytest.mark.real, pytest.mark.timeout(1200)]

VICTIM, SURVIVOR = WORKERS = ("u-0", "u-1")
BACKLOG, FEW = 120, 30
PATIENCE_S = 300
"""The timeout of every wait, in seconds; a busy machine needs it."""

Groups = dict[str, tuple[str, ...]]
"""Maps each task to its units."""


@dataclass
class Flow:
    """Connector ``flow`` changes; connector ``calm`` is of the same class and does not."""

    group: MemberGroup
    kafka: Kafka
    partitions: int
    tasks_max: int
    fed: int = 0
    revision: int = 1
    incarnations: dict[str, str] = field(default_factory=dict)
    leader: LeaderService = field(init=False)

    def __post_init__(self) -> None:
        self.source, self.sink = f"{self.group.group_id}-from", f"{self.group.group_id}-to"
        client = {"bootstrap.servers": self.kafka.bootstrap_servers}
        ensure_topic(client, self.source, self.partitions, -1)
        self.kafka.create(self.sink)
        self.kafka.create(f"{self.source}-calm")
        self.logs = open_logs(LogsConfig(self.kafka.bootstrap_servers, self.group.group_id))
        self.leader = self.group.leader(self.configs(), WORKERS)
        for worker in WORKERS:
            self.member(worker)
        self.settled()

    def configs(self) -> dict[str, dict[str, str]]:
        common = {
            "connector.class": "kafka-to-kafka",
            "max.offsets.per.trigger": "5",
            "trigger.interval.ms": "500",
            "units.refresh.interval.ms": "1000",
        }
        return {
            "flow": {
                **common,
                "topics": self.source,
                "topic": self.sink,
                "tasks.max": str(self.tasks_max),
            },
            "calm": {**common, "topics": f"{self.source}-calm", "topic": self.sink, "tasks.max": "2"},
        }

    def member(self, identity: str) -> None:
        self.incarnations[identity] = self.group.member(identity, runtime="spark", heap_mb="512").incarnation
        self.group.facts(self.leader, WORKERS)

    # --- actions ---

    def feed(self, count: int) -> None:
        values = [f"record {number}" for number in range(self.fed, self.fed + count)]
        self.fed += count
        self.kafka.produce(self.source, values)

    def flowing(self) -> None:
        """Waits until a part of a backlog is in the sink."""
        known = self.found().total()
        self.feed(BACKLOG)
        eventually(lambda: self.found().total() > known, PATIENCE_S, "records flow")

    def regroup(self, tasks_max: int) -> None:
        self.tasks_max = tasks_max
        self.revision += 1
        wanted = desired_of(self.configs())
        self.leader.set_desired(Desired(self.revision, wanted.connectors))

    def grow(self, partitions: int) -> None:
        self.partitions = partitions
        grow_topic({"bootstrap.servers": self.kafka.bootstrap_servers}, self.source, partitions)

    def kill(self) -> None:
        """Sends SIGKILL to the victim's process group; it returns under its name."""
        member = next(each for each in reversed(self.group.members) if each.identity == VICTIM)
        member.kill()
        self.group.facts(self.leader, WORKERS)
        self.feed(FEW)
        self.member(VICTIM)

    # --- observations ---

    def groups(self) -> Groups:
        """The units of each task, from the config log."""
        found: Groups = {}
        for name, connector in self.logs.config.snapshot().connectors.items():
            for number, config in enumerate(connector.tasks):
                found[f"{name}-{number}"] = tuple(config["task.units"].split(","))
        return found

    def where(self) -> dict[str, str]:
        tasks = [task for task in self.leader.status().get("tasks", ()) if task["task"] >= 0]
        return {task["name"]: task["member"] for task in tasks if task["state"] == "RUNNING"}

    def settled(self) -> None:
        """Waits until all units are in tasks, all tasks run, and nothing moves."""

        def calm() -> bool:
            groups = self.groups()
            flow = [units for name, units in groups.items() if name.startswith("flow")]
            assert len(flow) == min(self.tasks_max, self.partitions), groups
            assert sum(map(len, flow)) == self.partitions, groups
            assert self.where().keys() == groups.keys(), f"{self.where()} of {groups}"
            living = {member["incarnation"] for member in self.leader.status()["members"]}
            assert living == set(self.incarnations.values()), f"members {living}"
            return bool(self.leader.status()["settled"])

        eventually(calm, PATIENCE_S, f"{self.tasks_max} tasks of {self.partitions} units run")

    def found(self) -> Counter[str]:
        return self.kafka.committed(self.sink)

    def exact(self) -> None:
        wanted = Counter(f"record {number}" for number in range(self.fed))
        eventually(lambda: self.found().total() >= self.fed, PATIENCE_S, f"{self.fed} records are there")
        assert self.found() == wanted


@dataclass
class Before:
    """The state before a change."""

    groups: Groups
    where: dict[str, str]
    starts: Counter[tuple[str, str]]

    @classmethod
    def of(cls, flow: Flow) -> "Before":
        return cls(flow.groups(), flow.where(), flow.group.starts())

    def unchanged(self, flow: Flow) -> set[str]:
        after = flow.groups()
        return {task for task, units in self.groups.items() if after.get(task) == units}

    def assert_only_changed_tasks_started(self, flow: Flow) -> None:
        """Unchanged tasks run on where they were; at the member that died they start once more."""
        unchanged = self.unchanged(flow)
        lost = {task for task in unchanged if self.where[task] == VICTIM}

        def started() -> Counter[tuple[str, str]]:
            counts = flow.group.starts() - self.starts
            return Counter({key: count for key, count in counts.items() if key[1] in unchanged})

        eventually(lambda: {task for _, task in started()} >= lost, PATIENCE_S, f"{lost} are given back")
        flow.settled()
        assert started() == {(VICTIM, task): 1 for task in lost}
        assert {task: flow.where()[task] for task in unchanged} == {t: self.where[t] for t in unchanged}


Begin = Callable[[int, int], Flow]


@pytest.fixture
def begin(group: MemberGroup, broker: EmbeddedBroker) -> Iterator[Begin]:
    """A settled flow with these numbers of partitions and tasks."""
    with ExitStack() as closing:

        def begin_with(partitions: int, tasks_max: int) -> Flow:
            flow = Flow(group, Kafka(broker.bootstrap_servers), partitions, tasks_max)
            closing.callback(flow.logs.close)
            return flow

        yield begin_with


@pytest.mark.long(
    "tests/integration/test_units.py::test_partitions_are_added_in_mid_stream_while_a_member_dies"
)
def test_the_number_of_tasks_changes_in_mid_stream_while_a_member_dies(begin: Begin) -> None:
    flow = begin(6, 2)
    for tasks_max, kept in ((5, set[str]()), (3, {"flow-0"})):
        before = Before.of(flow)
        flow.flowing()
        flow.regroup(tasks_max)
        flow.kill()
        flow.settled()
        assert before.unchanged(flow) == {"calm-0", "calm-1", *kept}
        before.assert_only_changed_tasks_started(flow)
        flow.feed(FEW)
    flow.exact()


@pytest.fixture(scope="module")
def flow(shared: MemberGroup) -> Iterator[Flow]:
    """A flow that goes from one change to the next: four partitions in three tasks at first."""
    found = Flow(shared, Kafka(shared.bootstrap_servers), 4, 3)
    yield found
    found.logs.close()


def test_partitions_are_added_in_mid_stream_while_a_member_dies(flow: Flow) -> None:
    before = Before.of(flow)
    flow.flowing()
    flow.grow(8)
    flow.kill()
    flow.settled()
    assert before.unchanged(flow) == {"calm-0", "calm-1", "flow-0"}
    before.assert_only_changed_tasks_started(flow)
    flow.feed(FEW)
    flow.exact()


@pytest.mark.parametrize(
    ("tasks_max", "stop", "start"),
    [
        (4, {"flow-1", "flow-2"}, {"flow-1", "flow-2", "flow-3"}),
        (3, {"flow-0", "flow-1", "flow-3"}, {"flow-0", "flow-1"}),
    ],
    ids=["more tasks", "fewer tasks"],
)
def test_without_a_death_only_changed_tasks_stop(
    flow: Flow, tasks_max: int, stop: set[str], start: set[str]
) -> None:
    """Changed tasks are revoked, not lost: they stop in order, and no other task is touched."""
    group, before, stops = flow.group, Before.of(flow), flow.group.stops()
    flow.flowing()
    flow.regroup(tasks_max)
    flow.settled()
    started, stopped = group.starts() - before.starts, group.stops() - stops
    assert before.groups.keys() - before.unchanged(flow) == stop
    tasks = before.groups.keys() | flow.groups().keys()
    assert {task for _, task in stopped if task in tasks} == stop
    assert {task for _, task in started if task in tasks} == start
    assert all((before.where[task], task) in stopped for task in stop)
    flow.exact()
