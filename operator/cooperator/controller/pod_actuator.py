"""Carries out the pool's actions on the API."""

import logging
import time
from collections.abc import Callable, Mapping
from typing import Any

from cooperator.controller.api.client import PODS, Api, ApiError
from cooperator.controller.names import LEAVING
from cooperator.controller.observe import Body

log = logging.getLogger(__name__)


class KubernetesPodActuator:
    """Creates, marks and deletes the pods of one Worker (``host.pool_step.PodActuator``).

    ``manifest`` makes a pod from an identity and a revision. ``refused`` receives the reason when the API
    refuses an action. A failed action has no effect and is requested again.
    """

    def __init__(
        self,
        api: Api,
        namespace: str,
        manifest: Callable[[str, str], Mapping[str, Any]],
        created: Callable[[Body], None],
        buried: Callable[[str], None],
        refused: Callable[[str], None],
    ) -> None:
        self._api = api
        self._namespace = namespace
        self._manifest = manifest
        self._created = created
        self._buried = buried
        self._refused = refused
        self.pods: Mapping[str, Body] = {}
        """The pods as the present step sees them."""

    def create(self, identity: str, revision: str) -> None:
        def make() -> None:
            try:
                self._created(self._api.create(PODS, self._manifest(identity, revision)))
            except ApiError as error:
                if not error.is_conflict:
                    raise

        self._try(make)

    def mark(self, identity: str, incarnation: str, reason: str) -> None:
        body = self.pods.get(identity)
        if body is None:
            return
        # The mark outlives this process: if the memory is lost, the pods say which of them leave.
        value = f"{reason}/{time.time_ns() // 1_000_000}" if reason else None
        patch = {"metadata": {"uid": body["metadata"]["uid"], "annotations": {LEAVING: value}}}
        self._try(lambda: self._created(self._api.merge(PODS, self._namespace, identity, patch)))

    def terminate(self, identity: str, incarnation: str) -> None:
        body = self.pods.get(identity)
        if body is not None:
            uid = body["metadata"]["uid"]
            self._try(lambda: self._api.delete(PODS, self._namespace, identity, uid))

    def kill(self, identity: str, incarnation: str) -> None:
        raise AssertionError("the kubelet kills what outlives its grace period")

    def remove(self, identity: str, incarnation: str) -> None:
        self._buried(incarnation)
        self.terminate(identity, incarnation)

    def _try(self, act: Callable[[], None]) -> None:
        try:
            act()
        except ApiError as error:
            log.warning("%s", error)
            self._refused(str(error))
