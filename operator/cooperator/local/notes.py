"""What a manifest says that has no effect on local members, so that nobody waits for it."""

from collections.abc import Iterator

from cooperator.connect.jvm import line_of
from cooperator.crd import Connector, Resource, Worker
from cooperator.crd.worker import WorkerSpec

_OF_PODS = (
    "image",
    "version",
    "image_pull_secrets",
    "service_account_name",
    "resources",
    "template",
    "checkpoint_volume",
)
"""Fields that say how pods are made. What only tunes a pod's surroundings (pull policy, zones, disruption
budget) is passed over: nobody is misled who reads that it is for Kubernetes."""


def without_effect(resource: Resource) -> Iterator[str]:
    """A sentence for each thing that is asked for and not done."""
    if isinstance(resource, Connector):
        if resource.spec.restart_nonce:
            yield (
                "spec.restartNonce restarts a connector on Kubernetes; here: cooperator local restart "
                f"{resource.metadata.name}"
            )
        return
    yield from _of_worker(resource)


def _of_worker(worker: Worker) -> Iterator[str]:
    spec, nothing = worker.spec, WorkerSpec()
    names = [
        WorkerSpec.model_fields[name].alias or name
        for name in _OF_PODS
        # Which Connect runs is chosen here, too.
        if getattr(spec, name) != getattr(nothing, name) and not (spec.is_stock and name == "version")
    ]
    if names:
        yield (
            f"{', '.join(f'spec.{name}' for name in names)}: for pods on Kubernetes; local members are "
            "processes, and run without"
        )
    if spec.is_stock:
        try:
            line_of(spec.version)
        except ValueError as error:
            yield f"{error}; until then no member is started"
    if spec.kafka != nothing.kafka:
        yield (
            f"spec.kafka: its Secrets are on Kubernetes; local members speak PLAINTEXT, not "
            f"{spec.kafka.security_protocol.value}: name a listener without security in spec.bootstrapServers"
        )
