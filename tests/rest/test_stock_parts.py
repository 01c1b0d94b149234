"""Requests to stock workers, and to Kafka on their behalf, over fakes of both."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest
from aiohttp import web

from cooperator.connectors.offsets import Change, Where
from cooperator.connectors.offsets import Entry as Position
from cooperator.leader.endpoint import Endpoint, error_answer, json_answer
from cooperator.logs import LogUnavailable
from cooperator.logs.connect_offsets import Entry, GroupInUse
from cooperator.rest.answers import RequestRefused
from cooperator.rest.parts import ChangeVerb, OffsetChange
from cooperator.rest.stock import StockMembers
from cooperator.rest.stock_offsets import StockOffsets

SOURCE = {"connector.class": "org.example.LinesSource"}
PLUGINS = [
    {"class": "org.example.LinesSource", "type": "source", "version": "1"},
    {"class": "org.example.LinesSinkConnector", "type": "sink", "version": "1"},
    {"class": "org.example.Converter", "type": "converter"},
]


class Worker:
    """A worker that answers requests and records them."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, Any]] = []
        self.endpoint = Endpoint("127.0.0.1", 0, {"* /{path:.*}": self.answer})

    async def answer(self, request: web.Request) -> web.StreamResponse:
        text = await request.text()
        self.asked.append((f"{request.method} {request.path_qs}", json.loads(text) if text else None))
        if request.path == "/connector-plugins":
            return json_answer(200, PLUGINS)
        if "missing" in request.path:
            return error_answer(404, "no such plug-in")
        return json_answer(200, ["a"])

    @property
    def url(self) -> str:
        return self.endpoint.url.rstrip("/")


@pytest.fixture
def worker() -> Iterator[Worker]:
    worker = Worker()
    worker.endpoint.start()
    yield worker
    worker.endpoint.stop()


class StoredOffsets:
    """Offsets in memory. ``busy`` means that the group has members."""

    def __init__(self, done: list[str]) -> None:
        self.done = done
        self.sources: dict[str, list[Entry]] = {}
        self.groups: dict[str, dict[tuple[str, int], int | None]] = {}
        self.busy = self.away = False

    def source(self, topic: str, connector: str) -> list[Entry]:
        if self.away:
            raise LogUnavailable("no broker")
        return self.sources.get(topic, [])

    def write_source(self, topic: str, connector: str, entries: Sequence[Entry]) -> None:
        self.done.append(f"write {topic}")
        self.sources[topic] = [entry for entry in entries if entry[1] is not None]

    def sink(self, group: str) -> Mapping[tuple[str, int], int | None]:
        return self.groups.get(group, {})

    def write_sink(self, group: str, offsets: Mapping[tuple[str, int], int | None]) -> None:
        self.forget_sink(group)
        self.groups[group] = dict(offsets)

    def forget_sink(self, group: str) -> None:
        if self.busy:
            raise GroupInUse(group)
        self.groups.pop(group, None)


@pytest.fixture
def kept() -> StoredOffsets:
    return StoredOffsets([])


@pytest.fixture
def offsets(kept: StoredOffsets, worker: Worker) -> StockOffsets:
    members = StockMembers(lambda: [worker.url])
    fence = lambda name: kept.done.append(f"fence {name}")  # noqa: E731
    return StockOffsets(lambda: kept, "offsets", members, fence)  # type: ignore[arg-type,return-value]


def refused(call: Any) -> tuple[int, str]:
    with pytest.raises(RequestRefused) as caught:
        call()
    return caught.value.code, str(caught.value)


def test_the_first_available_member_answers_for_all(worker: Worker) -> None:
    members = StockMembers(lambda: ["http://127.0.0.1:9", worker.url])
    assert members.plugins(connectors_only=False) == PLUGINS
    assert worker.asked == [("GET /connector-plugins?connectorsOnly=false", None)]
    assert refused(lambda: members.plugin_config("missing")) == (404, "no such plug-in")


def test_a_request_without_any_available_member_is_503(worker: Worker) -> None:
    assert refused(lambda: StockMembers(lambda: ()).plugins(True))[0] == 503
    code, said = refused(lambda: StockMembers(lambda: ["http://127.0.0.1:9"]).plugins(True))
    assert (code, "127.0.0.1:9" in said) == (503, True)


def test_types_are_known_by_full_and_short_names_and_refreshed_now_and_then(worker: Worker) -> None:
    now_s = [0.0]
    members = StockMembers(lambda: [worker.url], lambda: now_s[0])
    names = ("org.example.LinesSource", "LinesSink", "LinesSinkConnector", "org.example.Converter")
    assert [members.type_of(name) for name in names] == ["source", "sink", "sink", "unknown"]
    assert len(worker.asked) == 1
    now_s[0] = 61.0
    members.type_of("LinesSink")
    assert len(worker.asked) == 2


def test_unavailable_members_are_not_asked_for_each_type() -> None:
    now_s, asked = [0.0], []
    members = StockMembers(lambda: asked.append(1) or (), lambda: now_s[0])  # type: ignore[func-returns-value]
    assert [members.type_of(name) for name in ("a", "b", "c")] == ["unknown"] * 3
    assert len(asked) == 1
    now_s[0] = 4.0
    members.type_of("a")
    assert len(asked) == 2


