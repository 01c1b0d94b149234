"""Offsets of stock connectors (``parts.Offsets``): records of the offset topic, or of a consumer group."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from cooperator.connectors.offsets import Change, Entry
from cooperator.connectors.offsets.entries import altered, changes
from cooperator.connectors.state_query import StateQuery
from cooperator.logs import LogUnavailable
from cooperator.logs.connect_offsets import ConnectOffsets, GroupInUse
from cooperator.rest.answers import RequestRefused
from cooperator.rest.parts import ChangeVerb, Entries, Members, OffsetChange

_TOPIC: Final = "kafka_topic"
_PARTITION: Final = "kafka_partition"
_OFFSET: Final = "kafka_offset"


class StockOffsets:
    """``topic`` has the Worker's offsets. ``fence`` ends remaining producers of a connector's tasks (KIP-618)
    and does nothing without exactly-once sources; it raises RequestRefused."""

    def __init__(
        self,
        offsets: Callable[[], ConnectOffsets],
        topic: str,
        members: Members,
        fence: Callable[[str], None],
    ) -> None:
        self._offsets = offsets
        self._topic = topic
        self._members = members
        self._fence = fence

    def listed(self, name: str, config: Mapping[str, str]) -> list[dict[str, Any]]:
        with _refusing(name):
            if self._is_sink(name, config):
                found = self._offsets().sink(_group(name, config))
                return [_of_sink(*place, offset) for place, offset in sorted(found.items())]
            entries = self._offsets().source(self._topic_of(config), name)
            return [{"partition": dict(p), "offset": None if o is None else dict(o)} for p, o in entries]

    def alter(self, name: str, config: Mapping[str, str], entries: Entries) -> str:
        with _refusing(name):
            if self._is_sink(name, config):
                self._offsets().write_sink(
                    _group(name, config), dict(map(_to_sink, *zip(*entries, strict=True)))
                )
            else:
                self._fence(name)
                self._offsets().write_source(self._topic_of(config), name, entries)
        return _done("altered")

    def reset(self, name: str, config: Mapping[str, str]) -> str:
        with _refusing(name):
            if self._is_sink(name, config):
                self._offsets().forget_sink(_group(name, config))
            else:
                self._fence(name)
                offsets, topic = self._offsets(), self._topic_of(config)
                offsets.write_source(topic, name, [(p, None) for p, _ in offsets.source(topic, name)])
        return _done("reset")

    def state(self, name: str, config: Mapping[str, str], query: StateQuery) -> dict[str, Any]:
        raise RequestRefused(
            400,
            f"{name} runs on Kafka Connect's own workers, which have no state of queries: ask a connector of "
            "a Worker with runtime: spark",
        )

    def changed(self, name: str, config: Mapping[str, str], asked: OffsetChange) -> list[Change]:
        if asked.do is ChangeVerb.MIGRATE:
            self.migrate(name, config)
        if asked.to is not None:
            raise RequestRefused(
                400,
                f"to is {asked.to.value!r}, but {name} runs on Kafka Connect's own workers, whose plug-ins "
                "alone know the ends of a source: use alter with offsets, or reset without to",
            )
        current = [Entry(each["partition"], each["offset"]) for each in self.listed(name, config)]
        current = [entry for entry in current if entry.offset is not None]
        if asked.do is ChangeVerb.RESET:
            found = changes(current, [])
            if not asked.dry_run:
                self.reset(name, config)
            return found
        wanted = [(entry.partition, entry.offset) for entry in asked.entries]
        if self._is_sink(name, config):
            # Numbers may have been given as text.
            places = (_to_sink(*pair) for pair in wanted)
            entries = [_entry(*place, offset) for place, offset in places]
        else:
            entries = list(asked.entries)
        found = changes(current, altered(current, entries))
        if not asked.dry_run:
            self.alter(name, config, wanted)
        return found

    def migrate(self, name: str, config: Mapping[str, str]) -> str:
        raise RequestRefused(
            400, f"{name} runs on Kafka Connect's own workers, so that it has nothing to migrate"
        )

    def _topic_of(self, config: Mapping[str, str]) -> str:
        """A source may keep its offsets in a topic of its own (KIP-618)."""
        return config.get("offsets.storage.topic") or self._topic

    def _is_sink(self, name: str, config: Mapping[str, str]) -> bool:
        class_name = config.get("connector.class", "")
        kind = self._members.type_of(class_name)
        if kind == "unknown":
            raise RequestRefused(
                503,
                f"it is unknown whether {name} is a source or a sink until a member with the plug-in "
                f"{class_name} is up: try again then",
            )
        return kind == "sink"


def _group(name: str, config: Mapping[str, str]) -> str:
    return config.get("consumer.override.group.id") or f"connect-{name}"


def _of_sink(topic: str, partition: int, offset: int) -> dict[str, Any]:
    return {"partition": {_TOPIC: topic, _PARTITION: partition}, "offset": {_OFFSET: offset}}


def _entry(topic: str, partition: int, offset: int | None) -> Entry:
    said = _of_sink(topic, partition, offset or 0)
    return Entry(said["partition"], None if offset is None else said["offset"])


def _to_sink(
    partition: Mapping[str, Any], offset: Mapping[str, Any] | None
) -> tuple[tuple[str, int], int | None]:
    form = f'write {{"{_TOPIC}": …, "{_PARTITION}": …}} and {{"{_OFFSET}": …}}'
    topic = partition.get(_TOPIC)
    if set(partition) != {_TOPIC, _PARTITION} or not isinstance(topic, str) or not topic:
        raise RequestRefused(400, f"unknown keys {sorted(partition)} of a sink's partition: {form}")
    if offset is not None and set(offset) != {_OFFSET}:
        raise RequestRefused(400, f"unknown keys {sorted(offset)} of a sink's offset: {form}")
    number = _number(partition[_PARTITION], form, 2**31)
    return (topic, number), None if offset is None else _number(offset[_OFFSET], form, 2**63)


def _number(value: Any, form: str, limit: int) -> int:
    """Clients send numbers as numbers, or as text."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 20:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < limit:
        raise RequestRefused(400, f"a partition or an offset of a sink is not a number of at least 0: {form}")
    return value


def _done(word: str) -> str:
    return (
        f"The offsets that the workers keep for this connector have been {word}. Its plug-in was not called: "
        f"offsets that it keeps elsewhere must be {word} there."
    )


@contextmanager
def _refusing(name: str) -> Iterator[None]:
    try:
        yield
    except GroupInUse as error:
        raise RequestRefused(
            409, f"tasks of {name} are still in consumer group {error}: try again in a moment"
        ) from None
    except LogUnavailable as error:
        raise RequestRefused(503, str(error)) from None
