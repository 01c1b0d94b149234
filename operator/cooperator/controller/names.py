"""Names on the API: labels, annotations, finalizers, our field manager."""

from typing import Final

GROUP: Final = "cooperator.dev"
VERSION: Final = "v1alpha1"
FIELD_MANAGER: Final = "cooperator"
FINALIZER: Final = f"{GROUP}/finalizer"

WORKER_LABEL: Final = f"{GROUP}/worker"
INDEX_LABEL: Final = f"{GROUP}/index"
REVISION_LABEL: Final = f"{GROUP}/revision"
LEAVING: Final = f"{GROUP}/leaving"
"""Annotation ``REASON/MS``: why a pod is to leave, and since when."""
RELEASED: Final = f"{GROUP}/released"
"""Annotation of a pod that outlived its Worker (``Orphan``): its value names the Worker that may take it."""
SETTLED: Final = f"{GROUP}/Settled"
"""Readiness gate: false until the pod's group has settled, so that the next eviction waits."""
RESTART: Final = f"{GROUP}/restart"
"""Annotation of a Connector: ``connector``, ``tasks``, ``failed`` or a task's number, optionally followed by
``#`` and any text; a new value requests a restart."""
OFFSETS_REQUEST: Final = f"{GROUP}/offsets-request"
"""Annotation of a Connector: a request about its offsets, as JSON (``offset_requests``)."""
OFFSETS_RESULT: Final = f"{GROUP}/offsets-result"
"""Our annotation: the state and the result of that request."""
CONTAINER: Final = "worker"
