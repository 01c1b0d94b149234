"""``python arrived.py BROKERS``: waits until new rows arrive at the end of the quick start's pipelines."""

import json
import sys
import time
import uuid

from confluent_kafka import OFFSET_END, Consumer, TopicPartition

TOPIC = "orders-oslo"
ROWS = 20
# `helm test` itself waits for five minutes; until then images are pulled, and members start.
TIMEOUT_S = 240


def main(brokers: str) -> None:
    """Exits with a message if rows are doubled, or too few in time."""
    group = uuid.uuid4().hex
    consumer = Consumer(
        {"bootstrap.servers": brokers, "group.id": group, "isolation.level": "read_committed"}
    )
    deadline = time.monotonic() + TIMEOUT_S
    partitions = []
    while not partitions and time.monotonic() < deadline:
        time.sleep(1)
        topic = consumer.list_topics(timeout=30).topics.get(TOPIC)
        partitions = list(topic.partitions) if topic else []
    consumer.assign([TopicPartition(TOPIC, partition, OFFSET_END) for partition in partitions])
    ids = []
    while len(ids) < ROWS:
        if time.monotonic() > deadline:
            sys.exit(
                f"{len(ids)} of {ROWS} rows arrived in {TOPIC} within {TIMEOUT_S} s: "
                "see `kubectl describe connectors.cooperator.dev`"
            )
        message = consumer.poll(1)
        if message is not None and message.error() is None:
            row = json.loads(message.value())
            ids.append(row["id"])
            print("arrived:", row, flush=True)
    consumer.close()
    if len(set(ids)) < len(ids):
        sys.exit(f"rows arrived twice in {TOPIC}: {sorted(ids)}")
    print(f"{len(ids)} new rows arrived in {TOPIC}, each once")


if __name__ == "__main__":
    main(sys.argv[1])
