"""Requests and answers of the API over fake backends (by Kafka's REST reference and KIPs)."""

import re
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

import pytest

from cooperator.crd import parse
from cooperator.crd.choices import DeletionPolicy
from cooperator.crd.connector import Connector
from cooperator.rest.answers import Right
from cooperator.rest.stock import StockMembers
from cooperator.wire import RestartRecord
from tests.rest.fake_front import NOOP, AnyName, FakeFront


def connector(name: str, worker: str) -> Connector:
    [found] = parse(
        "apiVersion: cooperator.dev/v1alpha1\nkind: Connector\n"
        f"metadata: {{name: {name}}}\nspec: {{workerRef: {{name: {worker}}}, class: noop}}",
        "test",
    )
    assert isinstance(found, Connector)
    return found


# --- paths -----------------------------------------------------------------------------------------------


def test_an_unknown_path_is_404_and_an_unknown_method_405_with_the_allowed_ones(fake: FakeFront) -> None:
    assert fake.refused("GET /nothing", code=404) == "HTTP 404 Not Found"
    answer = fake("POST /connectors/a/config")
    assert (answer.status, answer.headers) == (405, {"Allow": "GET, PATCH, PUT"})


def test_a_slash_at_the_end_changes_nothing(fake: FakeFront) -> None:
    """kcctl sends such paths."""
    assert fake.ok("GET /connectors/") == []
    assert fake("POST /connectors/", {"name": "a", "config": NOOP}).status == 201


def test_names_in_paths_are_decoded(fake: FakeFront) -> None:
    assert "a b/c not found" in fake.refused("GET /connectors/a%20b%2Fc", code=404)


# --- create, read, change, delete ------------------------------------------------------------------------


def test_a_connector_is_created_as_a_resource(fake: FakeFront) -> None:
    answer = fake("POST /connectors", {"name": "a", "config": NOOP})
    assert (answer.status, answer.headers) == (201, {"Location": "/connectors/a"})
    made = fake.connectors.found["a"].spec
    assert (made.class_, made.tasks_max, made.config) == ("noop", 2, {"units": "2"})
    assert (made.worker_ref.name, made.state.value) == ("lake", "Running")
    shown = {**NOOP, "name": "a"}
    assert fake.ok("GET /connectors/a/config") == shown
    tasks = [{"connector": "a", "task": 0}, {"connector": "a", "task": 1}]
    assert fake.ok("GET /connectors/a") == {"name": "a", "config": shown, "tasks": tasks, "type": "unknown"}


def test_a_connector_can_be_created_paused_or_stopped(fake: FakeFront) -> None:
    """KIP-980."""
    fake.ok("POST /connectors", {"name": "a", "config": NOOP, "initial_state": "STOPPED"}, 201)
    assert fake.connectors.found["a"].spec.state.value == "Stopped"
    body = {"name": "b", "config": NOOP, "initial_state": "ASLEEP"}
    assert "initial_state is 'ASLEEP'" in fake.refused("POST /connectors", body)
    body["initial_state"] = ["STOPPED"]
    assert "initial_state is \"['STOPPED']\"" in fake.refused("POST /connectors", body)


def test_numbers_and_booleans_become_text_and_nulls_are_left_out(fake: FakeFront) -> None:
    config = {"connector.class": "noop", "tasks.max": 3, "units": 3, "journal": None}
    fake.ok("POST /connectors", {"name": "a", "config": config}, 201)
    assert fake.connectors.found["a"].spec.config == {"units": "3"}


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("{", "the body is not valid JSON"),
        ([], "the body has no name"),
        ({"config": NOOP}, "the body has no name"),
        ({"name": "a"}, "config is not a JSON object"),
        ({"name": "a", "config": {"units": "1"}}, "no connector.class"),
        ({"name": "a", "config": {**NOOP, "units": [1]}}, "units is a list or an object"),
        ({"name": "a", "config": {**NOOP, "name": "b"}}, "the configuration's name is 'b'"),
        ({"name": "a", "config": {**NOOP, "tasks.max": "many"}}, "tasks.max is 'many'"),
        ({"name": "a", "config": {**NOOP, "tasks.max": "0"}}, "tasksMax"),
        ({"name": "A_b", "config": NOOP}, "is not a valid connector name on a Worker with runtime: spark"),
        ({"name": "a", "config": {**NOOP, "units": "none"}}, "option 'units' = 'none'"),
        ({"name": "a", "config": {"connector.class": "noone"}}, "is not an installed class"),
        ({"name": "a", "config": {**NOOP, "cooperator.x": "1"}}, "cooperator.x"),
    ],
)
def test_an_invalid_connector_is_refused_by_name(fake: FakeFront, body: object, said: str) -> None:
    assert said in fake.refused("POST /connectors", body)
    assert fake.connectors.found == {}


