"""Requests and answers of the front, over parts in memory (by Kafka's REST reference, and KIPs)."""

import re
from collections.abc import Sequence
from typing import Any

import pytest

from cooperator.crd import parse
from cooperator.crd.connector import Connector
from cooperator.rest.answers import Right
from cooperator.rest.stock import StockMembers
from cooperator.wire import RestartRecord
from rest.twin import NOOP, Twin


def connector(name: str, worker: str) -> Connector:
    [found] = parse(
        "apiVersion: cooperator.dev/v1alpha1\nkind: Connector\n"
        f"metadata: {{name: {name}}}\nspec: {{workerRef: {{name: {worker}}}, class: noop}}",
        "test",
    )
    assert isinstance(found, Connector)
    return found


# --- paths -----------------------------------------------------------------------------------------------


def test_what_is_not_served_is_404_and_another_method_405_with_those_that_are(twin: Twin) -> None:
    assert twin.refused("GET /nothing", code=404) == "HTTP 404 Not Found"
    answer = twin("POST /connectors/a/config")
    assert (answer.status, answer.headers) == (405, {"Allow": "GET, PATCH, PUT"})


def test_a_slash_at_the_end_changes_nothing(twin: Twin) -> None:
    """As kcctl asks."""
    assert twin.ok("GET /connectors/") == []
    assert twin("POST /connectors/", {"name": "a", "config": NOOP}).status == 201


def test_names_in_paths_are_decoded(twin: Twin) -> None:
    assert "a b/c not found" in twin.refused("GET /connectors/a%20b%2Fc", code=404)


# --- made, read, changed, deleted ------------------------------------------------------------------------


def test_a_connector_is_created_as_a_resource(twin: Twin) -> None:
    answer = twin("POST /connectors", {"name": "a", "config": NOOP})
    assert (answer.status, answer.headers) == (201, {"Location": "/connectors/a"})
    made = twin.connectors.found["a"].spec
    assert (made.class_, made.tasks_max, made.config) == ("noop", 2, {"units": "2"})
    assert (made.worker_ref.name, made.state.value) == ("lake", "Running")
    shown = {**NOOP, "name": "a"}
    assert twin.ok("GET /connectors/a/config") == shown
    tasks = [{"connector": "a", "task": 0}, {"connector": "a", "task": 1}]
    assert twin.ok("GET /connectors/a") == {"name": "a", "config": shown, "tasks": tasks, "type": "unknown"}


def test_it_can_begin_paused_or_stopped(twin: Twin) -> None:
    """KIP-980."""
    twin.ok("POST /connectors", {"name": "a", "config": NOOP, "initial_state": "STOPPED"}, 201)
    assert twin.connectors.found["a"].spec.state.value == "Stopped"
    body = {"name": "b", "config": NOOP, "initial_state": "ASLEEP"}
    assert "initial_state is 'ASLEEP'" in twin.refused("POST /connectors", body)


def test_numbers_and_booleans_become_text_and_nulls_are_left_out(twin: Twin) -> None:
    config = {"connector.class": "noop", "tasks.max": 3, "units": 3, "journal": None}
    twin.ok("POST /connectors", {"name": "a", "config": config}, 201)
    assert twin.connectors.found["a"].spec.config == {"units": "3"}


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("{", "the body is no JSON"),
        ([], "the body has no name"),
        ({"config": NOOP}, "the body has no name"),
        ({"name": "a"}, "config is no JSON object"),
        ({"name": "a", "config": {"units": "1"}}, "no connector.class"),
        ({"name": "a", "config": {**NOOP, "units": [1]}}, "units is a list or an object"),
        ({"name": "a", "config": {**NOOP, "name": "b"}}, "the configuration's name is 'b'"),
        ({"name": "a", "config": {**NOOP, "tasks.max": "many"}}, "tasks.max is 'many'"),
        ({"name": "a", "config": {**NOOP, "tasks.max": "0"}}, "tasksMax"),
        ({"name": "A_b", "config": NOOP}, "metadata.name"),
        ({"name": "a", "config": {**NOOP, "units": "none"}}, "option 'units' = 'none'"),
        ({"name": "a", "config": {"connector.class": "noone"}}, "is not a class that is installed here"),
        ({"name": "a", "config": {**NOOP, "cooperator.x": "1"}}, "cooperator.x"),
    ],
)
def test_what_cannot_be_a_connector_is_refused_by_name(twin: Twin, body: object, said: str) -> None:
    assert said in twin.refused("POST /connectors", body)
    assert twin.connectors.found == {}


