"""Hostile text in every place that users or data fill, through each way out: nothing of it acts."""

import asyncio
import io
import json
import logging
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar

import pytest
import typer
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from prometheus_client.core import GaugeMetricFamily
from pydantic import BaseModel
from rich.table import Table
from rich.text import Text

from cooperator.cli.kubectl.options import OutputFormat
from cooperator.cli.kubectl.seen import Seen
from cooperator.cli.kubectl.status import dumped
from cooperator.cli.kubectl.status_text import status_text
from cooperator.cli.kubectl.story_text import Sources
from cooperator.cli.kubectl.story_text import story_text as story_of_cluster
from cooperator.cli.kubectl.words import _asked
from cooperator.controller.api.recorder import Recorder
from cooperator.controller.story import Happening
from cooperator.crd import from_object, parse
from cooperator.crd import status as statuses
from cooperator.crd.conditions import Condition
from cooperator.crd.imported import Imported
from cooperator.crd.projection import Projection
from cooperator.leader.endpoint import MetricsPage, health_answer, json_answer
from cooperator.local.story import story_text as story_of_machine
from cooperator.log_lines.setup import MOST, JsonLines, TextLines
from cooperator.logs import LogHistory
from cooperator.model import TaskId
from cooperator.model.visible import visible_text
from cooperator.telemetry.conversion import OtlpConversion
from cooperator.terminal import console, tables
from cooperator.terminal.console import Console, Screen
from cooperator.terminal.follow import tail
from cooperator.terminal.top import picture
from tests.harness.hostile_text import acting, hostile

NOW = 1_700_000_100_000
AT = "2023-11-14T22:14:30Z"
# Fixtures that are shared by examples are not changed by them.
shared = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


# --- terminals ---


def written(capsys: pytest.CaptureFixture[str], act: Callable[[], object]) -> str:
    capsys.readouterr()
    act()
    said = capsys.readouterr()
    return said.out + said.err


@shared
@given(hostile)
def test_results_progress_and_errors(capsys: pytest.CaptureFixture[str], text: str) -> None:
    def step() -> None:
        with Console().step(text) as detail:
            detail(text)

    for act in (
        lambda: console.write(text),
        lambda: console.say(text),
        lambda: Console().say(text),
        lambda: Console().error(text),
        step,
    ):
        assert acting(written(capsys, act), "\n\t") == []
    # Markup is text, of which nothing is lost.
    said = written(capsys, lambda: Console().error(text))
    assert "".join(said.split()) == "".join(f"error:{visible_text(text)}".split())


@shared
@given(hostile)
def test_json_is_read_as_the_same_value(capsys: pytest.CaptureFixture[str], text: str) -> None:
    said = written(capsys, lambda: console.write_json({"a": text}))
    assert acting(said) == []
    assert json.loads(said) == json.loads(json.dumps({"a": text}))


@given(st.text(st.characters(exclude_categories=["Cs"])) | hostile.filter(lambda text: "\ud800" not in text))
def test_yaml_is_read_as_the_same_value(text: str) -> None:
    if any("\ud800" <= character <= "\udfff" for character in text):
        return  # No document of an API server has them.
    said = dumped({"a": text}, OutputFormat.YAML)
    assert acting(said) == []
    assert yaml.safe_load(said) == {"a": text}


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_manifests_are_read_as_the_same_values(text: str) -> None:
    spec = {"workerRef": {"name": "lake"}, "class": "noop", "config": {"a": text}}
    made = from_object(
        {
            "apiVersion": "cooperator.dev/v1alpha1",
            "kind": "Connector",
            "metadata": {"name": "a"},
            "spec": spec,
        }
    )
    said = Imported(((made, (text,)),), left_out={text: text}, refusals=(text,)).text()
    assert acting(said) == []
    [read] = parse(said, "a.yaml")
    assert read == made