def test_a_name_is_unique_in_a_namespace(fake: FakeFront) -> None:
    fake.create("a")
    fake.connectors.found["b"] = connector("b", "other")
    assert "already exists" in fake.refused("POST /connectors", {"name": "a", "config": NOOP}, 409)
    assert "of Worker other" in fake.refused("POST /connectors", {"name": "b", "config": NOOP}, 409)
    assert "of Worker other" in fake.refused("PUT /connectors/b/config", NOOP, 409)
    fake.refused("GET /connectors/b", code=404)
    fake.refused("DELETE /connectors/b", code=404)


def test_putting_a_configuration_keeps_the_rest_of_the_resource(fake: FakeFront) -> None:
    fake.create("a")
    fake.ok("PUT /connectors/a/pause", code=202)
    fake.ok("PUT /connectors/a/config", {**NOOP, "units": "5"})
    spec = fake.connectors.found["a"].spec
    assert (spec.config, spec.state.value) == ({"units": "5"}, "Paused")


def test_putting_the_configuration_of_an_unknown_connector_creates_it(fake: FakeFront) -> None:
    assert fake("PUT /connectors/a/config", NOOP).status == 201
    assert fake.access.asked == [Right("update", name="a"), Right("create", name="a")]


def test_a_patch_changes_adds_and_removes_settings(fake: FakeFront) -> None:
    """KIP-477."""
    fake.create("a", journal="/tmp/j")
    fake.ok("PATCH /connectors/a/config", {"units": "7", "journal": None, "stop.delay.ms": 5})
    assert fake.connectors.found["a"].spec.config == {"units": "7", "stop.delay.ms": "5"}
    fake.refused("PATCH /connectors/b/config", {}, 404)


def test_changes_of_resources_that_other_tools_manage_are_refused(fake: FakeFront) -> None:
    fake.create("a")
    fake.connectors.managed.add("a")
    for line, body in (
        ("PUT /connectors/a/config", {**NOOP, "units": "3"}),
        ("PUT /connectors/a/stop", None),
    ):
        assert "helm manages" in fake.refused(line, body, 403)
    fake.ok("PUT /connectors/a/config", NOOP)  # This changes nothing.


def test_connectors_of_the_config_topic_only_are_read_and_not_changed(fake: FakeFront) -> None:
    fake.group.adopted["old"] = {"connector.class": "noop", "name": "old"}
    fake.create("a")
    assert fake.ok("GET /connectors") == ["a", "old"]
    assert fake.ok("GET /connectors/old/config") == {"connector.class": "noop", "name": "old"}
    assert fake.ok("GET /connectors/old/offsets") == {"offsets": []}
    for line in ("PUT /connectors/old/config", "PATCH /connectors/old/config", "DELETE /connectors/old"):
        assert "cooperator import" in fake.refused(line, NOOP, 403)
    fake.refused("POST /connectors", {"name": "old", "config": NOOP}, 409)


def test_lists_can_be_expanded(fake: FakeFront) -> None:
    """KIP-465."""
    fake.create("a")
    assert fake.ok("GET /connectors?expand=nothing") == ["a"]
    found = fake.ok("GET /connectors?expand=status&expand=info")["a"]
    assert found["info"] == fake.ok("GET /connectors/a")
    assert found["status"] == fake.ok("GET /connectors/a/status")


def test_a_connector_is_deleted(fake: FakeFront) -> None:
    fake.create("a")
    assert fake("DELETE /connectors/a").body is None
    fake.refused("GET /connectors/a/config", code=404)


# --- states ----------------------------------------------------------------------------------------------


def test_states_are_set_on_the_resource(fake: FakeFront) -> None:
    fake.create("a")
    for word, code, state in (("pause", 202, "PAUSED"), ("resume", 202, "RUNNING"), ("stop", 204, "STOPPED")):
        assert fake(f"PUT /connectors/a/{word}").status == code
        assert fake.ok("GET /connectors/a/status")["connector"] == {"state": state, "worker_id": "lake-0"}
    assert fake.ok("GET /connectors/a/status")["tasks"] == []
    assert fake.ok("GET /connectors/a/tasks") == []


def test_tasks_and_their_states_are_shown(fake: FakeFront) -> None:
    fake.create("a")
    assert fake.ok("GET /connectors/a/tasks")[1] == {
        "id": {"connector": "a", "task": 1},
        "config": {"task": "1"},
    }
    assert fake.ok("GET /connectors/a/tasks-config") == {"a-0": {"task": "0"}, "a-1": {"task": "1"}}
    shown = {"id": 1, "state": "RUNNING", "worker_id": "lake-0"}
    assert fake.ok("GET /connectors/a/tasks/1/status") == shown
    assert "no task 7" in fake.refused("GET /connectors/a/tasks/7/status", code=404)
    assert "is not a task number" in fake.refused("GET /connectors/a/tasks/x/status", code=404)