def test_levels_are_set_on_every_member(worker: Worker) -> None:
    members = StockMembers(lambda: [worker.url, worker.url])
    assert members.set_level("root", "DEBUG", "worker") == ["a"]
    assert worker.asked == [("PUT /admin/loggers/root", {"level": "DEBUG"})] * 2
    assert members.set_level("root", "DEBUG", "cluster") is None


def test_producers_are_fenced_before_a_source_is_moved(offsets: StockOffsets, kept: StoredOffsets) -> None:
    assert "have been altered" in offsets.alter("lines", SOURCE, [({"file": "x"}, {"position": 1})])
    assert offsets.listed("lines", SOURCE) == [{"partition": {"file": "x"}, "offset": {"position": 1}}]
    assert "have been reset" in offsets.reset("lines", SOURCE)
    assert kept.done == ["fence lines", "write offsets"] * 2
    assert offsets.listed("lines", SOURCE) == []


def test_a_source_may_have_its_own_offsets_topic(offsets: StockOffsets, kept: StoredOffsets) -> None:
    offsets.alter("lines", {**SOURCE, "offsets.storage.topic": "own"}, [({}, {"position": 1})])
    assert kept.done == ["fence lines", "write own"]


def test_offsets_of_a_sink_are_those_of_its_group(offsets: StockOffsets, kept: StoredOffsets) -> None:
    place = {"kafka_topic": "t", "kafka_partition": "1"}
    config = {"connector.class": "org.example.LinesSinkConnector"}
    offsets.alter("lines", config, [(place, {"kafka_offset": 7})])
    assert kept.groups == {"connect-lines": {("t", 1): 7}}
    shown = {"kafka_topic": "t", "kafka_partition": 1}
    assert offsets.listed("lines", config) == [{"partition": shown, "offset": {"kafka_offset": 7}}]
    kept.busy = True
    assert "are still in consumer group connect-lines" in refused(lambda: offsets.reset("lines", config))[1]
    own = {**config, "consumer.override.group.id": "mine"}
    assert offsets.listed("lines", own) == []


def test_changes_are_named_before_they_are_made(offsets: StockOffsets, kept: StoredOffsets) -> None:
    config = {"connector.class": "org.example.LinesSinkConnector"}
    place = {"kafka_topic": "t", "kafka_partition": 1}
    as_text = Position({**place, "kafka_partition": "1"}, {"kafka_offset": "7"})
    for dry_run in (True, False):
        asked = OffsetChange(ChangeVerb.ALTER, (as_text,), dry_run=dry_run)
        assert offsets.changed("lines", config, asked) == [Change(place, None, {"kafka_offset": 7})]
        assert bool(kept.groups) is not dry_run
    asked = OffsetChange(ChangeVerb.ALTER, (Position(place, None),), dry_run=True)
    gone = [Change(place, {"kafka_offset": 7}, None)]
    assert offsets.changed("lines", config, asked) == gone
    assert offsets.changed("lines", config, OffsetChange(ChangeVerb.RESET)) == gone
    assert offsets.listed("lines", config) == []
    to = OffsetChange(ChangeVerb.RESET, to=Where.LATEST)
    assert "to is 'latest'" in refused(lambda: offsets.changed("lines", config, to))[1]
    source = OffsetChange(ChangeVerb.ALTER, (Position({"file": "x"}, {"position": 1}),), dry_run=True)
    assert offsets.changed("lines", SOURCE, source) == [Change({"file": "x"}, None, {"position": 1})]
    assert "fence lines" not in kept.done


@pytest.mark.parametrize(
    ("partition", "offset"),
    [
        ({"topic": "t"}, {"kafka_offset": 1}),
        ({"kafka_topic": "", "kafka_partition": 1}, {"kafka_offset": 1}),
        ({"kafka_topic": "t", "kafka_partition": -1}, {"kafka_offset": 1}),
        ({"kafka_topic": "t", "kafka_partition": True}, {"kafka_offset": 1}),
        ({"kafka_topic": "t", "kafka_partition": 1}, {"kafka_offset": "x"}),
        ({"kafka_topic": "t", "kafka_partition": 1}, {"kafka_offset": 1, "more": 1}),
    ],
)
def test_positions_of_a_sink_have_one_form(offsets: StockOffsets, partition: Any, offset: Any) -> None:
    config = {"connector.class": "org.example.LinesSinkConnector"}
    code, said = refused(lambda: offsets.alter("lines", config, [(partition, offset)]))
    assert (code, "kafka_partition" in said) == (400, True)


def test_unknown_or_unavailable_offsets_are_retriable_errors(
    offsets: StockOffsets, kept: StoredOffsets
) -> None:
    assert refused(lambda: offsets.listed("lines", {"connector.class": "org.example.Gone"}))[0] == 503
    kept.away = True
    assert refused(lambda: offsets.listed("lines", SOURCE)) == (503, "no broker")
