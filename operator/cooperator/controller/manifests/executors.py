"""Members whose Spark makes its executors as pods of its own (``spark.master: k8s://…``). Pure.

The driver runs in the member's pod, which therefore has the token of its service account. Executors get the
member's image, volumes and restrictions, and no token.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

from cooperator.controller.names import CONTAINER, GROUP
from cooperator.crd import Worker

Manifest = dict[str, Any]

TEMPLATE: Final = f"{GROUP}/executor-pod"
"""Annotation of a member's pod: the pod template of its executors. The driver reads it as a file, since the
kubelet would expand anything that looks like a variable in an argument or environment variable."""
_FOLDER: Final = "/etc/cooperator/executors"
_FILE: Final = "pod.json"
_VOLUME: Final = "executors"
_OF_PODS: Final = (
    "affinity",
    "dnsConfig",
    "dnsPolicy",
    "enableServiceLinks",
    "hostAliases",
    "nodeSelector",
    "priorityClassName",
    "runtimeClassName",
    "schedulerName",
    "securityContext",
    "tolerations",
    "volumes",
)
_OF_CONTAINERS: Final = ("env", "envFrom", "volumeMounts", "securityContext")
_OF_ONE_POD: Final = ("POD_NAME", "POD_UID", "POD_IP")


def executor_conf(worker: Worker, image: str) -> Mapping[str, str]:
    """The settings that only the operator knows, unless the user sets them. The kubelet expands ``$(…)``."""
    if not worker.spec.spark.on_kubernetes:
        return {}
    spec = worker.spec
    conf = {
        "spark.driver.host": "$(POD_IP)",
        "spark.kubernetes.driver.pod.name": "$(POD_NAME)",
        "spark.kubernetes.namespace": worker.metadata.namespace,
        "spark.kubernetes.container.image": image,
        "spark.kubernetes.container.image.pullPolicy": spec.image_pull_policy.value,
        "spark.kubernetes.executor.podTemplateFile": f"{_FOLDER}/{_FILE}",
    }
    if spec.image_pull_secrets:
        conf["spark.kubernetes.container.image.pullSecrets"] = ",".join(spec.image_pull_secrets)
    return {name: value for name, value in conf.items() if name not in spec.spark.conf}


def add_rights(worker: Worker, pod: Manifest, container: Manifest) -> None:
    """Add what the driver needs to its pod. Call this before the user's template is laid over."""
    if not worker.spec.spark.on_kubernetes:
        return
    pod["spec"]["automountServiceAccountToken"] = worker.spec.service_account_name is not None
    field = {"fieldPath": f"metadata.annotations['{TEMPLATE}']"}
    items = [{"path": _FILE, "fieldRef": field}]
    pod["spec"]["volumes"].append({"name": _VOLUME, "downwardAPI": {"items": items}})
    container["volumeMounts"].append({"name": _VOLUME, "mountPath": _FOLDER, "readOnly": True})


def with_template(worker: Worker, pod: Manifest) -> Manifest:
    """Return the complete ``pod`` with its executors' pod template as an annotation."""
    if not worker.spec.spark.on_kubernetes:
        return pod
    metadata = pod["metadata"]
    text = json.dumps(executor_pod(pod), sort_keys=True)
    return {**pod, "metadata": {**metadata, "annotations": {**metadata["annotations"], TEMPLATE: text}}}


def executor_pod(member: Manifest) -> Manifest:
    """Like the member's own pod, but no member: without our labels, the token, sidecars and init containers.
    Spark sets the image and the resources."""
    spec = member["spec"]
    own = next(container for container in spec["containers"] if container["name"] == CONTAINER)
    container = {name: own[name] for name in _OF_CONTAINERS if name in own}
    container["env"] = [variable for variable in own["env"] if variable["name"] not in _OF_ONE_POD]
    container["volumeMounts"] = [mount for mount in own["volumeMounts"] if mount["name"] != _VOLUME]
    labels, annotations = member["metadata"]["labels"], member["metadata"]["annotations"]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "labels": {
                **{name: value for name, value in labels.items() if not name.startswith(f"{GROUP}/")},
                "app.kubernetes.io/component": "executor",
            },
            "annotations": {k: v for k, v in annotations.items() if not k.startswith(f"{GROUP}/")},
        },
        "spec": {
            **{name: spec[name] for name in _OF_PODS if name in spec},
            "volumes": [volume for volume in spec["volumes"] if volume["name"] != _VOLUME],
            "automountServiceAccountToken": False,
            # Jars are fetched into the working directory, and the image is read-only.
            "containers": [{"name": "executor", "workingDir": "/tmp", **container}],
        },
    }


def refusal(worker: Worker) -> str:
    """Returns why a cluster cannot run these executors; empty if it can, as far as the Worker tells."""
    spec = worker.spec
    if not worker.spec.spark.on_kubernetes or spec.service_account_name is not None:
        return ""
    if any(name.startswith("spark.kubernetes.authenticate.") for name in spec.spark.conf):
        return ""
    return (
        f"spec.serviceAccountName is not set, but spec.spark.conf[spark.master] is "
        f"{spec.spark.conf['spark.master']!r}: members make executors with the rights of a ServiceAccount of "
        "theirs; name one that has the Role of examples/recipes/executors"
    )
