"""Fixtures for tests that need Kubernetes. They fail, and do not skip, where it cannot be had."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator, Iterator
from contextlib import nullcontext, suppress

import pytest

from tests.harness.support import eventually
from tests.kubernetes import caches
from tests.kubernetes import helm as helms
from tests.kubernetes.api import ApiError
from tests.kubernetes.binaries import binaries
from tests.kubernetes.control_plane import ControlPlane
from tests.kubernetes.go import NotBuilt
from tests.kubernetes.image_store import prepare
from tests.kubernetes.images import NoImages
from tests.kubernetes.kind import KindCluster, KindPlane
from tests.kubernetes.nodes import Cluster
from tests.kubernetes.processes import ServerFailed

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
ON_KIND = os.environ.get("COOPERATOR_NODES") == "kind"


@pytest.fixture(scope="session")
def cluster() -> Iterator[ControlPlane]:
    """etcd, API server and controller-manager for the whole run; no nodes, and so no pod ever runs.

    Tests share it: what they make, they make in their ``namespace``. A test that stops or freezes a part
    starts a control plane of its own (``ControlPlane.start``).
    """
    with ControlPlane.start(controllers=True) as plane:
        yield plane


@pytest.fixture
def namespace(cluster: ControlPlane, unique: str) -> Iterator[str]:
    """The name of an empty namespace for one test. It has its default service account."""
    yield make_namespace(cluster, unique)
    # Its content goes in the background; nobody waits for it. A test may have deleted it itself.
    with suppress(ApiError):
        cluster.api.delete(f"/api/v1/namespaces/{unique}")


@pytest.fixture(scope="session")
def two_nodes() -> Iterator[Cluster | KindCluster]:
    """A cluster of two real nodes for the whole run, with the operator's and the worker's image: of our own,
    or of kind's where COOPERATOR_NODES says so."""
    with KindCluster.start() if ON_KIND else Cluster.start(nodes=2) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def helm() -> str:
    """The program, for tests of the charts."""
    return helms.helm()


def make_namespace(plane: ControlPlane, name: str, pod_security: str = "restricted") -> str:
    """Make it and wait for its default service account, without which no pod is accepted.

    ``pod_security``: the level that the API server enforces (privileged, baseline, restricted).
    """
    labels = {"pod-security.kubernetes.io/enforce": pod_security}
    plane.api.post("/api/v1/namespaces", {"metadata": {"name": name, "labels": labels}})
    account = f"/api/v1/namespaces/{name}/serviceaccounts/default"
    eventually(lambda: plane.api.exists(account), 30, f"{account} is made by kube-controller-manager")
    return name


def wait_until_served(plane: ControlPlane | KindPlane) -> None:
    """All resource definitions. ``kubectl wait`` ends with an error where one has no status yet."""

    def served() -> bool:
        items = plane.api.get(DEFINITIONS)["items"]
        found = [item.get("status", {}).get("conditions") or () for item in items]
        return bool(found) and all(
            any(each["type"] == "Established" and each["status"] == "True" for each in conditions)
            for conditions in found
        )

    eventually(served, 60, "all definitions are established")


def pytest_configure(config: pytest.Config) -> None:
    """A process that waits for a lock says so on the terminal, also while pytest captures output."""
    capture = config.pluginmanager.getplugin("capturemanager")

    def announce(text: str) -> None:
        with capture.global_and_fixture_disabled() if capture else nullcontext():
            sys.stderr.write(f"{text}\n")
            sys.stderr.flush()

    caches.announce = announce


def pytest_collection_finish(session: pytest.Session) -> None:
    """Makes what takes minutes the first time before any test's time is counted."""
    if session.config.option.collectonly:
        return
    needed = {
        name for item in session.items for name in ("cluster", "two_nodes", "helm") if _needs(item, name)
    }
    needs_s3 = any(hasattr(getattr(item, "module", None), "S3Server") for item in session.items)
    # Parts that cannot be made fail the tests that need them, with the reason; the others are run.
    try:
        if needs_s3:
            from tests.runtime.s3_server import program

            with suppress(AssertionError):
                program()
        with suppress(NotBuilt):
            if "helm" in needed:
                helms.helm()
        with suppress(NotBuilt, NoImages, ServerFailed):
            if "cluster" in needed or ("two_nodes" in needed and not ON_KIND):
                binaries()
            if "two_nodes" in needed and not ON_KIND:
                prepare()
    except caches.LockHeld as held:
        # Each of the tests would wait as long again.
        pytest.exit(str(held), returncode=1)


def _needs(item: pytest.Item, name: str) -> bool:
    """Whether a test has this module's fixture: others use these names, too, as for a cluster of brokers."""
    info = getattr(item, "_fixtureinfo", None)
    found = info.name2fixturedefs.get(name, ()) if info is not None else ()
    return bool(found) and found[-1].func.__module__ == __name__


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A failed test shows what the shared servers logged last."""
    report = yield
    if report.failed and isinstance(item, pytest.Function):
        for name in ("cluster", "two_nodes"):
            shared = item.funcargs.get(name)
            if isinstance(shared, ControlPlane | Cluster | KindCluster):
                report.sections.append((f"Kubernetes ({name})", shared.logs()))
    return report


__all__ = [
    "cluster",
    "helm",
    "make_namespace",
    "namespace",
    "pytest_collection_finish",
    "pytest_configure",
    "pytest_runtest_makereport",
    "two_nodes",
    "wait_until_served",
]