def test_topics_are_answered_and_not_reset(fake: FakeFront) -> None:
    """kcctl's `describe connector` fails where they are refused."""
    fake.create("a")
    assert fake.ok("GET /connectors/a/topics") == {"a": {"topics": []}}
    assert "cannot be reset here" in fake.refused("PUT /connectors/a/topics/reset", code=403)
    fake.refused("GET /connectors/b/topics", code=404)


def test_topics_of_a_stock_connector_are_what_a_worker_says(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(urls: Sequence[str], method: str, path: str) -> dict[str, Any]:
        assert (list(urls), method, path) == (["http://w-1"], "GET", "/connectors/a%20b/topics")
        return {"a b": {"topics": ["in", "out"]}}

    monkeypatch.setattr("cooperator.rest.stock.ask", answer)
    assert StockMembers(lambda: ["http://w-1"]).topics("a b") == ["in", "out"]


def test_restarts_are_handed_to_the_group(fake: FakeFront) -> None:
    """KIP-745: the answer is the status; where only the instance is restarted, it is empty."""
    fake.create("a")
    assert fake("POST /connectors/a/restart").status == 204
    answer = fake("POST /connectors/a/restart?includeTasks=true&onlyFailed=true")
    assert (answer.status, answer.body["name"]) == (202, "a")
    fake.ok("POST /connectors/a/tasks/1/restart", code=204)
    assert fake.group.restarts == [
        RestartRecord("a"),
        RestartRecord("a", True, True),
        RestartRecord("a", task=1),
    ]
    assert "task 9" in fake.refused("POST /connectors/a/tasks/9/restart", code=404)


@pytest.mark.parametrize(
    ("query", "instance", "tasks"),
    [
        ("includeTasks=true", "RESTARTING", ["RESTARTING", "RESTARTING"]),
        ("includeTasks=true&onlyFailed=true", "RUNNING", ["RUNNING", "RESTARTING"]),
        ("onlyFailed=true", "RUNNING", ["RUNNING", "FAILED"]),
    ],
)
def test_a_restart_shows_what_it_is_about_to_do(
    fake: FakeFront, monkeypatch: pytest.MonkeyPatch, query: str, instance: str, tasks: list[str]
) -> None:
    """KIP-745; kcctl counts the tasks by this answer."""
    fake.create("a")
    reported = fake.group.status()
    reported["tasks"][-1]["state"] = "FAILED"
    monkeypatch.setattr(fake.group, "status", lambda: reported)
    answer = fake(f"POST /connectors/a/restart?{query}").body
    assert answer["connector"]["state"] == instance
    assert [task["state"] for task in answer["tasks"]] == tasks
    assert "includeTasks is 'maybe'" in fake.refused("POST /connectors/a/restart?includeTasks=maybe")
    fake.group.leading = False
    assert "no leader" in fake.refused("POST /connectors/a/restart", code=409)


# --- plug-ins, loggers, root -----------------------------------------------------------------------------


def test_plugins_are_listed_and_their_settings_described(fake: FakeFront) -> None:
    found = {each["class"]: each["type"] for each in fake.ok("GET /connector-plugins?connectorsOnly=false")}
    assert (found["kafka-to-files"], found["files-to-kafka"], found["noop"]) == ("sink", "source", "source")
    units = next(each for each in fake.ok("GET /connector-plugins/noop/config") if each["name"] == "units")
    assert (units["type"], units["default_value"], units["required"]) == ("LONG", "1", False)
    fake.refused("GET /connector-plugins/noone/config", code=404)


def test_configurations_are_validated_without_being_applied(fake: FakeFront) -> None:
    body = {"connector.class": "noop", "units": "0", "unit": "1"}
    found = fake.ok("PUT /connector-plugins/noop/config/validate", body)
    errors = {each["value"]["name"]: each["value"]["errors"] for each in found["configs"]}
    assert found["error_count"] == 2
    assert "did you mean 'units'?" in errors["unit"][0]
    assert "units" in errors["units"][0]
    assert errors["journal"] == []
    assert "use the same" in fake.refused("PUT /connector-plugins/spark/config/validate", body)


def test_members_on_spark_have_no_configurable_loggers(fake: FakeFront) -> None:
    assert fake.ok("GET /admin/loggers") == {}
    assert "spec.spark.conf" in fake.refused("GET /admin/loggers/root", code=404)
    assert "spec.spark.conf" in fake.refused("PUT /admin/loggers/root", {"level": "debug"}, 404)
    assert "level is 'loud': use one of" in fake.refused("PUT /admin/loggers/root", {"level": "loud"})
    assert "did you mean 'DEBUG'?" in fake.refused("PUT /admin/loggers/root", {"level": "debg"})


def test_the_root_describes_the_cluster(fake: FakeFront) -> None:
    about = fake.ok("GET /")
    assert about["kafka_cluster_id"] == "fake"
    assert about["commit"].startswith("cooperator-")
    assert re.fullmatch(r"[0-9]+\.[0-9]+\.[0-9]+", about["version"]), (
        "clients compare the version with Kafka's"
    )
    assert fake.ok("GET /health")["status"] == "healthy"
    fake.group.leading = False
    assert fake.ok("GET /health", code=503)["status"] == "starting"


def test_bodies_are_json(fake: FakeFront) -> None:
    assert "415" in fake.refused("PUT /connectors/a/config", NOOP, 415, content_type="text/plain")
    assert (
        fake("PUT /connectors/a/config", NOOP, content_type="application/json; charset=utf-8").status == 201
    )


def test_unexpected_errors_are_described_in_the_log_only(
    fake: FakeFront, caplog: pytest.LogCaptureFixture
) -> None:
    fake.connectors.find = lambda name: 1 / 0  # type: ignore[assignment,return-value]
    assert "division" not in fake.refused("GET /connectors/a", code=500)
    assert "division" in caplog.text


def test_a_directory_that_another_connector_writes_to_is_refused(fake: FakeFront) -> None:
    config = {"connector.class": "spark", "source.format": "rate", "sink.format": "json"}
    first = {**config, "sink.options.path": "/out"}
    assert fake("POST /connectors", {"name": "a", "config": first}).status == 201
    said = fake.refused("PUT /connectors/b/config", {**config, "sink.options.path": "file:/out/"}, code=400)
    assert "spec.config: it would write to file:/out/, as Connector a does" in said
    assert fake("PUT /connectors/b/config", {**config, "sink.options.path": "/other"}).status == 201
    fake.refused("PATCH /connectors/b/config", {"sink.options.path": "/out"}, code=400)
    assert fake("PUT /connectors/a/config", {**first, "trigger.interval.ms": "500"}).status == 200
    said = fake.refused("PUT /connectors/c/config", {**config, "sink.options.path": "./out"}, code=400)
    assert "option 'sink.options.path' = './out': is relative" in said


ODD = "My Connector_1/ä"


def test_a_connector_may_have_any_name_that_its_members_accept() -> None:
    fake, path = FakeFront(members=AnyName()), f"/connectors/{quote(ODD, safe='')}"
    made = fake("POST /connectors", {"name": f" {ODD} ", "config": NOOP})
    assert (made.status, made.body["name"], made.headers["Location"]) == (201, ODD, path)
    [resource] = fake.connectors.found
    assert resource.startswith("my-connector-1-")
    assert fake.connectors.found[resource].spec.connector_name == ODD
    assert fake.ok(f"GET {path}/config")["name"] == ODD
    assert fake.ok("GET /connectors") == [ODD]
    assert fake.ok(f"GET {path}/status")["connector"]["state"] == "RUNNING"
    assert fake.ok(f"PUT {path}/config", {**NOOP, "units": "3"})["name"] == ODD
    fake.ok(f"PUT {path}/stop", code=204)
    fake.group.busy.add(ODD)
    assert "RUNNING" in fake.refused(f"DELETE {path}/offsets", code=409)
    fake.group.busy.clear()
    fake.ok(f"DELETE {path}/offsets")
    fake.ok(f"POST {path}/restart", code=204)
    assert fake.group.restarts[-1].connector == ODD
    fake.refused("POST /connectors", {"name": ODD, "config": NOOP}, 409)
    assert list(fake.connectors.found) == [resource]
    fake.ok(f"DELETE {path}", code=204)
    assert fake.connectors.found == {}


def test_a_resource_of_another_connector_is_not_mistaken_for_it() -> None:
    fake = FakeFront(members=AnyName())
    fake.create("orders")
    other = fake.connectors.found.pop("orders")
    spec = other.spec.model_copy(update={"connector_name": "Orders"})
    fake.connectors.found["orders"] = other.model_copy(update={"spec": spec})
    fake.refused("GET /connectors/orders", code=404)
    said = fake.refused("PUT /connectors/orders/config", NOOP, 409)
    assert "in Kafka 'Orders'" in said
    assert "spec.connectorName" in said


def test_a_retained_connector_is_not_deleted(fake: FakeFront) -> None:
    fake.create("a")
    kept = fake.connectors.found["a"]
    orphan = kept.spec.model_copy(update={"deletion_policy": DeletionPolicy.ORPHAN})
    fake.connectors.found["a"] = kept.model_copy(update={"spec": orphan})
    assert "set it to Delete first" in fake.refused("DELETE /connectors/a", code=403)
    assert "a" in fake.connectors.found
