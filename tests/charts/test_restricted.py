"""No container of the chart exceeds the level `restricted` of Pod Security."""

from typing import Any

import pytest

from tests.charts.rendered import EVERYTHING, Release, pods

OPENSHIFT = {**EVERYTHING, "podSecurityContext": {"runAsUser": 1000650000, "fsGroup": 1000650000}}


def assert_restricted(spec: Any) -> None:
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert not spec.keys() & {"hostNetwork", "hostPID", "hostIPC"}
    assert all(volume.keys() <= {"name", "emptyDir", "configMap"} for volume in spec.get("volumes", ()))
    for container in [*spec["containers"], *spec.get("initContainers", ())]:
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert all("hostPort" not in port for port in container.get("ports", ()))
        assert container["resources"]["limits"]["memory"]
        assert container["resources"]["requests"].keys() == {"cpu", "memory"}


@pytest.mark.parametrize("values", [{}, EVERYTHING, OPENSHIFT], ids=["default", "everything", "any user"])
def test_every_container_is_restricted(release: Release, values: Any) -> None:
    found = dict(pods(release.manifests(values)))
    assert found.keys() == {"Deployment", "Pod"}
    for pod in found.values():
        assert_restricted(pod["spec"])


def test_any_user_has_a_writable_directory(release: Release) -> None:
    # Some clusters choose a user that the image does not know. The chart then sets no user, and the home is
    # the one directory that everybody may write to.
    pod = release.operator_pod()
    assert "runAsUser" not in pod["spec"]["securityContext"]
    container = release.operator_container()
    assert {"name": "HOME", "value": "/tmp"} in container["env"]
    assert container["volumeMounts"] == [{"name": "tmp", "mountPath": "/tmp"}]
    assert pod["spec"]["volumes"] == [{"name": "tmp", "emptyDir": {}}]


def test_restricted_settings_cannot_be_removed(release: Release) -> None:
    context = release.operator_pod(OPENSHIFT)["spec"]["securityContext"]
    assert context == {
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
        "runAsUser": 1000650000,
        "fsGroup": 1000650000,
    }
