"""Requests about offsets in annotations: what is refused, and that none is carried out twice, even if its
manifest is applied again after another one."""

import contextlib
import json
from concurrent.futures import Executor, Future
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cooperator.connectors.offsets import Change, OffsetsError, Where
from cooperator.connectors.state_query import StateQuery
from cooperator.controller.api.client import ApiError
from cooperator.controller.names import OFFSETS_REQUEST, OFFSETS_RESULT
from cooperator.controller.offset_requests import FINAL, MOST_BYTES, RequestPhase, fitting, read, read_result
from cooperator.controller.offset_work import OffsetWork
from cooperator.crd import Connector, Worker, from_object
from cooperator.rest.parts import ChangeVerb, OffsetChange
from tests.harness.examples import examples

ENTRY = {"partition": {"kafka_topic": "in", "kafka_partition": 0}, "offset": {"kafka_offset": 7}}


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("{", "is not valid JSON"),
        ("[]", "is not an object"),
        ({"do": "lsit"}, "do is 'lsit': did you mean 'list'?"),
        ({"do": "list", "dryrun": True}, "the unknown field 'dryrun': did you mean 'dryRun'?"),
        ({"do": "reset", "dryRun": "yes"}, "dryRun is 'yes': use true or false"),
        ({"do": "reset", "to": "newest"}, "to is 'newest': use earliest or latest"),
        ({"do": "list", "to": "latest"}, "with do: reset only"),
        ({"do": "list", "skip": -1}, "skip is '-1': use a number of at least 0"),
        ({"do": "alter"}, "offsets are missing"),
        ({"do": "reset", "offsets": [ENTRY]}, "offsets do not belong to reset"),
        ({"do": "alter", "offsets": [{"partition": {}}]}, "offsets[0].offset is neither an object nor null"),
        ({"do": "alter", "offsets": [ENTRY, ENTRY]}, "offsets[1] names the partition"),
        ({"do": "list", "query": {}}, "query does not belong to list"),
        ({"do": "state"}, "query is missing"),
        ({"do": "state", "query": {"kesy": {}}}, "query: the unknown field 'kesy': did you mean 'keys'?"),
        ({"do": "state", "query": {"limit": 0}}, "query: limit is '0': use a number from 1 to 1,000"),
        ({"do": "list", "id": "x" * MOST_BYTES}, "at most 100,000 are allowed: split it"),
    ],
)
def test_malformed_requests_are_refused_with_field_value_and_remedy(asked: Any, said: str) -> None:
    with pytest.raises(OffsetsError) as caught:
        read(asked if isinstance(asked, str) else json.dumps(asked))
    assert said in str(caught.value)


def test_well_formed_requests_are_read() -> None:
    assert read('{"do": "list"}').change is None
    state = read('{"do": "state", "query": {"keys": {"user": "ada"}, "limit": 5}}')
    assert (state.change, state.query) == (None, StateQuery({"user": "ada"}, limit=5))
    reset = read('{"id": "1", "do": "reset", "to": "latest", "dryRun": true}').change
    assert reset == OffsetChange(ChangeVerb.RESET, to=Where.LATEST, dry_run=True)
    alter = read(json.dumps({"do": "alter", "offsets": [ENTRY]})).change
    assert alter is not None
    assert [entry.offset for entry in alter.entries] == [{"kafka_offset": 7}]


def test_a_result_that_does_not_fit_says_how_much_there_is() -> None:
    items = [{"partition": {"n": n}, "offset": {"o": "x" * 100}} for n in range(2_000)]
    found = fitting("offsets", items)
    assert found["total"] == 2_000
    assert 500 < len(found["offsets"]) < 1_000
    assert len(json.dumps(found)) <= MOST_BYTES + 100


# --- histories --------------------------------------------------------------------------------------


class Server:
    """One Connector at an API server that may fail, before or after a write."""

    def __init__(self) -> None:
        self.annotations: dict[str, str] = {}
        self.fails = ""

    def merge(self, kind: Any, namespace: str, name: str, patch: Any) -> Any:
        fails, self.fails = self.fails, ""
        if fails == "before":
            raise ApiError(500, "", "it is away")
        for key, value in patch["metadata"]["annotations"].items():
            self.annotations[key] = value
        if fails == "after":
            raise ApiError(500, "", "the answer was lost")
        return self.body()

    def create(self, kind: Any, manifest: Any) -> Any:
        return manifest

    def body(self, state: str = "Stopped") -> dict[str, Any]:
        metadata = {"name": "copy", "namespace": "n", "uid": "u", "annotations": dict(self.annotations)}
        return {"metadata": metadata, "spec": {"state": state}}


class Later(Executor):
    """Runs what was submitted when it is told to."""

    def __init__(self) -> None:
        self.waiting: list[Any] = []

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self.waiting.append(lambda: future.set_result(fn(*args, **kwargs)))
        return future

    def run(self) -> None:
        waiting, self.waiting = self.waiting, []
        for each in waiting:
            each()


class Positions:
    """Counts changes by the offset that they ask for, which is the request's number."""

    def __init__(self) -> None:
        self.made: list[int] = []

    def changed(self, name: str, config: Any, asked: OffsetChange) -> list[Change]:
        [entry] = asked.entries
        assert entry.offset is not None
        if not asked.dry_run:
            self.made.append(entry.offset["kafka_offset"])
        return [Change(entry.partition, None, entry.offset)]


class Leading:
    def __init__(self, surroundings: "Surroundings") -> None:
        self._world = surroundings

    def status(self) -> dict[str, Any]:
        return self._world.facts()


