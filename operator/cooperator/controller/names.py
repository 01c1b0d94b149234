"""Names on the API: labels, annotations, finalizers, the manager of our fields."""

from typing import Final

GROUP: Final = "cooperator.dev"
VERSION: Final = "v1alpha1"
FIELD_MANAGER: Final = "cooperator"
FINALIZER: Final = f"{GROUP}/finalizer"

WORKER_LABEL: Final = f"{GROUP}/worker"
INDEX_LABEL: Final = f"{GROUP}/index"
REVISION_LABEL: Final = f"{GROUP}/revision"
LEAVING: Final = f"{GROUP}/leaving"
"""Annotation: why a pod is to leave, and since when: ``REASON/MS``."""
SETTLED: Final = f"{GROUP}/Settled"
"""Readiness gate: false while the pod's group is not calm, so that the next eviction waits."""
RESTART: Final = f"{GROUP}/restart"
"""Annotation of a Connector: ``connector``, ``tasks``, ``failed`` or a task's number, and ``#`` and any
text; a new value asks for a restart."""
CONTAINER: Final = "worker"
