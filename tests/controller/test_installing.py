"""An operator that finds less than it was promised: no definitions yet, no right to a Secret, no news."""

import urllib.error
import urllib.request
from pathlib import Path

import pytest

from cooperator.local.broker import EmbeddedBroker
from tests.charts.rendered import OPERATOR
from tests.harness.installation import Installation, OperatorProcess
from tests.harness.support import eventually
from tests.kubernetes.control_plane import ControlPlane
from tests.kubernetes.fixtures import make_namespace, wait_until_served
from tests.kubernetes.helm import HelmFailed, run_helm

CRDS = Path(__file__).parent.parent.parent / "crds"

pytestmark = [pytest.mark.real]


def health(operator: OperatorProcess) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"{operator.url}healthz", timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refusal:
        return refusal.code, refusal.read().decode()
    except OSError as error:
        raise AssertionError(str(error)) from None


def test_an_operator_that_is_there_before_the_definitions_serves_them_when_they_come(
    broker: EmbeddedBroker, unique: str, tmp_path: Path
) -> None:
    with ControlPlane.start(controllers=True) as plane:
        make_namespace(plane, unique)
        installation = Installation(plane, unique, broker.bootstrap_servers, tmp_path)
        operator = installation.operator()
        eventually(lambda: "cooperator.dev" in operator.log.read_text(), 60, "it says what is missing")
        plane.kubectl("apply", "--server-side", "-f", str(CRDS))
        wait_until_served(plane)
        installation.worker(replicas=1)
        installation.connector("a", tasksMax=1)
        installation.runs("a-0")
        assert operator.child.poll() is None, "it was the same process"
        assert health(operator) == (200, "ok")
        installation.close()


def test_a_secret_that_may_not_be_read_is_said_and_nobody_else_is_touched(installation: Installation) -> None:
    path = f"/api/v1/namespaces/{installation.namespace}"
    login = {"username": "ada", "password": "enchantress"}
    installation.cluster.api.post(f"{path}/secrets", {"metadata": {"name": "login"}, "stringData": login})
    installation.grant(secrets=False)
    installation.operator()
    installation.worker(
        "closed",
        replicas=1,
        kafka={
            "securityProtocol": "SASL_PLAINTEXT",
            "sasl": {"mechanism": "SCRAM-SHA-256", "secretRef": {"name": "login"}},
        },
    )
    installation.worker("open", replicas=1)
    installation.connector("a", worker="open", tasksMax=1)
    installation.runs("a-0")
    stalled = installation.eventually(
        lambda: (
            (found := installation.condition("workers", "closed", "Stalled"))["status"] == "True" and found
        )
    )
    assert "may not read Secret 'login'" in stalled["message"]
    assert "secretNamespaces" in stalled["message"]
    # Everything except Secrets already exists.
    assert installation.cluster.api.exists(f"{path}/services/closed")

    installation.grant()
    installation.eventually(
        lambda: (
            "may not read" not in installation.condition("workers", "closed", "Stalled").get("message", "")
        ),
        90,
    )


@pytest.mark.long("tests/controller/test_watch_health.py::test_the_operator_says_what_it_does_not_hear")
def test_watches_that_tell_nothing_are_no_health(installation: Installation) -> None:
    operator = installation.operator(proxied=True)
    installation.worker(replicas=1)
    installation.connector("a", tasksMax=1)
    installation.runs("a-0")
    assert health(operator) == (200, "ok")
    assert installation.proxy is not None
    installation.proxy.deaf.set()
    installation.connector("b", tasksMax=1)
    said = eventually(lambda: (found := health(operator))[0] == 503 and found[1], 240, "it is not well")
    assert f"{installation.namespace}/" in said
    installation.proxy.deaf.clear()
    eventually(lambda: health(operator) == (200, "ok"), 120, "it is well again")


def test_an_upgrade_of_the_chart_leaves_no_namespace_alone_in_silence(
    installation: Installation, helm: str
) -> None:
    """Earlier charts served the whole cluster unless namespaces were named."""
    cluster, namespace = installation.cluster, installation.namespace

    def chart(verb: str, *values: str) -> str:
        options = ["--namespace", namespace, *(word for value in values for word in ("--set", value))]
        return run_helm(verb, "op", str(OPERATOR), *options, kubeconfig=cluster.kubeconfig)

    chart("install", "replicas=0", "clusterWide=true")
    with pytest.raises(HelmFailed, match="has served all namespaces so far: set clusterWide=true, or name"):
        chart("upgrade", "replicas=0")
    chart("upgrade", "replicas=0", "clusterWide=true")
    chart("upgrade", "replicas=0", f"namespaces={{{namespace}}}")
    chart("upgrade", "replicas=0")
    run_helm("uninstall", "op", "--namespace", namespace, kubeconfig=cluster.kubeconfig)
