"""The names of a Connect cluster's topics. Pure."""

from dataclasses import dataclass

from cooperator.crd import Worker


@dataclass(frozen=True, slots=True)
class TopicNames:
    config: str
    offset: str
    status: str


def topic_names(worker: Worker) -> TopicNames:
    """Return the Worker's topic names, or defaults made from the group id."""
    topics, group = worker.spec.stock.topics, worker.group_id
    return TopicNames(
        topics.config or f"{group}-configs",
        topics.offset or f"{group}-offsets",
        topics.status or f"{group}-status",
    )
