"""Claims and positions on a real broker. A task's slots are producers of this process."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from cooperator.connectors.base import Cancelled
from cooperator.connectors.exactly_once import Replaced
from cooperator.connectors.kafka_log import MARKER_CONFIG
from cooperator.connectors.microbatch import kafka_positions, topic_reader
from cooperator.connectors.microbatch.claims import (
    Claim,
    ClaimKey,
    TransactionalIds,
    UnitKey,
    UnreadableRecord,
)
from cooperator.connectors.microbatch.kafka_positions import (
    CLAIMS,
    PARTITIONS,
    KafkaPositions,
    Owned,
    OwnedUnits,
    partition_of,
)
from cooperator.connectors.microbatch.ownership import Attempt, Ownership
from cooperator.connectors.topics import TopicMisconfigured, ensure_topic
from cooperator.local.broker import EmbeddedBroker
from cooperator.model import Epoch
from tests.harness.support import eventually

NOWHERE = "127.0.0.1:1"
UNITS = tuple(UnitKey("copy", f"lines-{number}") for number in range(4))


def reached(owned: Owned) -> dict[UnitKey, int]:
    return {unit: position.next for unit, position in owned.positions.items()}


@dataclass
class Task:
    """An attempt with producers for its slots."""

    client: Mapping[str, str]
    group: str
    claim: Claim
    units: tuple[UnitKey, ...] = UNITS
    slots: int = 2
    number: int = 0
    timeout_ms: int = 60_000
    shared: KafkaPositions | None = None
    said: list[str] = field(default_factory=list)
    cancelled: threading.Event = field(default_factory=threading.Event)
    producers: dict[int, Producer] = field(default_factory=dict)

    def __post_init__(self) -> None:
        slots = TransactionalIds(f"{self.group}-tasks/copy/{self.number}", self.slots)
        self.ids = slots.ids
        self.positions = self.shared or KafkaPositions(self.group, self.client)
        machine = Ownership(Attempt(self.claim, self.units, slots))
        patience = self.positions.patience(self.cancelled, self.said.append)
        self.owned = OwnedUnits(machine, self.positions, patience, self.initialise)

    def initialise(self, session: str) -> None:
        for slot, name in enumerate(self.ids):
            config = {"transactional.id": name, "transaction.timeout.ms": self.timeout_ms}
            self.producers[slot] = Producer({**self.client, **config})
            self.producers[slot].init_transactions(30)

    def begin(self, slot: int, moves: Mapping[UnitKey, int], rows: int = 3) -> Producer:
        """A transaction of a slot up to its commit."""
        producer = self.producers[slot]
        producer.begin_transaction()
        for unit, position in moves.items():
            for number in range(rows):
                producer.produce(f"{self.group}-rows", f"{unit}:{position}:{number}", str(unit))
            key, value, partition = self.owned.record(unit, position, "")
            producer.produce(self.positions.topic, value, key, partition)
        producer.flush(30)
        return producer

    def commit(self, slot: int, moves: Mapping[UnitKey, int]) -> None:
        self.begin(slot, moves).commit_transaction(30)


Tasks = Callable[..., Task]


@pytest.fixture
def task(broker: EmbeddedBroker, unique: str) -> Iterator[Tasks]:
    client = {"bootstrap.servers": broker.bootstrap_servers}
    ensure_topic(client, f"{unique}-rows", 1, -1)

    def make(generation: int, **more: object) -> Task:
        return Task(client, unique, Claim.of(Epoch(1, generation), 1, "lake-0/incarnation-1"), **more)

    return make


def rows(task: Task) -> list[str]:
    """All committed rows; an open transaction hides later ones."""
    config = {"group.id": "reader", "isolation.level": "read_committed", "enable.partition.eof": True}
    consumer = Consumer({**task.client, **config})
    consumer.assign([TopicPartition(f"{task.group}-rows", 0, 0)])
    values = []
    while (message := consumer.poll(10)) is not None and message.error() is None:
        values.append((message.value() or b"").decode())
    consumer.close()
    return values


@pytest.mark.real
@pytest.mark.long(
    "tests/microbatch/test_transactions.py::test_a_task_copies_old_and_new_records_and_goes_on_where_it_was"
)
def test_a_successor_goes_on_from_what_was_committed(task: Tasks) -> None:
    first = task(1)
    assert first.owned.claim() == Owned({}, f"{first.claim}/1")
    first.commit(0, {UNITS[0]: 3, UNITS[1]: 6})
    first.commit(1, {UNITS[2]: 9})
    first.commit(0, {UNITS[0]: 12})
    second = task(2)
    at = {UNITS[0]: 12, UNITS[1]: 6, UNITS[2]: 9}
    found = second.owned.claim()
    assert (reached(found), found.session) == (at, f"{second.claim}/1")
    claims = second.positions.claims(UNITS, second.positions.patience(threading.Event(), print))
    assert [list(of_unit) for of_unit in claims.values()] == [[second.claim]] * 4, "older claims are removed"


@pytest.mark.real
@pytest.mark.long(
    "tests/microbatch/test_replaced.py::"
    "test_an_attempt_that_is_replaced_in_mid_transaction_commits_nothing_of_it"
)
def test_a_zombies_open_transaction_is_aborted_and_its_commit_refused(task: Tasks) -> None:
    """Units move between tasks, so that successors have transactional ids of their own."""
    zombie = task(1)
    zombie.owned.claim()
    zombie.commit(0, {UNITS[0]: 3})
    halfway = zombie.begin(0, {UNITS[0]: 6, UNITS[1]: 3})
    began = time.monotonic()
    successors = [task(2, units=UNITS[:1], number=1), task(2, units=UNITS[1:], number=2, slots=1)]
    assert [reached(each.owned.claim()) for each in successors] == [{UNITS[0]: 3}, {}]
    assert time.monotonic() - began < 50, "they do not wait for the zombie's transaction, which may take 60 s"
    with pytest.raises(KafkaException):
        halfway.commit_transaction(30)
    with pytest.raises(KafkaException):
        zombie.commit(1, {UNITS[2]: 3})
    successors[0].commit(0, {UNITS[0]: 6})
    assert rows(zombie) == [f"{UNITS[0]}:{position}:{number}" for position in (3, 6) for number in range(3)]


@pytest.mark.real
@pytest.mark.long("tests/runtime/test_positions.py::test_an_attempt_of_an_older_epoch_is_refused")
def test_a_zombie_that_recovers_finds_its_successor_and_disturbs_nobody(task: Tasks) -> None:
    zombie, successor = task(1), task(2)
    zombie.owned.claim()
    successor.owned.claim()
    with pytest.raises(
        Replaced, match=rf"unit {UNITS[0]} is claimed by attempt {successor.claim}, which is newer"
    ):
        zombie.owned.recover()
    with pytest.raises(Replaced):
        zombie.owned.recover()
    successor.commit(0, {UNITS[0]: 3})
    with pytest.raises(Replaced):
        task(1, number=5).owned.claim()
    successor.commit(0, {UNITS[0]: 6})
    assert reached(successor.owned.recover()) == {UNITS[0]: 6}


@pytest.mark.real
@pytest.mark.long(
    "tests/microbatch/test_ownership.py::test_a_failed_batch_is_recovered_from_in_a_new_session"
)
def test_a_batch_whose_end_is_unknown_is_found_by_its_attempt(task: Tasks) -> None:
    attempt = task(1)
    attempt.owned.claim()
    attempt.commit(0, {UNITS[0]: 3})
    late = attempt.begin(1, {UNITS[1]: 5})
    owned = attempt.owned.recover()
    assert (reached(owned), owned.session) == ({UNITS[0]: 3}, f"{attempt.claim}/2")
    with pytest.raises(KafkaException):
        late.commit_transaction(30)
    attempt.commit(1, {UNITS[1]: 5})
    assert reached(attempt.owned.recover()) == {UNITS[0]: 3, UNITS[1]: 5}


@pytest.mark.real
@pytest.mark.timeout(120)
@pytest.mark.long(
    "tests/runtime/test_kafka_log.py::"
    "test_a_transaction_of_a_writer_that_is_gone_ends_with_the_claim_of_the_next"
)
def test_a_transaction_of_another_unit_is_waited_for_until_its_time_limit(
    task: Tasks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two units with one partition: records behind an open transaction are not seen yet."""
    number = next(n for n in range(100) if partition_of(UnitKey("other", f"u-{n}")) == partition_of(UNITS[0]))
    other = task(1, units=(UnitKey("other", f"u-{number}"),), number=7, timeout_ms=6_000)
    other.owned.claim()
    first = task(1)
    first.owned.claim()
    frozen = other.begin(0, {other.units[0]: 1})
    first.commit(0, {UNITS[0]: 3})
    second = task(2)
    monkeypatch.setattr(topic_reader, "_WAITS_S", 0.3)
    monkeypatch.setattr(topic_reader, "_HANGS_S", 1.5)
    assert reached(second.owned.claim()) == {UNITS[0]: 3}
    # The broker looks for expired transactions every 10 s.
    where = f"in topic {second.positions.topic}, partition {partition_of(UNITS[0])}"
    assert f"waiting for open transactions {where} to end" in second.said
    assert any(text.startswith(f"a transaction {where} does not end: ") for text in second.said)
    assert second.said[-1] == ""
    with pytest.raises(KafkaException):
        frozen.commit_transaction(30)
    assert reached(other.owned.recover()) == {}


