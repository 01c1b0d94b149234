"""A Connector is started in one Worker's group and under one name at most, whoever writes when and whatever
it has seen."""

import random
from collections.abc import Mapping
from copy import deepcopy
from typing import Any, cast

import pytest

from cooperator.controller import publish
from cooperator.controller.api.client import Api, ApiError, Kind
from cooperator.controller.names import FINALIZER
from cooperator.controller.publish import Publisher
from cooperator.controller.resources import SeenConnectors
from cooperator.controller.store import Seen, Store
from cooperator.crd import Connector, Worker, from_object
from cooperator.crd.connector_names import named
from cooperator.host.status import WorkerFacts

Body = dict[str, Any]
V1 = "cooperator.dev/v1alpha1"


class Server:
    """One Connector, with the rule of its definition."""

    def __init__(self, **metadata: Any) -> None:
        self.version = 1
        self.knows_bindings = True
        meta = {"name": "a", "namespace": "n", "uid": "u", "generation": 1, "resourceVersion": "1"}
        self.body: Body = {
            "apiVersion": V1,
            "kind": "Connector",
            "metadata": {**meta, **metadata},
            "spec": {"workerRef": {"name": "lake"}, "class": "noop"},
        }
        self.seen: list[Body] = [deepcopy(self.body)]

    def change(self, **parts: Any) -> Body:
        after = {**deepcopy(self.body), **deepcopy(parts)}
        bound = after.get("status", {}).get("boundWorker")
        if bound not in (None, after["spec"]["workerRef"]["name"]):
            raise ApiError(422, "Invalid", "spec.workerRef.name cannot be changed")
        was_bound = "boundWorker" in self.body.get("status", {})
        if was_bound and after["spec"].get("connectorName") != self.body["spec"].get("connectorName"):
            raise ApiError(422, "Invalid", "spec.connectorName cannot be changed")
        self.version += 1
        after["metadata"]["resourceVersion"] = str(self.version)
        after["metadata"]["generation"] += after["spec"] != self.body["spec"]
        self.body = after
        self.seen.append(deepcopy(after))
        return deepcopy(after)

    # --- as ``Api`` ---

    def apply(self, kind: Kind, manifest: Mapping[str, Any], subresource: str = "") -> Body:
        if manifest["kind"] == "Worker":
            return deepcopy(cast(Body, manifest))
        if manifest["metadata"].get("resourceVersion", str(self.version)) != str(self.version):
            raise ApiError(409, "Conflict", "the object has been modified")
        if subresource:
            dropped = set() if self.knows_bindings else {"boundWorker"}
            return self.change(status={k: v for k, v in manifest["status"].items() if k not in dropped})
        return self.change(
            metadata={**self.body["metadata"], "finalizers": manifest["metadata"]["finalizers"]}
        )

    def merge(self, *_: Any) -> Body:
        return deepcopy(self.body)

    def writing_as(self, _: str) -> "Server":
        return self

    def create(self, *_: Any) -> Body:
        return {}


def worker_body(name: str) -> Body:
    metadata = {"name": name, "namespace": "n", "uid": name, "resourceVersion": "1"}
    return {"apiVersion": V1, "kind": "Worker", "metadata": metadata, "spec": {}}


class Operator:
    """Its state in memory, until it is restarted."""

    def __init__(self, server: Server) -> None:
        api, store = cast(Api, server), Store(lambda name: None)
        self.of = {name: Publisher(api, ("n", name), store) for name in ("lake", "pond", "")}

    def reconcile(self, name: str, body: Body) -> bool:
        """Whether the Worker of this name starts the Connector as it has seen it."""
        worker, connector = from_object(worker_body(name)), from_object(body)
        assert isinstance(worker, Worker)
        assert isinstance(connector, Connector)
        seen = Seen(worker_body(name), (body,))
        started = self.of[name].bind(worker, (connector,), seen, {})
        found = SeenConnectors((connector,), named=named(worker, (connector,)))
        self.of[name].publish(worker, found, WorkerFacts(), seen, {}, None)
        return started != ()

    def stray(self, body: Body) -> None:
        connector = from_object(body)
        assert isinstance(connector, Connector)
        self.of[""].stray(body, connector, (), None)


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publish, "_EVERY_S", 0.0)


@pytest.mark.parametrize("seed", range(100))
def test_a_started_connector_never_starts_in_another_worker(seed: int) -> None:
    chance = random.Random(seed)
    server = Server()
    operator = Operator(server)
    started: set[str] = set()
    names: set[str] = set()
    for step in range(25):
        # Watches lag: an actor may have seen it some changes ago.
        body = deepcopy(chance.choice(server.seen[-4:]))
        named = body["spec"]["workerRef"]["name"]
        match chance.randrange(8):
            case 0 | 1:
                to = "pond" if server.body["spec"]["workerRef"]["name"] == "lake" else "lake"
                wanted: Body = chance.choice([{"workerRef": {"name": to}}, {"connectorName": f"name-{step}"}])
                try:
                    server.change(spec={**server.body["spec"], **wanted})
                except ApiError:
                    assert started, "there is something to lose"
            case 2 | 3 | 4:
                if operator.reconcile(named, body):
                    started.add(named)
                    names.add(body["spec"].get("connectorName", "a"))
            case 5 | 6:
                operator.stray(body)
            case _:
                operator = Operator(server)
        assert len(started) <= 1
        assert len(names) <= 1, "its tasks and offsets would be left under the other name"
        if started:
            assert server.body["status"]["boundWorker"] in started
            assert server.body["spec"]["workerRef"]["name"] in started


def test_connectors_of_an_earlier_operator_stay_bound() -> None:
    server = Server(finalizers=[FINALIZER])
    operator = Operator(server)
    assert operator.reconcile("lake", deepcopy(server.body))
    assert server.body["status"]["boundWorker"] == "lake"
    alone = Server(finalizers=[FINALIZER])
    Operator(alone).stray(deepcopy(alone.body))
    assert alone.body["status"]["boundWorker"] == "lake", "its Worker may come back"


def test_with_the_definitions_of_an_earlier_version_it_runs_and_is_written_once() -> None:
    server = Server()
    server.knows_bindings = False
    operator = Operator(server)
    for _ in range(3):
        assert operator.reconcile("lake", deepcopy(server.body))
    written = server.version
    assert operator.reconcile("lake", deepcopy(server.body))
    assert server.version == written


def test_one_that_cannot_be_bound_keeps_no_other_from_running(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(finalizers=[FINALIZER])
    operator = Operator(server)

    def refuse(*_: Any) -> Body:
        raise ApiError(0, "Unreachable", "the API server does not answer")

    old = deepcopy(server.body)
    new = deepcopy(old)
    new["metadata"].update(name="b", uid="v", finalizers=[])
    monkeypatch.setattr(server, "apply", refuse)
    worker = from_object(worker_body("lake"))
    connectors = [from_object(new), from_object(old)]
    assert isinstance(worker, Worker)
    found = operator.of["lake"].bind(
        worker, [c for c in connectors if isinstance(c, Connector)], Seen(worker_body("lake"), (new, old)), {}
    )
    assert [c.metadata.name for c in found] == ["a"]
