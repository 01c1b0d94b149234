"""The inputs of members stay the same under later operators. Needs no server."""

import dataclasses
from typing import Any

import pytest

from cooperator.controller.api.client import SECRETS, Api, ApiError, Kind
from cooperator.controller.manifests import pods
from cooperator.controller.manifests.allowed import Allowance
from cooperator.controller.manifests.pins import PINNED, Pin, latest, pin_of, upgrade_available
from cooperator.controller.manifests.pods import Defaults, image, revision
from cooperator.controller.supplies import Supplies
from cooperator.crd import ConditionStatus
from tests.controller.workers import worker

FIRST = Defaults("registry.example/cooperator:1.0", "kafka:9092")
SECOND = Defaults("registry.example/cooperator:2.0", "kafka:9092")


def body(pin: Pin | None = None, text: str = "") -> dict[str, Any]:
    return {"metadata": {"annotations": {PINNED: pin.text() if pin else text}}}


def test_a_pin_outlives_the_operator_that_made_it(monkeypatch: pytest.MonkeyPatch) -> None:
    pinned = pin_of(worker(), {"metadata": {}}, FIRST)
    before = revision(worker(), pinned.defaults(FIRST), {})

    monkeypatch.setattr(pods, "RENDER_VERSION", pods.RENDER_VERSION + 1)
    later = pin_of(worker("{replicas: 9}"), body(pinned), SECOND)
    assert later == pinned
    assert image(worker(), later.defaults(SECOND)) == FIRST.image
    assert revision(worker(), later.defaults(SECOND), {}) == before
    condition = upgrade_available(worker(), later, SECOND)
    assert condition.status is ConditionStatus.TRUE
    assert "spec.version" in condition.message

    chosen = worker("{version: '2.0'}")
    renewed = pin_of(chosen, body(pinned), SECOND)
    assert renewed == latest(chosen, SECOND)
    assert revision(chosen, renewed.defaults(SECOND), {}) != before
    assert upgrade_available(chosen, renewed, SECOND).status is ConditionStatus.FALSE


def test_a_worker_with_its_own_image_is_told_of_template_changes_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own = worker("{image: 'example.com/own:7'}")
    pinned = latest(own, FIRST)
    assert upgrade_available(own, pinned, SECOND).status is ConditionStatus.FALSE
    monkeypatch.setattr(pods, "RENDER_VERSION", pods.RENDER_VERSION + 1)
    condition = upgrade_available(own, pinned, SECOND)
    assert condition.status is ConditionStatus.TRUE
    assert "spec.image" in condition.message


def test_another_image_of_the_operator_is_no_matter_of_stock_workers() -> None:
    stock = worker("{runtime: connect}")
    pinned = latest(stock, FIRST)

    assert upgrade_available(stock, pinned, SECOND).status is ConditionStatus.FALSE
    assert revision(stock, pinned.defaults(FIRST), {}) == revision(stock, pinned.defaults(SECOND), {})


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"renderVersion": "x"}', '{"renderVersion": 1}', "null", "[" * 100_000]
)
def test_an_invalid_pin_is_ignored(text: str) -> None:
    assert pin_of(worker(), body(text=text), FIRST) == latest(worker(), FIRST)


SPECS = {
    "{}": "3455006a6a",
    "{version: '2.0', spark: {heapMb: 2048, conf: {a: b}}, capacity: 2}": "016690e9fa",
    "{resources: {limits: {memory: 4Gi}}, checkpointVolume: {claimName: c}, envAllowed: [A]}": "a6097950da",
    "{kafka: {securityProtocol: SASL_SSL, sasl: {mechanism: PLAIN, secretRef: {name: s}}}}": "939e170bc6",
}


@pytest.mark.parametrize("spec", SPECS)
def test_a_release_gives_the_revisions_of_the_one_before(spec: str) -> None:
    """Another name here rolls the members of everybody who upgrades the operator: find another way, such as
    not to write what is as it always was."""
    assert revision(worker(spec), dataclasses.replace(FIRST, render_version=1), {}) == SPECS[spec]


class Unreadable(Api):
    """An API server that lets no Secret be read, until it does."""

    def __init__(self) -> None:
        self.away = True

    def get(self, kind: Kind, namespace: str | None, name: str) -> dict[str, Any]:
        if kind is not SECRETS:
            raise ApiError(404, "NotFound", "there is none yet")
        if self.away:
            raise ApiError(403, "Forbidden", "secrets are forbidden")
        return {"data": {"a": "b"}}

    def apply(self, kind: Kind, manifest: Any, subresource: str = "") -> dict[str, Any]:
        return {}


def test_nothing_rolls_for_what_cannot_be_read() -> None:
    api = Unreadable()
    template = "template: {spec: {containers: [{name: worker, envFrom: [{secretRef: {name: s}}]}]}}"
    reads = worker(f"{{{template}}}")
    supplies = Supplies(api, FIRST, Allowance(any_template=True))
    supplies.renew(reads)
    assert "may not read Secret 's'" in supplies.unread
    assert supplies.revision(reads, ["r2", "r1", "r2"]) == "r2", "as the pods are"
    api.away = False
    reads = worker(f"{{restartNonce: now, {template}}}")
    supplies.renew(reads)
    assert supplies.unread == ""
    known = supplies.revision(reads, ["r2"])
    assert known not in ("r1", "r2")
    api.away = True
    supplies.renew(worker(f"{{restartNonce: x, {template}}}"))
    assert supplies.revision(reads, []) == known, "objects read once are unchanged"
