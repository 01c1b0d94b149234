"""``python produce.py BROKERS ROWS_PER_SECOND``: writes orders into the topic `orders`, with ids in a row."""

import json
import sys
import time

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

TOPIC = "orders"
CITIES = ("Oslo", "Lima", "Quito")


def rows_so_far(client: dict[str, str | int]) -> int:
    """The ends of all partitions together. Creates the topic where it is missing."""
    admin = AdminClient(client)
    try:
        admin.create_topics([NewTopic(TOPIC, num_partitions=4)], operation_timeout=30)[TOPIC].result()
    except KafkaException as error:
        if error.args[0].name() != "TOPIC_ALREADY_EXISTS":
            raise
    consumer = Consumer({**client, "group.id": "quickstart-producer"})
    try:
        partitions = consumer.list_topics(TOPIC, 30).topics[TOPIC].partitions
        ends = [consumer.get_watermark_offsets(TopicPartition(TOPIC, each), 30)[1] for each in partitions]
    finally:
        consumer.close()
    return sum(ends)


def main(brokers: str, rows_per_s: int) -> None:
    """A failed request ends the process; the kubelet starts it again, and it counts again."""
    # Exceptions say what is wrong; lines about each connection would bury them.
    client = {"bootstrap.servers": brokers, "log_level": 2}
    first = rows_so_far(client)
    print(f"writes {rows_per_s} rows per second to {TOPIC}, from id {first}", flush=True)
    producer = Producer({**client, "enable.idempotence": True})
    refused = []

    def note(error, _message) -> None:
        if error is not None:
            refused.append(error)

    while not refused:
        for number in range(first, first + rows_per_s):
            row = {"id": number, "city": CITIES[number % len(CITIES)], "cents": number * 37 % 10_000}
            producer.produce(TOPIC, json.dumps(row), str(number), on_delivery=note)
        first += rows_per_s
        producer.flush()
        time.sleep(1)
    sys.exit(f"a row was not written: {refused[0]}")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
