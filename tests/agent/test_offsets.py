"""A member's page for offsets: whom it serves, and of what."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cooperator.agent.offsets import OffsetsPage
from cooperator.agent.options import WorkerOptions
from cooperator.leader.endpoint import Endpoint
from cooperator.model import ClusterConfig, ConnectorConfig, SessionKey, TargetState
from cooperator.rest.answers import Refused
from cooperator.rest.calls import ask
from cooperator.rest.spark import SparkOffsets

KEY = SessionKey(b"k" * 32, "HmacSHA256", 0)
OTHER = SessionKey(b"o" * 32, "HmacSHA256", 0)
PARTITION = {"kafka_topic": "in", "kafka_partition": 0}
CONFIG = {
    "connector.class": "kafka-to-kafka",
    "topics": "in",
    "topic": "out",
    "bootstrap.servers": "nowhere:1",
}


class Member:
    """The page on a port of its own. ``config``: what the config log says."""

    def __init__(self, root: Path) -> None:
        self.config = ClusterConfig()
        options = WorkerOptions("g", "nowhere:1", "lake-0", "1", root, root / "checkpoints")
        self.endpoint = Endpoint(
            "127.0.0.1", 0, {"POST /offsets": OffsetsPage(options, lambda: self.config).answer}
        )

    def has(self, target: TargetState, key: SessionKey | None = KEY) -> None:
        self.config = ClusterConfig(1, {"copy": ConnectorConfig(CONFIG, target)}, key)

    def asked(self, key: SessionKey | None = KEY) -> SparkOffsets:
        return SparkOffsets(lambda: [self.endpoint.url.rstrip("/")], lambda: key)


@pytest.fixture
def member(tmp_path: Path) -> Iterator[Member]:
    unit = tmp_path / "checkpoints" / "copy" / "in-0"
    (unit / "offsets").mkdir(parents=True)
    (unit / "commits").mkdir()
    (unit / "offsets" / "0").write_text('v1\n{}\n{"in":{"0":5}}')
    (unit / "commits" / "0").write_text("v1\n{}")
    member = Member(tmp_path)
    member.endpoint.start()
    yield member
    member.endpoint.stop()


def refused(call: Any) -> tuple[int, str]:
    with pytest.raises(Refused) as caught:
        call()
    return caught.value.code, str(caught.value)


def test_who_has_the_session_key_is_told_the_offsets_and_resets_them(member: Member) -> None:
    member.has(TargetState.STOPPED)
    offsets = member.asked()
    assert offsets.listed("copy", {}) == [{"partition": PARTITION, "offset": {"kafka_offset": 5}}]
    assert "1 in all" in offsets.reset("copy", {})
    assert offsets.listed("copy", {}) == []


def test_nobody_else_is(member: Member) -> None:
    member.has(TargetState.STOPPED)
    assert refused(lambda: member.asked(OTHER).reset("copy", {}))[0] == 403
    urls = [member.endpoint.url.rstrip("/")]
    assert refused(lambda: ask(urls, "POST", "/offsets", b"{}"))[0] == 400
    member.has(TargetState.STOPPED, None)
    assert refused(lambda: member.asked().listed("copy", {}))[0] == 503
    assert refused(lambda: member.asked(None).listed("copy", {}))[0] == 503


def test_nothing_is_moved_that_the_config_log_does_not_call_stopped(member: Member) -> None:
    member.has(TargetState.PAUSED)
    assert len(member.asked().listed("copy", {})) == 1
    code, said = refused(lambda: member.asked().alter("copy", {}, [(PARTITION, None)]))
    assert (code, said) == (409, "connector copy is PAUSED, not STOPPED: stop it first")
    assert refused(lambda: member.asked().listed("other", {}))[0] == 404


def test_what_is_wrong_is_said_by_name(member: Member) -> None:
    member.has(TargetState.STOPPED)
    code, said = refused(lambda: member.asked().alter("copy", {}, [({"topic": "in"}, {"offset": 1})]))
    assert code == 400
    assert "topic" in said


def test_without_members_it_is_to_be_asked_again() -> None:
    assert refused(lambda: SparkOffsets(lambda: (), lambda: KEY).listed("copy", {}))[0] == 503