def test_a_name_is_taken_once_in_a_namespace(twin: Twin) -> None:
    twin.create("a")
    twin.connectors.found["b"] = connector("b", "other")
    assert "exists already" in twin.refused("POST /connectors", {"name": "a", "config": NOOP}, 409)
    assert "of Worker other" in twin.refused("POST /connectors", {"name": "b", "config": NOOP}, 409)
    assert "of Worker other" in twin.refused("PUT /connectors/b/config", NOOP, 409)
    twin.refused("GET /connectors/b", code=404)
    twin.refused("DELETE /connectors/b", code=404)


def test_a_configuration_is_put_and_keeps_the_rest_of_the_resource(twin: Twin) -> None:
    twin.create("a")
    twin.ok("PUT /connectors/a/pause", code=202)
    twin.ok("PUT /connectors/a/config", {**NOOP, "units": "5"})
    spec = twin.connectors.found["a"].spec
    assert (spec.config, spec.state.value) == ({"units": "5"}, "Paused")


def test_putting_one_that_is_not_there_creates_it(twin: Twin) -> None:
    assert twin("PUT /connectors/a/config", NOOP).status == 201
    assert twin.access.asked == [Right("update", name="a"), Right("create", name="a")]


def test_a_patch_changes_adds_and_takes_away(twin: Twin) -> None:
    """KIP-477."""
    twin.create("a", journal="/tmp/j")
    twin.ok("PATCH /connectors/a/config", {"units": "7", "journal": None, "stop.delay.ms": 5})
    assert twin.connectors.found["a"].spec.config == {"units": "7", "stop.delay.ms": "5"}
    twin.refused("PATCH /connectors/b/config", {}, 404)


def test_what_somebody_else_manages_is_refused(twin: Twin) -> None:
    twin.create("a")
    twin.connectors.managed.add("a")
    for line, body in (
        ("PUT /connectors/a/config", {**NOOP, "units": "3"}),
        ("PUT /connectors/a/stop", None),
    ):
        assert "helm manages" in twin.refused(line, body, 403)
    twin.ok("PUT /connectors/a/config", NOOP)  # That changes nothing.


def test_what_only_the_config_topic_has_is_read_and_not_changed(twin: Twin) -> None:
    twin.group.adopted["old"] = {"connector.class": "noop", "name": "old"}
    twin.create("a")
    assert twin.ok("GET /connectors") == ["a", "old"]
    assert twin.ok("GET /connectors/old/config") == {"connector.class": "noop", "name": "old"}
    assert twin.ok("GET /connectors/old/offsets") == {"offsets": []}
    for line in ("PUT /connectors/old/config", "PATCH /connectors/old/config", "DELETE /connectors/old"):
        assert "cooperator import" in twin.refused(line, NOOP, 403)
    twin.refused("POST /connectors", {"name": "old", "config": NOOP}, 409)


def test_lists_can_be_expanded(twin: Twin) -> None:
    """KIP-465."""
    twin.create("a")
    assert twin.ok("GET /connectors?expand=nothing") == ["a"]
    found = twin.ok("GET /connectors?expand=status&expand=info")["a"]
    assert found["info"] == twin.ok("GET /connectors/a")
    assert found["status"] == twin.ok("GET /connectors/a/status")