WORKER = from_object(
    {
        "apiVersion": "cooperator.dev/v1alpha1",
        "kind": "Worker",
        "metadata": {"name": "lake", "namespace": "n"},
        "spec": {"replicas": 1},
    }
)


class Surroundings:
    """A user who sends requests, an operator that may be replaced at any time, and tasks that stop late."""

    def __init__(self) -> None:
        self.server, self.positions = Server(), Positions()
        self.state, self.busy, self.leading = "Stopped", False, True
        self.sent = 0
        self.dry: set[int] = set()
        self.texts: list[str] = []
        self.begin()

    def begin(self) -> None:
        """A new operator takes over. Work that the earlier one had not begun is lost."""
        self.threads = Later()
        self.work = OffsetWork(
            self.server,  # type: ignore[arg-type]
            lambda: Leading(self),  # type: ignore[arg-type,return-value]
            lambda body: None,
            threads=self.threads,
            operations=lambda worker, leader: self.positions,  # type: ignore[arg-type,return-value]
        )

    def facts(self) -> dict[str, Any]:
        target = "STOPPED" if self.state == "Stopped" else "STARTED"
        owned = ["copy-0"] if self.busy else []
        return {
            "leading": self.leading,
            "known": self.leading,
            "connectors": {"copy": {"state": target, "regrouping": False}},
            "members": [{"identity": "lake-0", "owned": owned, "stopping": []}],
            "tasks": [],
        }

    def send(self, dry_run: bool) -> None:
        self.sent += 1
        if dry_run:
            self.dry.add(self.sent)
        asked = {**ENTRY, "offset": {"kafka_offset": self.sent}}
        text = json.dumps({"do": "alter", "dryRun": dry_run, "offsets": [asked]})
        self.texts.append(text)
        self.server.annotations[OFFSETS_REQUEST] = text

    def step(self) -> None:
        assert isinstance(WORKER, Worker)
        connector = from_object(
            {
                "apiVersion": "cooperator.dev/v1alpha1",
                "kind": "Connector",
                "metadata": {"name": "copy", "namespace": "n"},
                "spec": {"workerRef": {"name": "lake"}, "class": "noop", "state": self.state},
            }
        )
        assert isinstance(connector, Connector)
        with contextlib.suppress(ApiError):
            self.work.keep(WORKER, {"copy": connector}, [self.server.body(self.state)], self.facts())

    def result(self) -> Any:
        return read_result(self.server.annotations.get(OFFSETS_RESULT))

    def do(self, event: str) -> None:
        match event:
            case "send" | "dry":
                self.send(event == "dry")
            case "again":
                self.server.annotations[OFFSETS_REQUEST] = self.texts[0]
            case "step":
                self.step()
            case "run":
                self.threads.run()
            case "crash":
                self.begin()
            case "before" | "after":
                self.server.fails = event
            case "busy":
                self.busy = not self.busy
            case "away":
                self.leading = not self.leading
            case state:
                self.state = state


EVENTS = (
    *("send", "send", "dry", *("step",) * 5, *("run",) * 4, *("crash",) * 3, "again", "again"),
    *("before", "after", "after", "busy", "away", "Running", "Stopped", "Stopped"),
)


@settings(max_examples=examples(100, long=300), deadline=None)
@given(st.lists(st.sampled_from(EVENTS), max_size=20))
def test_no_request_is_carried_out_twice_and_every_last_one_ends(events: list[str]) -> None:
    surroundings = Surroundings()
    surroundings.send(dry_run=False)
    for event in events:
        surroundings.do(event)
        assert len(set(surroundings.positions.made)) == len(surroundings.positions.made), events
        assert not set(surroundings.positions.made) & surroundings.dry
    surroundings.busy, surroundings.leading, surroundings.state, surroundings.server.fails = (
        False,
        True,
        "Stopped",
        "",
    )
    for _ in range(4):
        surroundings.step()
        surroundings.threads.run()
    phase = RequestPhase(surroundings.result()["phase"])
    number = surroundings.texts.index(surroundings.server.annotations[OFFSETS_REQUEST]) + 1
    assert phase in FINAL
    if phase is RequestPhase.DONE:
        assert (number in surroundings.positions.made) is (number not in surroundings.dry)
    elif phase is RequestPhase.REFUSED and number in surroundings.positions.made:
        assert "was begun before" in surroundings.result()["message"]


def test_a_change_waits_for_tasks_to_stop_and_a_running_connector_is_refused_for_good() -> None:
    surroundings = Surroundings()
    surroundings.busy = True
    surroundings.send(dry_run=False)
    surroundings.step()
    assert surroundings.result()["phase"] == "Waiting"
    assert "member lake-0 still has task copy-0" in surroundings.result()["message"]
    surroundings.state = "Running"
    surroundings.step()
    assert surroundings.result()["phase"] == "Refused"
    assert "of a Stopped one only" in surroundings.result()["message"]
    surroundings.state, surroundings.busy = "Stopped", False
    surroundings.step()
    surroundings.threads.run()
    surroundings.step()
    assert surroundings.positions.made == [], "a later stop makes no change that was refused"


def test_a_change_that_an_operator_began_and_did_not_end_is_said_to_be_unknown() -> None:
    surroundings = Surroundings()
    surroundings.send(dry_run=False)
    surroundings.step()
    assert surroundings.result()["phase"] == "Started"
    surroundings.begin()
    surroundings.step()
    assert surroundings.result()["phase"] == "Unknown"
    assert "send a new request" in surroundings.result()["message"]
    assert surroundings.positions.made == []