def drawn(what: Any) -> str:
    """Returns the text that a terminal gets, without rich's own colours: any escape is from ``what``."""
    file = io.StringIO()
    Screen(file=file, force_terminal=True, color_system=None, width=300).print(what)
    return file.getvalue()


@given(hostile)
def test_screens(text: str) -> None:
    table = Table(title=text)
    table.add_column(text)
    table.add_row(text)
    table.add_row(Text(text))
    for what in (text, Text(text), table):
        assert acting(drawn(what), "\n\t") == []
    assert "[red]" in drawn("[red]a[/]")


@given(hostile, st.sampled_from(["RUNNING", "HELD", "FAILED", "RESTARTING"]))
def test_the_live_picture(text: str, state: str) -> None:
    assert acting(drawn(picture(view(text, state), trouble=text)), "\n") == []


@given(hostile, st.sampled_from(["RUNNING", "HELD", "FAILED", "RESTARTING"]))
def test_a_row_of_a_table_is_a_line(text: str, state: str) -> None:
    seen = view(text, state)
    for shown in (
        tables.workers_table(seen["workers"], NOW),
        tables.connectors_table(seen["connectors"], NOW),
        tables.tasks_table(seen["tasks"], NOW),
        tables.members_table(seen["members"], NOW),
    ):
        assert acting(shown) == []
        assert len(shown.split("\n")) == 2


@given(hostile)
def test_statuses_and_stories_have_a_line_for_each_event(text: str) -> None:
    seen = view(text, "FAILED")
    [worker], [connector] = seen["workers"], seen["connectors"]
    shown = status_text(Seen([worker], [connector]), NOW)
    assert acting(shown) == []
    assert len(shown.split("\n")) == len(status_text(Seen(*workers_and_connectors("plain")), NOW).split("\n"))
    event = {
        "regarding": {"kind": "Worker", "name": "lake"},
        "eventTime": AT,
        "reason": text,
        "note": text,
    }
    stories = (
        story_of_cluster(Sources(worker, [connector], [event], missing=text), TaskId("a", 0), NOW),
        story_of_machine(seen, TaskId("a", 0), "lake", "default", LogHistory((), ()), (), NOW),
    )
    for story in stories:
        assert acting(story) == []
        assert all(
            line.startswith(("2023-11-14T22:1", "no history", "(without", "now: ", "Worker lake: "))
            for line in story.split("\n")
        )


def workers_and_connectors(text: str) -> tuple[list[Any], list[Any]]:
    seen = view(text, "FAILED")
    return seen["workers"], seen["connectors"]


def view(text: str, state: str) -> dict[str, Any]:
    """A moment of a Worker, with ``text`` wherever a user's or a record's may be."""
    condition = {
        "type": "MembersReady",
        "status": "False",
        "reason": text,
        "message": text,
        "lastTransitionTime": AT,
    }
    entry = {
        "id": 0,
        "state": state,
        "member": text,
        "trace": text,
        "reason": text,
        "lastError": text,
        "progress": json.dumps({"rows_in": 1, "note": text}),
        "reportedAt": AT,
    }
    task = {
        "name": text,
        "task": 0,
        "worker": text,
        "connector": text,
        "state": state,
        "member": text,
        "at_ms": NOW,
        "progress": json.dumps({"note": text, "waits": [{"for": text, "since_ms": 1, "parts": [text]}]}),
        "trace": text,
        "reason": text,
        "held_for": text,
        "held_until_ms": NOW,
        "held_reason": text,
        **({"next_attempt_ms": NOW} if state == "RESTARTING" else {}),
    }
    rebalance = {
        "generation": 7,
        "at_ms": NOW,
        "at": AT,
        "cause": text,
        "reason": text,
        **dict.fromkeys(("assigned", "revoked", "moved", "held"), 1),
    }
    member = {
        "name": text,
        "identity": text,
        "worker": text,
        "phase": text,
        "tasks": 1,
        "restarts": 0,
        "message": text,
    }
    status = {
        "observedGeneration": 2,
        "readyReplicas": 1,
        "memberSummary": text,
        "taskSummary": text,
        "state": text,
        "tasks": {"desired": 1, "running": 1},
        "conditions": [condition],
        "members": [member],
        "held": [{"task": text, "identity": text, "until": AT, "reason": text}],
        "lastRebalance": rebalance,
        "protocol": {"name": text, "reason": text},
        "taskStatuses": [entry],
    }
    metadata = {"namespace": "default", "generation": 2, "creationTimestamp": AT}
    return {
        "at_ms": NOW,
        "workers": [{"metadata": {"name": "lake", **metadata}, "spec": {"replicas": 1}, "status": status}],
        "connectors": [
            {
                "metadata": {"name": "a", **metadata},
                "spec": {"class": text, "workerRef": {"name": "lake"}},
                "status": status,
            }
        ],
        "members": [member],
        "tasks": [task],
        "groups": [{"namespace": "default", "worker": "lake", "rebalances": [rebalance]}],
    }