def test_a_connector_is_deleted(twin: Twin) -> None:
    twin.create("a")
    assert twin("DELETE /connectors/a").body is None
    twin.refused("GET /connectors/a/config", code=404)


# --- states ----------------------------------------------------------------------------------------------


def test_states_are_set_on_the_resource(twin: Twin) -> None:
    twin.create("a")
    for word, code, state in (("pause", 202, "PAUSED"), ("resume", 202, "RUNNING"), ("stop", 204, "STOPPED")):
        assert twin(f"PUT /connectors/a/{word}").status == code
        assert twin.ok("GET /connectors/a/status")["connector"] == {"state": state, "worker_id": "lake-0"}
    assert twin.ok("GET /connectors/a/status")["tasks"] == []
    assert twin.ok("GET /connectors/a/tasks") == []


def test_tasks_and_their_states_are_shown(twin: Twin) -> None:
    twin.create("a")
    assert twin.ok("GET /connectors/a/tasks")[1] == {
        "id": {"connector": "a", "task": 1},
        "config": {"task": "1"},
    }
    assert twin.ok("GET /connectors/a/tasks-config") == {"a-0": {"task": "0"}, "a-1": {"task": "1"}}
    shown = {"id": 1, "state": "RUNNING", "worker_id": "lake-0"}
    assert twin.ok("GET /connectors/a/tasks/1/status") == shown
    assert "no task 7" in twin.refused("GET /connectors/a/tasks/7/status", code=404)
    assert "no number" in twin.refused("GET /connectors/a/tasks/x/status", code=404)


def test_topics_are_answered_and_not_reset(twin: Twin) -> None:
    """kcctl's `describe connector` ends with an error where they are refused."""
    twin.create("a")
    assert twin.ok("GET /connectors/a/topics") == {"a": {"topics": []}}
    assert "not reset" in twin.refused("PUT /connectors/a/topics/reset", code=403)
    twin.refused("GET /connectors/b/topics", code=404)