@pytest.mark.real
@pytest.mark.long("tests/microbatch/test_ends.py::test_all_tasks_share_one_look_and_each_learns_of_its_own")
def test_many_tasks_of_a_member_start_at_once_and_share_their_readings(
    task: Tasks, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = [task(1, units=(unit,), number=number) for number, unit in enumerate(UNITS)]
    for number, each in enumerate(before):
        each.owned.claim()
        each.commit(0, {each.units[0]: number + 1})
    shared = before[0].positions
    readings = 0
    right = type(shared._claims)._ends

    def counted(*args: object) -> object:
        nonlocal readings
        readings += 1
        return right(*args)

    monkeypatch.setattr(type(shared._claims), "_ends", counted)
    units = [UnitKey("copy", f"more-{number}") for number in range(20)]
    tasks = [task(2, units=(UNITS[n],), number=10 + n, slots=1, shared=shared) for n in range(4)]
    tasks += [task(2, units=(unit,), number=20 + n, slots=1, shared=shared) for n, unit in enumerate(units)]
    with ThreadPoolExecutor(len(tasks)) as pool:
        owned = list(pool.map(lambda each: reached(each.owned.claim()), tasks))
    assert owned == [{unit: number + 1} for number, unit in enumerate(UNITS)] + [{}] * 20
    assert readings < 3 * len(tasks), "some of them were shared"
    for each in tasks[:4]:
        each.commit(0, {each.units[0]: 10})


@pytest.mark.real
@pytest.mark.long(
    "tests/runtime/test_kafka_log.py::test_markers_that_would_expire_are_refused_with_the_remedy"
)
def test_a_topic_that_would_forget_positions_is_refused_with_the_remedy(task: Tasks, unique: str) -> None:
    attempt = task(1)
    ensure_topic(attempt.client, f"{unique}-positions", PARTITIONS, -1, {"cleanup.policy": "compact,delete"})
    with pytest.raises(
        TopicMisconfigured, match=r"cleanup\.policy=compact,delete.*--add-config cleanup\.policy=compact"
    ):
        attempt.owned.claim()


@pytest.mark.real
@pytest.mark.long(
    "tests/runtime/test_kafka_log.py::test_too_few_partitions_of_the_markers_are_an_error_at_once"
)
def test_a_topic_of_too_few_partitions_is_refused_with_the_remedy(task: Tasks, unique: str) -> None:
    attempt = task(1)
    ensure_topic(attempt.client, f"{unique}-positions", 1, -1, MARKER_CONFIG)
    with pytest.raises(
        TopicMisconfigured, match=rf"topic {unique}-positions has 1 partition instead of 9.*delete it"
    ):
        attempt.owned.claim()


@pytest.mark.real
@pytest.mark.long("tests/microbatch/test_claims.py::test_an_unreadable_claim_stops_only_its_own_unit")
def test_a_claim_of_a_later_release_stops_its_own_unit_and_no_other(task: Tasks) -> None:
    attempt = task(1)
    attempt.owned.claim()
    key = ClaimKey(UNITS[0], Claim(Epoch(1, 0), 1, "later")).encode()
    writer = Producer(attempt.client)
    writer.produce(attempt.positions.topic, b'{"version":2}', key, CLAIMS)
    writer.flush(30)
    with pytest.raises(UnreadableRecord, match=rf"record {key.decode()}: version = 2 is of another release"):
        task(2).owned.claim()
    assert reached(task(2, units=UNITS[1:], number=4).owned.claim()) == {}


@pytest.mark.real
@pytest.mark.long(
    "tests/microbatch/test_loop.py::"
    "test_producers_that_cannot_be_initialised_yet_are_tried_again_by_the_same_call"
)
def test_a_failure_to_initialise_producers_is_raised_and_the_next_call_goes_on(task: Tasks) -> None:
    attempt = task(1)
    right, failures = attempt.initialise, [OSError("no coordinator")]

    def fails_once(session: str) -> None:
        if failures:
            raise failures.pop()
        right(session)

    attempt.owned._initialise = fails_once
    with pytest.raises(OSError, match="no coordinator"):
        attempt.owned.claim()
    assert attempt.owned.claim() == Owned({}, f"{attempt.claim}/1")
    attempt.commit(0, {UNITS[0]: 3})


@pytest.mark.real
@pytest.mark.long("tests/runtime/test_pipelines.py::test_a_broker_that_is_away_for_a_while_stops_no_task")
def test_a_broker_that_restarts_meanwhile_is_waited_for(task: Tasks, broker: EmbeddedBroker) -> None:
    first = task(1)
    first.owned.claim()
    first.commit(0, {UNITS[0]: 3})
    # A broker that is killed between the answer and the markers may lose the transaction when it comes back.
    patience = first.positions.patience(threading.Event(), print)
    assert first.positions.positions(UNITS, patience)[UNITS[0]].next == 3
    broker.kill()
    second = task(2)
    with ThreadPoolExecutor(1) as pool:
        owned = pool.submit(second.owned.claim)
        try:
            eventually(lambda: second.said, 20)
        finally:
            broker.start()
        try:
            assert reached(owned.result(60)) == {UNITS[0]: 3}, second.said
        finally:
            second.cancelled.set()
    assert any(text.startswith("waiting for Kafka at") for text in second.said)


@pytest.mark.parametrize("call", ["ensure", "claims", "positions", "fence", "write_claims"])
@pytest.mark.long(
    "tests/runtime/test_kafka_log.py::"
    "test_an_unreachable_broker_of_the_log_is_reported_and_the_wait_can_be_cancelled"
)
def test_every_wait_ends_when_the_task_is_cancelled(call: str) -> None:
    positions = KafkaPositions("nowhere", {"bootstrap.servers": NOWHERE})
    cancelled, said = threading.Event(), []
    patience = positions.patience(cancelled, said.append)
    arguments = {"ensure": (), "fence": (["id"],), "write_claims": ([(b"key", b"value")],)}.get(
        call, (UNITS,)
    )
    timer = threading.Timer(1.5, cancelled.set)
    timer.start()
    with pytest.raises(Cancelled):
        # Nothing else ends it: the broker never comes.
        getattr(positions, call)(*arguments, patience)
    assert call == "write_claims" or said[0].startswith(f"waiting for Kafka at {NOWHERE}: ")


def test_a_unit_keeps_its_partition_in_every_release() -> None:
    assert [partition_of(unit) for unit in UNITS] == [1, 7, 5, 3]
    assert kafka_positions.POSITION_PARTITIONS == CLAIMS == 8
