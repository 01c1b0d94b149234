"""Carries out the pool's actions on the API."""

import logging
import time
from collections.abc import Callable, Mapping
from typing import Any

from cooperator.controller.api.client import PODS, Api, ApiError
from cooperator.controller.names import LEAVING
from cooperator.controller.observe import Body
from cooperator.pool import Action, Create, Delete, Drain, Kill, Remove, UnDrain

log = logging.getLogger(__name__)


class PodActuator:
    """Creates, marks and deletes the pods of one Worker.

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

    def act(self, action: Action) -> None:
        try:
            match action:
                case Create(identity, revision):
                    self._create(identity, revision)
                case Drain(identity, _, reason):
                    # The mark outlives this process: if the memory is lost, the pods say which of them leave.
                    self._mark(identity, f"{reason.value}/{time.time_ns() // 1_000_000}")
                case UnDrain(identity):
                    self._mark(identity, None)
                case Delete(identity):
                    self._delete(identity)
                case Kill():
                    raise AssertionError("the kubelet kills what outlives its grace period")
                case Remove(identity, incarnation):
                    self._buried(incarnation)
                    self._delete(identity)
        except ApiError as error:
            log.warning("%s", error)
            self._refused(str(error))

    def _create(self, identity: str, revision: str) -> None:
        try:
            self._created(self._api.create(PODS, self._manifest(identity, revision)))
        except ApiError as error:
            if not error.is_conflict:
                raise

    def _mark(self, identity: str, mark: str | None) -> None:
        body = self.pods.get(identity)
        if body is not None:
            patch = {"metadata": {"uid": body["metadata"]["uid"], "annotations": {LEAVING: mark}}}
            self._created(self._api.merge(PODS, self._namespace, identity, patch))

    def _delete(self, identity: str) -> None:
        body = self.pods.get(identity)
        if body is not None:
            self._api.delete(PODS, self._namespace, identity, body["metadata"]["uid"])