def test_topics_of_a_stock_connector_are_what_a_worker_says(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(urls: Sequence[str], method: str, path: str) -> dict[str, Any]:
        assert (list(urls), method, path) == (["http://w-1"], "GET", "/connectors/a%20b/topics")
        return {"a b": {"topics": ["in", "out"]}}

    monkeypatch.setattr("cooperator.rest.stock.ask", answer)
    assert StockMembers(lambda: ["http://w-1"]).topics("a b") == ["in", "out"]


def test_restarts_are_handed_to_the_group(twin: Twin) -> None:
    """KIP-745: it answers with the status; where only the instance is restarted, with nothing."""
    twin.create("a")
    assert twin("POST /connectors/a/restart").status == 204
    answer = twin("POST /connectors/a/restart?includeTasks=true&onlyFailed=true")
    assert (answer.status, answer.body["name"]) == (202, "a")
    twin.ok("POST /connectors/a/tasks/1/restart", code=204)
    assert twin.group.restarts == [
        RestartRecord("a"),
        RestartRecord("a", True, True),
        RestartRecord("a", task=1),
    ]
    assert "task 9" in twin.refused("POST /connectors/a/tasks/9/restart", code=404)


@pytest.mark.parametrize(
    ("query", "instance", "tasks"),
    [
        ("includeTasks=true", "RESTARTING", ["RESTARTING", "RESTARTING"]),
        ("includeTasks=true&onlyFailed=true", "RUNNING", ["RUNNING", "RESTARTING"]),
        ("onlyFailed=true", "RUNNING", ["RUNNING", "FAILED"]),
    ],
)
def test_a_restart_shows_what_it_is_about_to_do(
    twin: Twin, monkeypatch: pytest.MonkeyPatch, query: str, instance: str, tasks: list[str]
) -> None:
    """KIP-745; kcctl counts the tasks that are shown so."""
    twin.create("a")
    told = twin.group.status()
    told["tasks"][-1]["state"] = "FAILED"
    monkeypatch.setattr(twin.group, "status", lambda: told)
    answer = twin(f"POST /connectors/a/restart?{query}").body
    assert answer["connector"]["state"] == instance
    assert [task["state"] for task in answer["tasks"]] == tasks
    assert "includeTasks is 'maybe'" in twin.refused("POST /connectors/a/restart?includeTasks=maybe")
    twin.group.leading = False
    assert "no leader" in twin.refused("POST /connectors/a/restart", code=409)


# --- offsets (KIP-875) -----------------------------------------------------------------------------------

ENTRY = {"partition": {"file": "x"}, "offset": {"position": 3}}


def test_offsets_are_changed_of_a_stopped_connector_only(twin: Twin) -> None:
    twin.create("a")
    assert twin.ok("GET /connectors/a/offsets") == {"offsets": []}
    for line in ("PATCH /connectors/a/offsets", "DELETE /connectors/a/offsets"):
        assert "PUT /connectors/a/stop first" in twin.refused(line, {"offsets": [ENTRY]})
    twin.ok("PUT /connectors/a/stop", code=204)
    assert twin.ok("PATCH /connectors/a/offsets", {"offsets": [ENTRY]}) == {"message": "altered"}
    assert twin.ok("GET /connectors/a/offsets") == {"offsets": [ENTRY]}
    twin.ok("PATCH /connectors/a/offsets", {"offsets": [{**ENTRY, "offset": None}]})
    assert twin.ok("GET /connectors/a/offsets") == {"offsets": []}
    assert twin.ok("DELETE /connectors/a/offsets") == {"message": "reset"}


def test_and_not_before_its_tasks_have_stopped(twin: Twin) -> None:
    twin.create("a")
    twin.ok("PUT /connectors/a/stop", code=204)
    twin.group.busy.add("a")
    assert "is RUNNING" in twin.refused("DELETE /connectors/a/offsets", code=409)
    assert "is RUNNING" in twin.refused("PATCH /connectors/a/offsets", {"offsets": [ENTRY]}, 409)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({}, "are needed"),
        ({"offsets": []}, "are needed"),
        ({"offsets": [ENTRY], "more": 1}, "'more' is not known"),
        ({"offsets": [{"offset": {}}]}, "offsets[0].partition is no object"),
        ({"offsets": [ENTRY, {"partition": {}}]}, "offsets[1].offset is neither"),
    ],
)
def test_offsets_of_no_form_are_refused(twin: Twin, body: object, said: str) -> None:
    assert said in twin.refused("PATCH /connectors/a/offsets", body)


# --- plug-ins, loggers, itself ---------------------------------------------------------------------------


def test_plugins_are_listed_and_their_settings_described(twin: Twin) -> None:
    found = {each["class"]: each["type"] for each in twin.ok("GET /connector-plugins?connectorsOnly=false")}
    assert (found["kafka-to-files"], found["files-to-kafka"], found["noop"]) == ("sink", "source", "source")
    units = next(each for each in twin.ok("GET /connector-plugins/noop/config") if each["name"] == "units")
    assert (units["type"], units["default_value"], units["required"]) == ("LONG", "1", False)
    twin.refused("GET /connector-plugins/noone/config", code=404)


def test_configurations_are_validated_without_being_applied(twin: Twin) -> None:
    body = {"connector.class": "noop", "units": "0", "unit": "1"}
    found = twin.ok("PUT /connector-plugins/noop/config/validate", body)
    errors = {each["value"]["name"]: each["value"]["errors"] for each in found["configs"]}
    assert found["error_count"] == 2
    assert "did you mean 'units'?" in errors["unit"][0]
    assert "units" in errors["units"][0]
    assert errors["journal"] == []
    assert "make them one" in twin.refused("PUT /connector-plugins/spark/config/validate", body)


