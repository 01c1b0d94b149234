"""Faults of topics and of tables: one of several is gone, is another one, or holds its records back."""

from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import Producer

from cooperator.connectors.topics import grow_topic
from tests.neighbours.faults import BROKEN, Fault, reads, writes
from tests.neighbours.pipelines import PARTITIONS, KafkaToKafka, KafkaToPostgres, Pipeline, PostgresToKafka

GOES_ON = {"fail.on.data.loss": "false"}


@contextmanager
def deleted_topic(pipeline: Pipeline) -> Iterator[None]:
    pipeline.world.delete_topic(pipeline.name_of(BROKEN))
    yield
    pipeline.world.create_topic(pipeline.name_of(BROKEN))


@contextmanager
def dropped_table(pipeline: Pipeline) -> Iterator[None]:
    pipeline.world.tables.query(f"DROP TABLE {pipeline.name_of(BROKEN)}")
    yield


@contextmanager
def renamed_table(pipeline: Pipeline) -> Iterator[None]:
    table = pipeline.name_of(BROKEN)
    pipeline.world.tables.query(f"ALTER TABLE {table} RENAME TO {table}_away")
    yield
    pipeline.world.tables.query(f"ALTER TABLE {table}_away RENAME TO {table}")


@contextmanager
def fewer_partitions(pipeline: Pipeline) -> Iterator[None]:
    """The topic has one partition for a while."""
    topic = pipeline.name_of(BROKEN)
    pipeline.world.delete_topic(topic)
    pipeline.world.create_topic(topic, 1)
    yield
    grow_topic(pipeline.world.member.client, topic, PARTITIONS)


@contextmanager
def hanging_transaction(pipeline: Pipeline) -> Iterator[None]:
    """A producer of somebody else ends its transaction late."""
    client = {**pipeline.world.member.client, "transactional.id": f"hangs-{pipeline.unique}"}
    producer = Producer({**client, "transaction.timeout.ms": 600_000})
    producer.init_transactions(30)
    producer.begin_transaction()
    for partition in range(PARTITIONS):
        producer.produce(pipeline.name_of(BROKEN), "of the open transaction", partition=partition)
    assert producer.flush(30) == 0
    yield
    producer.abort_transaction(30)


@contextmanager
def target_table_dropped(pipeline: Pipeline) -> Iterator[None]:
    target = pipeline.target_of(BROKEN)
    pipeline.world.tables.query(f"ALTER TABLE {target} RENAME TO {target}_away")
    pipeline.feed(BROKEN)
    yield
    pipeline.world.tables.query(f"ALTER TABLE {target}_away RENAME TO {target}")


FAULTS = (
    Fault(
        "topic-deleted",
        "a source topic is deleted, and comes back",
        reads("Kafka"),
        deleted_topic,
        ("{name}", "does not exist"),
        decides=KafkaToKafka,
        more=GOES_ON,
    ),
    Fault(
        "table-dropped",
        "a source table is dropped",
        reads("PostgreSQL"),
        dropped_table,
        ("{name}", "no longer exists"),
        decides=PostgresToKafka,
        is_whole_again=False,
    ),
    Fault(
        "table-renamed",
        "a source table is renamed, and comes back",
        reads("PostgreSQL"),
        renamed_table,
        ("{name}", "no longer exists"),
        decides=PostgresToKafka,
    ),
    Fault(
        "fewer-partitions",
        "a source topic is created again with fewer partitions",
        reads("Kafka"),
        fewer_partitions,
        ("{name}-1", "does not exist"),
        decides=KafkaToPostgres,
        more=GOES_ON,
    ),
    Fault(
        "hanging-transaction",
        "a transaction of another producer stays open in a source topic",
        reads("Kafka"),
        hanging_transaction,
        ("{name}-0", "transaction"),
        decides=KafkaToKafka,
    ),
    Fault(
        "target-table-dropped",
        "a target table is renamed, and comes back",
        writes("PostgreSQL"),
        target_table_dropped,
        ("{target}",),
        decides=KafkaToPostgres,
    ),
)
