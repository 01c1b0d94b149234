"""Custom resources: the specs that users write, and the statuses that they read.

This package holds the pydantic models of ``Worker`` and ``Connector``, the conversion between manifests and
resources, explanations of what is wrong with a manifest, the translation of resources to the planner's terms,
and status projections. It is pure: text and values in, values out; files, clocks and servers belong to the
callers. It may import ``model`` only.

Resources are an edge format: no other package but the hosts sees an API version.
"""

from cooperator.crd.base import API_VERSION, ObjectMeta, Reference
from cooperator.crd.changes import forbidden_changes, forbidden_move
from cooperator.crd.choices import Runtime
from cooperator.crd.compile import compile_desired, compile_policy
from cooperator.crd.conditions import (
    Condition,
    ConditionStatus,
    connector_conditions,
    merge_conditions,
    stored_conditions,
    summary_conditions,
    worker_found,
)
from cooperator.crd.connector import Connector, ConnectorSpec, State
from cooperator.crd.errors import FieldProblem, ResourceError
from cooperator.crd.kafka import Kafka, SaslMechanism, SecurityProtocol
from cooperator.crd.manifests import Resource, dump, parse, to_manifest
from cooperator.crd.objects import from_object, shallow
from cooperator.crd.pod import CheckpointVolume, ImagePullPolicy, PodTemplate, Resources
from cooperator.crd.status import ConnectorStatus, WorkerStatus
from cooperator.crd.worker import Worker, WorkerSpec

__all__ = [
    "API_VERSION",
    "CheckpointVolume",
    "Condition",
    "ConditionStatus",
    "Connector",
    "ConnectorSpec",
    "ConnectorStatus",
    "FieldProblem",
    "ImagePullPolicy",
    "Kafka",
    "ObjectMeta",
    "PodTemplate",
    "Reference",
    "Resource",
    "ResourceError",
    "Resources",
    "Runtime",
    "SaslMechanism",
    "SecurityProtocol",
    "State",
    "Worker",
    "WorkerSpec",
    "WorkerStatus",
    "compile_desired",
    "compile_policy",
    "connector_conditions",
    "dump",
    "forbidden_changes",
    "forbidden_move",
    "from_object",
    "merge_conditions",
    "parse",
    "shallow",
    "stored_conditions",
    "summary_conditions",
    "to_manifest",
    "worker_found",
]
