"""Notes about manifest fields without effect on local members, so that no user waits for an effect."""

from collections.abc import Iterator

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
"""Fields that define pods.

Fields that only tune a pod's surroundings (pull policy, zones, disruption budget) are left out: they mislead
no user, since they are plainly for Kubernetes.
"""


def without_effect(resource: Resource) -> Iterator[str]:
    """Yields a sentence for each setting without effect."""
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
        # The version of Connect takes effect here, too.
        if getattr(spec, name) != getattr(nothing, name) and not (spec.is_stock and name == "version")
    ]
    if names:
        yield (
            f"{', '.join(f'spec.{name}' for name in names)}: for pods on Kubernetes; local members are "
            "processes, and run without"
        )
    if spec.is_stock:
        # Most Workers do not need it, and it loads a lot.
        from cooperator.connect.jvm import line_of

        try:
            line_of(spec.version)
        except ValueError as error:
            yield f"{error}; until then no member is started"
    if spec.kafka != nothing.kafka:
        yield (
            f"spec.kafka: its Secrets are on Kubernetes; local members speak PLAINTEXT, not "
            f"{spec.kafka.security_protocol.value}: name a listener without security in spec.bootstrapServers"
        )
