"""Kafka Connect's REST API on Kubernetes: callers' rights and other managers' fields, as the API server has
them; what runs, by the members' own journal."""

from collections.abc import Sequence
from typing import Any

import pytest

from cooperator.controller.rest_front import OFF
from tests.harness.installation import RESOURCES, Installation, own_address
from tests.rest.client import Client

pytestmark = pytest.mark.real

RBAC = "rbac.authorization.k8s.io"
READING = [{"apiGroups": ["cooperator.dev"], "resources": ["connectors"], "verbs": ["get", "list"]}]
EDITING = [
    {
        "apiGroups": ["cooperator.dev"],
        "resources": ["connectors", "connectors/restart", "connectors/offsets"],
        "verbs": ["get", "list", "create", "update", "patch", "delete"],
    },
    {"apiGroups": ["cooperator.dev"], "resources": ["workers"], "verbs": ["get"]},
]


def account(installation: Installation, name: str, rules: Sequence[Any]) -> str:
    """The Authorization header of an account that has exactly this right."""
    metadata = {"name": name, "namespace": installation.namespace}
    installation.cluster.apply(
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata},
        {"apiVersion": f"{RBAC}/v1", "kind": "Role", "metadata": metadata, "rules": list(rules)},
        {
            "apiVersion": f"{RBAC}/v1",
            "kind": "RoleBinding",
            "metadata": metadata,
            "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": installation.namespace}],
        },
    )
    path = f"/api/v1/namespaces/{installation.namespace}/serviceaccounts/{name}/token"
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    return f"Bearer {installation.cluster.api.post(path, request)['status']['token']}"


def front(installation: Installation) -> str:
    """Where the Service leads to."""
    path = f"/apis/discovery.k8s.io/v1/namespaces/{installation.namespace}/endpointslices/lake-rest"

    def found() -> str:
        body = installation.cluster.api.get(path)
        [endpoint], [port] = body["endpoints"], body["ports"]
        return f"http://{endpoint['addresses'][0]}:{port['port']}"

    return str(installation.eventually(found))


@pytest.fixture(scope="module")
def installation(shared: Installation) -> Installation:
    """A Worker of two members, which all tests of the API use."""
    shared.grant(rest=True)
    shared.operator(rest=True, host=own_address())
    return shared


@pytest.fixture
def served(installation: Installation) -> Client:
    """Somebody who may do everything to the Worker's Connectors."""
    installation.worker(replicas=2, rest={"enabled": True, "port": 8084})
    client = Client(front(installation), account(installation, "editor", EDITING))
    installation.eventually(lambda: client("GET /health")["status"] == "healthy", 90)
    return client


def noop(installation: Installation, **more: Any) -> dict[str, Any]:
    return {
        "connector.class": "noop",
        "tasks.max": "2",
        "units": "2",
        "journal": installation.journal_path,
        **more,
    }


def test_callers_may_do_what_the_api_server_allows(installation: Installation, served: Client) -> None:
    for authorization in ("", "Bearer nonsense", "Basic YTpi"):
        code, body = Client(served.url, authorization).send("GET /connectors")
        assert (code, body["error_code"]) == (401, 401)
    reader = Client(served.url, account(installation, "reader", READING))
    installation.eventually(lambda: reader("GET /connectors") == [])
    message = reader("POST /connectors", {"name": "a", "config": noop(installation)}, 403)["message"]
    who = f"system:serviceaccount:{installation.namespace}:reader"
    assert message.startswith(f"{who} may not create connectors.cooperator.dev in namespace")
    assert installation.is_gone("connectors", "a")

    served("POST /connectors", {"name": "a", "config": noop(installation)}, 201)
    installation.runs("a-0", "a-1")
    [entry] = [
        e
        for e in installation.get("connectors", "a")["metadata"]["managedFields"]
        if "f:spec" in e["fieldsV1"]
    ]
    assert entry["manager"] == "cooperator-rest"
    assert reader("GET /connectors/a/config")["units"] == "2"
    for line in ("PUT /connectors/a/pause", "POST /connectors/a/restart", "DELETE /connectors/a/offsets"):
        reader(line, code=403)

    served("PUT /connectors/a/stop", code=204)
    installation.eventually(lambda: not installation.journal.running())
    served("PATCH /connectors/a/config", {"units": None, "stop.delay.ms": 1})
    assert installation.get("connectors", "a")["spec"]["config"].keys() == {"journal", "stop.delay.ms"}
    served("DELETE /connectors/a", code=204)
    installation.eventually(lambda: installation.is_gone("connectors", "a"))


def test_fields_of_another_manager_are_refused(installation: Installation, served: Client) -> None:
    """A manifest says class, tasksMax and config, and nothing of the state."""
    installation.connector("a", tasksMax=2, config={"units": 2})
    installation.runs("a-0", "a-1")
    config = served("GET /connectors/a/config")
    message = served("PUT /connectors/a/config", {**config, "stop.delay.ms": "1"}, 403)["message"]
    assert "spec.config by 'kubectl'" in message
    assert "by 'kubectl'" in served("DELETE /connectors/a", code=403)["message"]
    served("PUT /connectors/a/config", config)  # That changes nothing.

    served("PUT /connectors/a/pause", code=202)
    served.in_states("a", "PAUSED", "PAUSED", "PAUSED")
    # Applying the manifest does not undo the pause, since the manifest does not set the field.
    installation.connector("a", tasksMax=2, config={"units": 2})
    assert installation.get("connectors", "a")["spec"]["state"] == "Paused"
    installation.connector("a", tasksMax=2, config={"units": 2}, state="Paused")
    assert "spec.state by 'kubectl'" in served("PUT /connectors/a/stop", code=403)["message"]
    installation.delete("connectors", "a")
    installation.eventually(lambda: installation.is_gone("connectors", "a"))


def test_the_service_comes_and_goes_with_the_field(installation: Installation, served: Client) -> None:
    path = f"/api/v1/namespaces/{installation.namespace}/services/lake-rest"
    assert installation.cluster.api.get(path)["spec"]["ports"][0]["port"] == 8084
    installation.worker(replicas=2, rest={"enabled": False})
    installation.eventually(lambda: not installation.cluster.api.exists(path))
    with pytest.raises(OSError, match="refused"):
        served.send("GET /health")


def test_an_operator_that_does_not_serve_it_says_so(installation: Installation) -> None:
    for operator in installation.operators:
        operator.terminate()
    installation.operator()
    installation.worker("other", replicas=0, rest={"enabled": True})
    conditions = f"{RESOURCES}/{installation.namespace}/workers/other"
    installation.eventually(lambda: OFF in str(installation.cluster.api.get(conditions).get("status")))