@shared
@given(hostile)
def test_a_log_that_is_followed(tmp_path: Path, text: str) -> None:
    path = tmp_path / "member.log"
    path.write_bytes(text.encode(errors="surrogatepass") + b"\n\tat java.base/java.lang.Thread\n")
    lines = list(tail(path, -1, follow=False))
    assert acting("".join(lines), "\n\t") == []
    # Nothing but a newline of the file makes a line.
    assert len(lines) == text.count("\n") + 2
    assert lines[-1] == "\tat java.base/java.lang.Thread\n"


def test_a_followed_line_without_an_end_is_cut(tmp_path: Path) -> None:
    path = tmp_path / "member.log"
    path.write_text("\x1b" * 1_000_000)
    [line] = tail(path, 1, follow=False)
    assert len(line) == 65_536


@pytest.mark.parametrize("argument", ["--no-such\x1b]0;x\x07", "\x1b[2J[red]x[/]"])
def test_wrong_arguments(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, argument: str
) -> None:
    app = typer.Typer(add_completion=False)
    app.command("one")(lambda: None)
    app.command("two")(lambda: None)
    monkeypatch.setattr(sys, "argv", ["cooperator", argument])
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    with pytest.raises(SystemExit) as end:
        console.run(app, "cooperator")
    said = capsys.readouterr().err
    assert end.value.code == 2
    assert acting(said) == []
    assert said.startswith("Usage: cooperator ")
    assert "error: No such " in said


