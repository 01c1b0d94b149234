"""A Worker's pods as manifests. Pure."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from cooperator.controller.manifests import connect_pods, leader_ca
from cooperator.controller.manifests.executors import add_rights, executor_conf, with_template
from cooperator.controller.manifests.secret_mounts import kafka_mounts, security_options
from cooperator.controller.names import (
    CONTAINER,
    GROUP,
    INDEX_LABEL,
    REVISION_LABEL,
    SETTLED,
    VERSION,
    WORKER_LABEL,
)
from cooperator.crd import Worker
from cooperator.crd.kafka import Kafka
from cooperator.crd.pod_merge import merged
from cooperator.host.member import member_options
from cooperator.telemetry import ENDPOINT

RENDER_VERSION: Final = 1
"""Version of the template that this file renders from a Worker on Spark. It is raised with a change that
running members need not have; ``template`` continues to render the earlier versions for Workers that are
pinned to them (``pins``)."""

Manifest = dict[str, Any]
USER_ID: Final = 10_001
PORT: Final = 8084
_STATE: Final = "/state"
CHECKPOINTS: Final = "/state/checkpoints"
"""The checkpoints of a Worker that names no place for them."""
_GRACE_S: Final = 30


@dataclass(frozen=True, slots=True)
class Defaults:
    """Defaults that the operator applies to every Worker. ``image`` is for Workers without one.
    ``render_version`` selects the template of members. ``leader_ca``: leaders serve https, and members verify
    them by a CA that the operator supplies. ``otlp_endpoint``: where members send their metrics."""

    image: str
    bootstrap_servers: str = ""
    render_version: int = RENDER_VERSION
    leader_ca: bool = False
    otlp_endpoint: str = ""


def newest_version(worker: Worker) -> int:
    """The version of the template that new Workers get; each runtime has its own."""
    return connect_pods.RENDER_VERSION if worker.spec.is_stock else RENDER_VERSION


def image(worker: Worker, defaults: Defaults) -> str:
    ours = connect_pods.image(defaults.render_version) if worker.spec.is_stock else defaults.image
    chosen = worker.spec.image or ours
    if worker.spec.version is None:
        return chosen
    name, colon, tag = chosen.partition("@")[0].rpartition(":")
    return f"{name if colon and '/' not in tag else chosen}:{worker.spec.version}"


def servers(worker: Worker, defaults: Defaults) -> str:
    return worker.spec.bootstrap_servers or defaults.bootstrap_servers


def port(worker: Worker) -> int:
    """The port on which members listen."""
    return connect_pods.PORT if worker.spec.is_stock else PORT


def template(worker: Worker, defaults: Defaults) -> Manifest:
    """The pod that every member of ``worker`` is made from; what differs between members is not in it."""
    spec = worker.spec
    stock = worker.spec.is_stock
    user_id = connect_pods.USER_ID if stock else USER_ID
    volumes: list[Manifest] = [
        {"name": "state", "emptyDir": {}},
        {"name": "tmp", "emptyDir": {}},
    ]
    mounts: list[Manifest] = [
        {"name": "state", "mountPath": _STATE},
        {"name": "tmp", "mountPath": "/tmp"},
    ]
    if spec.checkpoint_volume is not None:
        claim = {"claimName": spec.checkpoint_volume.claim_name}
        volumes.append({"name": "checkpoints", "persistentVolumeClaim": claim})
        mounts.append({"name": "checkpoints", "mountPath": spec.checkpoint_volume.mount_path})
    for mount in kafka_mounts(spec.kafka):
        volumes.append(mount.volume())
        mounts.append({"name": mount.name, "mountPath": str(mount.path), "readOnly": True})
    if stock:
        volumes.append(connect_pods.volume(worker))
        mounts.append(connect_pods.mount())
    if defaults.leader_ca:
        volumes.append(leader_ca.volume(worker))
        mounts.append(leader_ca.mount())
    own = connect_pods.container(worker) if stock else _agent(worker, defaults)
    telemetry = () if stock else _telemetry(worker, defaults)
    container: Manifest = {
        "name": CONTAINER,
        "image": image(worker, defaults),
        "imagePullPolicy": spec.image_pull_policy.value,
        **own,
        "env": [
            _from_field("POD_NAME", "metadata.name"),
            _from_field("POD_UID", "metadata.uid"),
            _from_field("POD_IP", "status.podIP"),
            {"name": "HOME", "value": _STATE},
            *own.get("env", ()),
            *telemetry,
        ],
        "volumeMounts": mounts,
        "resources": {
            name: dict(amounts)
            for name, amounts in (("requests", spec.resources.requests), ("limits", spec.resources.limits))
            if amounts
        },
        "terminationMessagePolicy": "File",
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
    }
    pod: Manifest = {
        "metadata": {
            "labels": {
                "app.kubernetes.io/name": "cooperator",
                "app.kubernetes.io/component": "worker",
                "app.kubernetes.io/managed-by": "cooperator",
                WORKER_LABEL: worker.metadata.name,
            },
            # A member announces its end by draining, so the autoscaler must not evict it unannounced.
            "annotations": {
                "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
                **(_connect_files(worker, defaults) if stock else {}),
            },
        },
        "spec": {
            "containers": [container],
            "volumes": volumes,
            # A stock worker does not name its incarnations: a pod has only one, and its end is the worker's.
            "restartPolicy": "Never" if stock else "Always",
            "terminationGracePeriodSeconds": -(-spec.drain_timeout_ms // 1000) + _GRACE_S,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": user_id,
                "runAsGroup": user_id,
                "fsGroup": user_id,
                "fsGroupChangePolicy": "OnRootMismatch",
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "readinessGates": [{"conditionType": SETTLED}],
        },
    }
    if spec.image_pull_secrets:
        pod["spec"]["imagePullSecrets"] = [{"name": name} for name in spec.image_pull_secrets]
    if spec.service_account_name:
        pod["spec"]["serviceAccountName"] = spec.service_account_name
    if spec.zone_label:
        pod["spec"]["topologySpreadConstraints"] = [
            {
                "maxSkew": 1,
                "topologyKey": spec.zone_label,
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": {WORKER_LABEL: worker.metadata.name}},
            }
        ]
    add_rights(worker, pod, container)
    user, metadata = spec.template, pod["metadata"]
    return with_template(
        worker,
        {
            "metadata": {
                "labels": {**metadata["labels"], **user.metadata.labels},
                "annotations": {**metadata["annotations"], **user.metadata.annotations},
            },
            "spec": merged(pod["spec"], user.spec),
        },
    )


def _connect_files(worker: Worker, defaults: Defaults) -> Mapping[str, str]:
    return connect_pods.annotations(
        worker, servers(worker, defaults), defaults.render_version, defaults.leader_ca
    )


def _agent(worker: Worker, defaults: Defaults) -> Manifest:
    return {
        "args": list(arguments(worker, defaults)),
        "ports": [{"name": "member", "containerPort": PORT}],
        "readinessProbe": {"httpGet": {"path": "/", "port": PORT}, "periodSeconds": 5, "failureThreshold": 3},
    }


def _telemetry(worker: Worker, defaults: Defaults) -> Sequence[Manifest]:
    """The variables that make a member send its metrics. Versions that do not know them ignore them."""
    if not defaults.otlp_endpoint:
        return ()
    return (
        _from_field("POD_NAMESPACE", "metadata.namespace"),
        {"name": "COOPERATOR_WORKER", "value": worker.metadata.name},
        {"name": ENDPOINT, "value": defaults.otlp_endpoint},
    )


def arguments(worker: Worker, defaults: Defaults) -> Sequence[str]:
    """The member's own command line; the image's entry point is ``cooperator``."""
    return [
        "worker",
        *("--identity", "$(POD_NAME)", "--pod-uid", "$(POD_UID)"),
        *("--listen", f"0.0.0.0:{PORT}", "--advertised-host", "$(POD_IP)"),
        *("--state-dir", _STATE, "--checkpoints", worker.spec.checkpoint_root or CHECKPOINTS),
        *member_options(worker, servers(worker, defaults)),
        *security_options(worker.spec.kafka),
        *(("--leader-ca-file", str(leader_ca.PEM)) if defaults.leader_ca else ()),
        *(f"--spark-conf={k}={v}" for k, v in executor_conf(worker, image(worker, defaults)).items()),
    ]


def revision(worker: Worker, defaults: Defaults, referenced: Mapping[str, str]) -> str:
    """Names the settings that members start with: a change makes the pool roll.

    It depends on the user's inputs, never on existing pods. ``referenced`` maps ``kind/name`` of the Secrets
    and ConfigMaps that the template refers to, to hashes of their content.
    """
    inputs = {
        "render": defaults.render_version,
        "image": image(worker, defaults) if worker.spec.image or worker.spec.version else "",
        "template": worker.spec.template.model_dump(mode="json"),
        "options": [*member_options(worker, worker.spec.bootstrap_servers or "")],
        "resources": worker.spec.resources.model_dump(mode="json"),
        "checkpoints": worker.spec.checkpoint_root,
        "volume": worker.spec.checkpoint_volume and worker.spec.checkpoint_volume.claim_name,
        "service_account": worker.spec.service_account_name,
        "pull_secrets": sorted(worker.spec.image_pull_secrets),
        "nonce": worker.spec.restart_nonce,
        "referenced": dict(sorted(referenced.items())),
    }
    if worker.spec.is_stock:
        inputs["options"] = connect_pods.inputs(worker, defaults.render_version)
    if worker.spec.kafka != Kafka():
        # Defaults are omitted, so that a new release does not change the revision of existing pods.
        inputs["kafka"] = _kafka_inputs(worker.spec.kafka)
    if defaults.leader_ca:
        # Members without the CA could not call their leader.
        inputs["leader_ca"] = True
    if defaults.otlp_endpoint and not worker.spec.is_stock:
        inputs["otlp_endpoint"] = defaults.otlp_endpoint
    return hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()[:10]


def _kafka_inputs(kafka: Kafka) -> Manifest:
    inputs = kafka.model_dump(mode="json")
    if kafka.sasl is not None and kafka.sasl.oauthbearer is None:
        del inputs["sasl"]["oauthbearer"]
    return inputs


def pod_manifest(worker: Worker, defaults: Defaults, identity: str, revision_name: str) -> Manifest:
    """One member's pod, owned by its Worker."""
    index = identity.rpartition("-")[2]
    made = template(worker, defaults)
    metadata = made["metadata"]
    metadata["labels"] = {**metadata["labels"], INDEX_LABEL: index, REVISION_LABEL: revision_name}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            **metadata,
            "name": identity,
            "namespace": worker.metadata.namespace,
            "ownerReferences": [owner(worker)],
        },
        # Peers and the leader find a member by the pod's address; the name is for people.
        "spec": {**made["spec"], "hostname": identity, "subdomain": worker.metadata.name},
    }


def owner(worker: Worker) -> Manifest:
    return {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": "Worker",
        "name": worker.metadata.name,
        "uid": worker.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def _from_field(name: str, path: str) -> Manifest:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}
