"""A member's endpoint for offsets: which callers it serves, and for which connectors."""

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from cooperator.agent.offsets import OffsetsPage
from cooperator.agent.options import WorkerOptions
from cooperator.connectors.offset_operations import Subject
from cooperator.connectors.offsets import Change, Entry
from cooperator.connectors.state_query import StateError, StateQuery
from cooperator.leader.endpoint import Endpoint
from cooperator.model import ClusterConfig, ConnectorConfig, SessionKey, TargetState
from cooperator.rest import spark
from cooperator.rest.answers import RequestRefused
from cooperator.rest.calls import ask
from cooperator.rest.parts import ChangeVerb, OffsetChange
from cooperator.rest.spark import SparkOffsets

KEY = SessionKey(b"k" * 32, "HmacSHA256", 0)
OTHER = SessionKey(b"o" * 32, "HmacSHA256", 0)
PARTITION = {"unit": "unit-0", "source": 0}
CONFIG = {
    "connector.class": "spark",
    "source.format": "kafka",
    "source.options.subscribe": "in",
    "sink.format": "console",
}


class Member:
    """The endpoint on a port of its own. ``config`` is the content of the config log."""

    def __init__(self, root: Path) -> None:
        self.config = ClusterConfig()
        options = WorkerOptions("g", "nowhere:1", "lake-0", "1", root, root / "checkpoints")
        self.asked_state: list[tuple[str, StateQuery]] = []
        self.page = OffsetsPage(options, lambda: self.config, self.read)
        routes = {"POST /offsets": self.page.answer, "GET /offsets/nonce": self.page.nonce}
        routes["POST /offsets/change"] = self.page.change
        routes["POST /state"] = self.page.state
        self.endpoint = Endpoint("127.0.0.1", 0, routes)

    def read(self, subject: Subject, query: StateQuery) -> dict[str, Any]:
        self.asked_state.append((subject.name, query))
        if query.unit:
            raise StateError(f"unit {query.unit!r} is not a unit of copy")
        return {"rows": [{"key": {"user": "ada"}, "value": {"count": 3}}], "cut": False}

    def has(self, target: TargetState, key: SessionKey | None = KEY) -> None:
        self.config = ClusterConfig(1, {"copy": ConnectorConfig(CONFIG, target)}, key)

    def asked(self, key: SessionKey | None = KEY) -> SparkOffsets:
        return SparkOffsets(lambda: [self.endpoint.url.rstrip("/")], lambda: key)


@pytest.fixture
def member(tmp_path: Path) -> Iterator[Member]:
    unit = tmp_path / "checkpoints" / "copy" / "unit-0"
    (unit / "offsets").mkdir(parents=True)
    (unit / "commits").mkdir()
    (unit / "offsets" / "0").write_text('v1\n{}\n{"in":{"0":5}}')
    (unit / "commits" / "0").write_text("v1\n{}")
    member = Member(tmp_path)
    member.endpoint.start()
    yield member
    member.endpoint.stop()


def refused(call: Any) -> tuple[int, str]:
    with pytest.raises(RequestRefused) as caught:
        call()
    return caught.value.code, str(caught.value)


def test_a_caller_with_the_session_key_reads_and_resets_offsets(member: Member) -> None:
    member.has(TargetState.STOPPED)
    offsets = member.asked()
    assert offsets.listed("copy", {}) == [{"partition": PARTITION, "offset": {"in": {"0": 5}}}]
    assert "1 in all" in offsets.reset("copy", {})
    assert offsets.listed("copy", {}) == []


def test_a_dry_run_names_the_changes_and_makes_none(member: Member) -> None:
    member.has(TargetState.STOPPED)
    gone = [Change(PARTITION, {"in": {"0": 5}}, None)]
    asked = member.asked()
    assert asked.changed("copy", {}, OffsetChange(ChangeVerb.RESET, dry_run=True)) == gone
    assert len(asked.listed("copy", {})) == 1
    assert asked.changed("copy", {}, OffsetChange(ChangeVerb.RESET)) == gone
    assert asked.listed("copy", {}) == []
    wrong = OffsetChange(ChangeVerb.ALTER, (Entry({"topic": "in"}, {"offset": 1}),), dry_run=True)
    assert refused(lambda: asked.changed("copy", {}, wrong))[0] == 400
    code, said = refused(lambda: asked.changed("copy", {}, OffsetChange(ChangeVerb.MIGRATE, dry_run=True)))
    assert (code, "nothing to migrate" in said) == (400, True)


def test_a_member_of_an_earlier_release_makes_no_change(member: Member) -> None:
    member.has(TargetState.STOPPED)
    routes = {"POST /offsets": member.page.answer, "GET /offsets/nonce": member.page.nonce}
    earlier = Endpoint("127.0.0.1", 0, routes)
    earlier.start()
    try:
        asked = SparkOffsets(lambda: [earlier.url.rstrip("/")], lambda: KEY)
        code, said = refused(lambda: asked.changed("copy", {}, OffsetChange(ChangeVerb.RESET, dry_run=True)))
        assert (code, "does not know this request" in said) == (409, True)
        assert len(asked.listed("copy", {})) == 1
    finally:
        earlier.stop()