@shared
@given(hostile)
def test_uncaught_exceptions(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    app = typer.Typer(add_completion=False)

    @app.command()
    def fail() -> None:
        raise RuntimeError(text)

    with monkeypatch.context() as patch:
        patch.setattr(sys, "argv", ["cooperator"])
        patch.setattr(sys, "excepthook", sys.excepthook)
        with pytest.raises(RuntimeError) as raised:
            console.run(app, "cooperator")
        # The interpreter calls it at the end.
        said = written(capsys, lambda: sys.excepthook(raised.type, raised.value, raised.tb))
    assert said.startswith("Traceback (most recent call last):\n")
    assert acting(said, "\n\t") == []


@given(hostile)
def test_words_that_complete_a_command(text: str) -> None:
    class Context:
        params: ClassVar[dict[str, Any]] = {}

    for word, help_ in _asked(Context(), "", lambda: iter([(text, text)])):
        assert acting(word + help_, "") == []


# --- logs ---


def record_of(text: str) -> logging.LogRecord:
    try:
        raise RuntimeError(text)
    except RuntimeError:
        made = logging.LogRecord(text, logging.INFO, text, 1, "said: %s", (text,), sys.exc_info())
    made.__dict__.update(connector=text, task=text, event=text)
    return made


@given(hostile)
def test_a_text_log_has_one_line_at_the_margin_for_each_record(text: str) -> None:
    first, *rest = TextLines().format(record_of(text)).split("\n")
    assert acting(first + "".join(rest), "\t") == []
    assert all(line.startswith("    ") for line in rest)


@given(hostile)
def test_a_json_log_has_one_line_for_each_record_also_once_it_is_read(text: str) -> None:
    line = JsonLines().format(record_of(text))
    assert acting(line, "") == []
    assert all(acting(str(value), "\n\t") == [] for value in json.loads(line).values())


def test_a_record_is_bounded() -> None:
    long = record_of("\x1b" * 300_000)
    assert len(TextLines().format(long)) < MOST + 1_000
    assert len(JsonLines().format(long)) < 20 * MOST


# --- the API ---


def projections(module: Any) -> Iterator[type[BaseModel]]:
    for made in vars(module).values():
        if isinstance(made, type) and issubclass(made, Projection) and made is not Projection:
            yield made


MODELS: set[type[Any]] = {*projections(statuses), Condition}
TEXTS = [
    (model, name)
    for model in MODELS
    for name, field in model.model_fields.items()
    if "str" in repr(field.annotation) and "Status" not in repr(field.annotation)
]


def test_statuses_have_texts() -> None:
    assert len(TEXTS) > 30


@given(hostile, st.sampled_from(sorted(TEXTS, key=str)))
def test_no_text_of_a_status_acts(text: str, place: tuple[type[BaseModel], str]) -> None:
    model, name = place
    field = model.model_fields[name]
    if name in ("at", "until", "last_transition_time"):
        return  # Times, which the operator makes.
    made = model.__pydantic_validator__.validate_assignment(model.model_construct(), name, text * 200)
    shown = made[0][name] if isinstance(made, tuple) else getattr(made, name)
    lines = "\n\t" if name in ("trace", "progress") else ""
    assert acting(str(shown), lines) == [], field


@given(hostile)
def test_events(text: str) -> None:
    posted: list[Any] = []

    class Api:
        def create(self, kind: Any, manifest: Any) -> None:
            posted.append(manifest)

    about = {"metadata": {"name": "lake", "namespace": "default", "uid": "u"}}
    Recorder(Api()).record(about, "Worker", Happening(text, text * 400))
    [event] = posted
    assert acting(event["note"] + event["reason"] + event["action"], "") == []
    assert len(event["note"].encode()) <= 1024
    assert len(event["reason"]) <= 128


@given(hostile)
def test_answers_over_http(text: str) -> None:
    body = json_answer(200, {"message": text}).body
    assert acting(bytes(body).decode()) == []
    assert json.loads(body) == json.loads(json.dumps({"message": text}))


@given(hostile)
def test_health_is_one_line(text: str) -> None:
    answer: Any = health_answer(f"the thread 'reader' has died: {text}")
    assert answer.status == 503
    assert acting(bytes(answer.body).decode(), "") == []


# --- metrics ---


class Page(MetricsPage):
    def __init__(self, text: str) -> None:
        self._text = text
        super().__init__()

    def collect(self) -> Iterator[Any]:
        family = GaugeMetricFamily("cooperator_task_state", "state", labels=("connector",))
        family.add_metric((self._text,), 1)
        yield family


class Request:
    headers: ClassVar[dict[str, str]] = {"Accept": "text/plain"}


@settings(deadline=None)
@given(hostile)
def test_labels(text: str) -> None:
    page = Page(text)
    answer: Any = asyncio.run(page.answer(Request()))
    shown = bytes(answer.body).decode()
    assert acting(shown) == []
    assert shown.count("cooperator_task_state{") == 1
    sent = OtlpConversion({"service.name": text}, "1", 0).request(
        page.families(), int(datetime.now(UTC).timestamp())
    )
    [resource] = sent.resource_metrics
    assert acting(resource.resource.attributes[0].value.string_value, "") == []
    found = [metric for metric in resource.scope_metrics[0].metrics if metric.name == "cooperator_task_state"]
    [point] = found[0].gauge.data_points
    assert acting("".join(each.value.string_value for each in point.attributes), "") == []
