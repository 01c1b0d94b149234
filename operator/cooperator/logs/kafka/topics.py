"""The compacted topics of the logs: created when missing, refused when unfit (as Connect does).

Lookups never make a broker auto-create a topic, which would have the broker's own settings.
"""

import logging
import time
from collections.abc import Iterable
from concurrent.futures import Future
from typing import Final

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    ConfigResource,
    ListOffsetsResultInfo,
    NewTopic,
    OffsetSpec,
    ResourceType,
    TopicDescription,
)

from cooperator.logs.errors import LogUnavailable, TopicMisconfigured
from cooperator.logs.kafka.settings import error_text, result_of
from cooperator.model.text import counted

logger = logging.getLogger(__name__)

_SETTINGS: Final = {
    "cleanup.policy": "compact",
    # Readers start at the beginning, so the newest segment, which is never compacted, must stay small.
    "segment.bytes": str(16 * 2**20),
    "min.cleanable.dirty.ratio": "0.1",
}
_APPEARS_S: Final = 0.1
_FORBIDDEN: Final = frozenset(
    {KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED}
)


def ensure_topic(
    admin: AdminClient, topic: str, partitions: int | None, replication_factor: int, timeout_ms: int
) -> None:
    """Implement ``Transport.ensure_topic``."""
    deadline = time.monotonic() + timeout_ms / 1000
    try:
        found = count_partitions(admin, topic, remaining_s(deadline))
        if found is None:
            _create(admin, topic, partitions or 1, replication_factor, deadline)
            found = _await(admin, topic, deadline)
        _check_policy(admin, topic, deadline)
    except KafkaException as error:
        raise LogUnavailable(f"topic {topic}: {error_text(error)}") from error
    if partitions is not None and found != partitions:
        raise TopicMisconfigured(
            f"topic {topic} has {counted(found, 'partition')}; this log must have exactly {partitions}, to "
            "keep its order: delete the topic, or configure another one"
        )


def count_partitions(admin: AdminClient, topic: str, timeout_s: float) -> int | None:
    """Return the number of partitions; None when there is no such topic. Raises KafkaException."""
    try:
        return len(partitions_of(ask_partitions(admin, [topic], timeout_s)[topic]))
    except KafkaException as error:
        if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            return None
        raise


def topic_record_bytes(admin: AdminClient, topic: str, timeout_s: float) -> int:
    """Return the topic's ``max.message.bytes``. Raises KafkaException."""
    resource = ConfigResource(ResourceType.TOPIC, topic)
    described = admin.describe_configs([resource], request_timeout=timeout_s)
    return int(result_of(described[resource])["max.message.bytes"].value)


def ask_partitions(
    admin: AdminClient, topics: Iterable[str], timeout_s: float
) -> dict[str, "Future[TopicDescription]"]:
    """Look up the partitions of topics, for ``partitions_of``. Keep ``admin`` until the answers are there."""
    return admin.describe_topics(TopicCollection(list(topics)), request_timeout=timeout_s)


def partitions_of(described: "Future[TopicDescription]") -> tuple[int, ...]:
    """Return the sorted partition numbers of a topic. Raises KafkaException."""
    return tuple(sorted(each.id for each in result_of(described).partitions))


def ask_ends(
    admin: AdminClient, places: Iterable[tuple[str, int]], isolation: IsolationLevel, timeout_s: float
) -> dict[tuple[str, int], "Future[ListOffsetsResultInfo]"]:
    """Look up the ends of partitions of any topics; each partition has its own answer or failure."""
    asked = admin.list_offsets(
        {TopicPartition(*place): OffsetSpec.latest() for place in places},  # type: ignore[no-untyped-call]
        isolation_level=isolation,
        request_timeout=timeout_s,
    )
    return {(each.topic, each.partition): answer for each, answer in asked.items()}


def remaining_s(deadline: float) -> float:
    """Return the seconds until ``deadline`` (by ``time.monotonic``); more than 0, as clients require."""
    return max(0.01, deadline - time.monotonic())


def _create(
    admin: AdminClient, topic: str, partitions: int, replication_factor: int, deadline: float
) -> None:
    wanted = NewTopic(topic, partitions, replication_factor, config=_SETTINGS)
    try:
        result_of(admin.create_topics([wanted], request_timeout=remaining_s(deadline))[topic])
        logger.info("created topic %s", topic)
    except KafkaException as error:
        code = error.args[0].code()
        if code == KafkaError.INVALID_REPLICATION_FACTOR:
            raise TopicMisconfigured(
                f"topic {topic} cannot be created with replication factor {replication_factor}: "
                f"{error_text(error)}; use at most the number of brokers"
            ) from error
        if code != KafkaError.TOPIC_ALREADY_EXISTS:
            raise


def _await(admin: AdminClient, topic: str, deadline: float) -> int:
    """Wait for a new topic: a broker may learn of it later than the one that created it."""
    while time.monotonic() < deadline:
        found = count_partitions(admin, topic, remaining_s(deadline))
        if found is not None:
            return found
        time.sleep(_APPEARS_S)
    raise LogUnavailable(f"topic {topic} was created, but did not become visible in time")


def _check_policy(admin: AdminClient, topic: str, deadline: float) -> None:
    resource = ConfigResource(ResourceType.TOPIC, topic)
    try:
        described = admin.describe_configs([resource], request_timeout=remaining_s(deadline))
        policy = result_of(described[resource])["cleanup.policy"].value
    except KafkaException as error:
        if error.args[0].code() not in _FORBIDDEN:
            raise
        logger.warning("topic %s: its cleanup.policy cannot be checked: %s", topic, error_text(error))
        return
    if policy != "compact":
        raise TopicMisconfigured(
            f"topic {topic} has cleanup.policy={policy}, which would lose records; this log needs "
            f"cleanup.policy=compact: kafka-configs --alter --entity-type topics --entity-name {topic} "
            "--add-config cleanup.policy=compact"
        )