@pytest.mark.parametrize("target", list(TargetState))
def test_state_is_read_whatever_the_connector_does(member: Member, target: TargetState) -> None:
    member.has(target)
    query = StateQuery({"user": "ada"}, limit=7)
    assert member.asked().state("copy", {}, query)["rows"][0]["value"] == {"count": 3}
    assert member.asked_state == [("copy", query)]


def test_questions_about_state_are_refused_with_the_reason(member: Member) -> None:
    member.has(TargetState.STARTED)
    wrong = StateQuery(unit="u-9")
    assert refused(lambda: member.asked().state("copy", {}, wrong)) == (
        400,
        "unit 'u-9' is not a unit of copy",
    )
    assert refused(lambda: member.asked(OTHER).state("copy", {}, StateQuery()))[0] == 403
    assert refused(lambda: member.asked().state("other", {}, StateQuery()))[0] == 404
    [(name, _)] = member.asked_state
    assert name == "copy", "only the first question was asked"


def test_another_member_answers_for_one_that_has_ended(member: Member) -> None:
    member.has(TargetState.STARTED)
    ended = Endpoint("127.0.0.1", 0, {})
    ended.start()
    ended.stop()
    urls = [ended.url.rstrip("/"), member.endpoint.url.rstrip("/")]
    found = SparkOffsets(lambda: urls, lambda: KEY).state("copy", {}, StateQuery())
    assert found["cut"] is False
    code, said = refused(lambda: SparkOffsets(lambda: urls[:1], lambda: KEY).state("copy", {}, StateQuery()))
    assert (code, "no member answers" in said) == (503, True)


def test_a_member_of_an_earlier_release_reads_no_state(member: Member) -> None:
    member.has(TargetState.STARTED)
    earlier = Endpoint("127.0.0.1", 0, {"GET /offsets/nonce": member.page.nonce})
    earlier.start()
    try:
        asked = SparkOffsets(lambda: [earlier.url.rstrip("/")], lambda: KEY)
        code, said = refused(lambda: asked.state("copy", {}, StateQuery()))
        assert (code, "does not know this request" in said) == (409, True)
    finally:
        earlier.stop()


def test_strangers_that_ask_for_nonces_take_none_away(
    member: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    member.has(TargetState.STOPPED)

    def after_strangers(urls: Sequence[str], method: str, *more: Any) -> Any:
        answer = ask(urls, method, *more)
        if method == "GET":
            for _ in range(2_000):
                asyncio.run(member.page.nonce(None))  # type: ignore[arg-type]
        return answer

    monkeypatch.setattr(spark, "ask", after_strangers)
    assert member.asked().listed("copy", {})


def test_callers_without_the_session_key_are_refused(member: Member) -> None:
    member.has(TargetState.STOPPED)
    assert refused(lambda: member.asked(OTHER).reset("copy", {}))[0] == 403
    urls = [member.endpoint.url.rstrip("/")]
    assert refused(lambda: ask(urls, "POST", "/offsets", b"{}"))[0] == 400
    member.has(TargetState.STOPPED, None)
    assert refused(lambda: member.asked().listed("copy", {}))[0] == 503
    assert refused(lambda: member.asked(None).listed("copy", {}))[0] == 503


def test_a_request_that_somebody_has_overheard_cannot_be_sent_again(
    member: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    member.has(TargetState.STOPPED)
    overheard: list[Any] = []

    def listening(urls: Sequence[str], method: str, *more: Any) -> Any:
        overheard.append((urls, method, *more))
        return ask(urls, method, *more)

    monkeypatch.setattr(spark, "ask", listening)
    assert "1 in all" in member.asked().reset("copy", {})
    code, said = refused(lambda: ask(*overheard[-1]))
    assert (code, said) == (
        403,
        "the nonce was not issued by this member or has been used: request a new one",
    )


def test_offsets_move_only_of_connectors_that_the_config_log_calls_stopped(member: Member) -> None:
    member.has(TargetState.PAUSED)
    assert len(member.asked().listed("copy", {})) == 1
    code, said = refused(lambda: member.asked().alter("copy", {}, [(PARTITION, None)]))
    assert (code, said) == (409, "connector copy is PAUSED, not STOPPED: stop it first")
    assert refused(lambda: member.asked().listed("other", {}))[0] == 404


def test_refusals_name_what_is_wrong(member: Member) -> None:
    member.has(TargetState.STOPPED)
    code, said = refused(lambda: member.asked().alter("copy", {}, [({"topic": "in"}, {"offset": 1})]))
    assert code == 400
    assert "topic" in said


def test_without_members_the_caller_is_told_to_retry() -> None:
    assert refused(lambda: SparkOffsets(lambda: (), lambda: KEY).listed("copy", {}))[0] == 503
