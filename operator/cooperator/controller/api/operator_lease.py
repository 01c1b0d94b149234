"""The Lease that says which operator tries to lead. The broker decides which one does.

Times are monotonic: a candidate counts from when it has seen the holder's record change, never from the
record's time of day, and the holder gives up before any candidate can take the Lease.
"""

import logging
import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from cooperator.controller.api.client import LEASES, Api, ApiError
from cooperator.supervision import supervised, wait_turning

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class OperatorLeaseTerms:
    """``duration_ms`` is how long a record is valid without a renewal. The holder renews at every third of
    it, and gives up after two thirds without a successful renewal."""

    namespace: str
    name: str
    identity: str
    duration_ms: int = 15_000

    @property
    def renew_ms(self) -> int:
        return self.duration_ms // 3

    @property
    def give_up_ms(self) -> int:
        return self.duration_ms * 2 // 3


@dataclass(slots=True)
class Sighting:
    """The record that a candidate saw last, and since when (monotonic ms) it has stood unchanged."""

    record: tuple[Any, ...]
    since_ms: int


def may_take(
    terms: OperatorLeaseTerms, lease: dict[str, Any], seen: Sighting | None, now_ms: int
) -> tuple[bool, Sighting]:
    """Whether a lease can be taken now, and the updated sighting. Pure."""
    spec = lease.get("spec") or {}
    holder = spec.get("holderIdentity") or ""
    record = (holder, spec.get("renewTime"), spec.get("leaseTransitions"))
    if seen is None or seen.record != record:
        seen = Sighting(record, now_ms)
    if holder in ("", terms.identity):
        return True, seen
    duration_ms = int(spec.get("leaseDurationSeconds") or 0) * 1000 or terms.duration_ms
    return now_ms - seen.since_ms >= duration_ms, seen


def spec_of(terms: OperatorLeaseTerms, lease: dict[str, Any]) -> dict[str, Any]:
    """Returns the spec with which the holder renews ``lease``."""
    now = datetime.now(UTC).strftime(_TIME)
    spec = lease.get("spec") or {}
    return {
        "holderIdentity": terms.identity,
        # Whole seconds, rounded up: no other operator may take the Lease before its duration is over.
        "leaseDurationSeconds": math.ceil(terms.duration_ms / 1000),
        "acquireTime": spec.get("acquireTime") or now,
        "renewTime": now,
        "leaseTransitions": int(spec.get("leaseTransitions") or 0),
    }


class OperatorLeaseKeeper:
    """``acquire`` blocks until this process holds the Lease, then renews it until ``release`` or
    ``on_lost``."""

    def __init__(self, api: Api, terms: OperatorLeaseTerms, on_lost: Callable[[], None]) -> None:
        self._api = api
        self._terms = terms
        self._on_lost = on_lost
        self._ending = threading.Event()
        self._thread = supervised(self._renew, "lease")
        self._renewed_ms = 0
        self._transitions = 0

    def acquire(self, ending: threading.Event) -> bool:
        """Return False if ``ending`` was set first."""
        seen: Sighting | None = None
        while not ending.is_set():
            sent_ms = _now_ms()
            try:
                seen, ours = self._try(seen, sent_ms)
                if ours:
                    self._renewed_ms = sent_ms
                    self._thread.start()
                    return True
            except Exception as error:
                # Every error counts as transient, such as an unreadable token or a proxy's error page.
                log.warning("lease: %s", error)
            ending.wait(self._terms.renew_ms / 3000)
        return False

    @property
    def holds(self) -> bool:
        """Whether no other process can have taken the Lease yet."""
        return _now_ms() - self._renewed_ms < self._terms.duration_ms

    def release(self) -> None:
        """Give the Lease up, so that the next operator need not wait."""
        self._ending.set()
        self._thread.join(5)
        try:
            lease = self._api.get(LEASES, self._terms.namespace, self._terms.name)
            if lease["spec"].get("holderIdentity") == self._terms.identity:
                lease["spec"] = {
                    **spec_of(self._terms, lease),
                    "holderIdentity": "",
                    "leaseDurationSeconds": 1,
                }
                self._api.replace(LEASES, lease)
        except Exception as error:
            log.warning("lease: %s", error)

    def _try(self, seen: Sighting | None, now_ms: int) -> tuple[Sighting | None, bool]:
        terms = self._terms
        try:
            lease = self._api.get(LEASES, terms.namespace, terms.name)
        except ApiError as error:
            if not error.is_missing:
                raise
            manifest = {
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "metadata": {"name": terms.name, "namespace": terms.namespace},
            }
            self._api.create(LEASES, {**manifest, "spec": spec_of(self._terms, manifest)})
            return seen, True
        takeable, seen = may_take(terms, lease, seen, now_ms)
        if not takeable:
            return seen, False
        spec = lease.get("spec") or {}
        lease["spec"] = spec_of(self._terms, lease)
        if spec.get("holderIdentity") != terms.identity:
            lease["spec"]["leaseTransitions"] = int(spec.get("leaseTransitions") or 0) + 1
        # The server refuses this if another candidate was first.
        self._api.replace(LEASES, lease)
        return seen, True

    def _renew(self) -> None:
        terms = self._terms
        while not wait_turning(self._ending, terms.renew_ms / 1000):
            sent_ms = _now_ms()
            try:
                lease = self._api.get(LEASES, terms.namespace, terms.name)
                if (lease.get("spec") or {}).get("holderIdentity") != terms.identity:
                    break
                lease["spec"] = spec_of(self._terms, lease)
                self._api.replace(LEASES, lease)
                self._renewed_ms = sent_ms
            except Exception as error:
                log.warning("lease: %s", error)
                if _now_ms() - self._renewed_ms >= terms.give_up_ms:
                    break
        else:
            return
        log.error("the Lease %s/%s is lost", terms.namespace, terms.name)
        self._on_lost()


_TIME: Final = "%Y-%m-%dT%H:%M:%S.%fZ"


def _now_ms() -> int:
    return int(time.monotonic() * 1000)