def test_members_on_spark_have_no_loggers_to_set(twin: Twin) -> None:
    assert twin.ok("GET /admin/loggers") == {}
    assert "spec.spark.conf" in twin.refused("GET /admin/loggers/root", code=404)
    assert "spec.spark.conf" in twin.refused("PUT /admin/loggers/root", {"level": "debug"}, 404)
    assert "must be one of" in twin.refused("PUT /admin/loggers/root", {"level": "loud"})


def test_the_front_tells_of_itself(twin: Twin) -> None:
    about = twin.ok("GET /")
    assert about["kafka_cluster_id"] == "twin"
    assert about["commit"].startswith("cooperator-")
    assert re.fullmatch(r"[0-9]+\.[0-9]+\.[0-9]+", about["version"]), "clients compare it with Kafka's"
    assert twin.ok("GET /health")["status"] == "healthy"
    twin.group.leading = False
    assert twin.ok("GET /health", code=503)["status"] == "starting"


def test_bodies_are_json(twin: Twin) -> None:
    assert "415" in twin.refused("PUT /connectors/a/config", NOOP, 415, content_type="text/plain")
    assert (
        twin("PUT /connectors/a/config", NOOP, content_type="application/json; charset=utf-8").status == 201
    )


def test_what_nobody_has_foreseen_is_said_in_the_log_only(
    twin: Twin, caplog: pytest.LogCaptureFixture
) -> None:
    twin.connectors.find = lambda name: 1 / 0  # type: ignore[assignment,return-value]
    assert "division" not in twin.refused("GET /connectors/a", code=500)
    assert "division" in caplog.text


# --- rights ----------------------------------------------------------------------------------------------


def test_who_is_unknown_is_401_and_who_may_not_is_403() -> None:
    twin = Twin({"Bearer reader": {Right("list"), Right("get", name="a")}})
    assert twin("GET /connectors").status == 401
    assert twin("GET /connectors", authorization="Bearer reader").status == 200
    assert twin("DELETE /connectors/a", authorization="Bearer reader").status == 403
    assert twin("GET /connectors/b", authorization="Bearer reader").status == 403
    assert twin("GET /health").status == 200
    assert twin("GET /openapi.json").status == 200


@pytest.mark.parametrize(
    ("line", "right"),
    [
        ("GET /", Right("get", "workers", name="lake")),
        ("GET /connectors?expand=status", Right("list")),
        ("POST /connectors", Right("create")),
        ("GET /connectors/a/status", Right("get", name="a")),
        ("PUT /connectors/a/config", Right("update", name="a")),
        ("PATCH /connectors/a/config", Right("patch", name="a")),
        ("PUT /connectors/a/pause", Right("patch", name="a")),
        ("PUT /connectors/a/stop", Right("patch", name="a")),
        ("DELETE /connectors/a", Right("delete", name="a")),
        ("POST /connectors/a/restart", Right("update", subresource="restart", name="a")),
        ("POST /connectors/a/tasks/0/restart", Right("update", subresource="restart", name="a")),
        ("GET /connectors/a/offsets", Right("get", subresource="offsets", name="a")),
        ("PATCH /connectors/a/offsets", Right("patch", subresource="offsets", name="a")),
        ("DELETE /connectors/a/offsets", Right("delete", subresource="offsets", name="a")),
        ("GET /connector-plugins", Right("get", "workers", name="lake")),
        ("PUT /connector-plugins/noop/config/validate", Right("create")),
        ("GET /admin/loggers", Right("get", "workers", "loggers", "lake")),
        ("PUT /admin/loggers/root", Right("update", "workers", "loggers", "lake")),
    ],
)
def test_each_route_asks_for_its_right_before_anything_else(line: str, right: Right) -> None:
    twin = Twin({"Bearer nobody": set()})
    assert twin(line, authorization="Bearer nobody").status == 403
    assert twin.access.asked == [right]
