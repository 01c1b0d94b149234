"""Pins the settings of a Worker's members that come from the operator and not from the user. Pure.

They are pinned when the Worker is first seen and stay under every later operator: an upgrade touches no pod,
and a recreated pod matches its siblings. When the user chooses another image or version, members are replaced
anyway and take what the operator offers then.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from cooperator.controller.manifests import pods
from cooperator.controller.manifests.pods import Defaults
from cooperator.controller.names import GROUP
from cooperator.crd import Condition, ConditionStatus, Worker

PINNED: Final = f"{GROUP}/pinned"
"""Our annotation on a Worker. It is no status, because decisions depend on it."""
UPGRADE_AVAILABLE: Final = "UpgradeAvailable"


@dataclass(frozen=True, slots=True)
class Pin:
    """``render_version`` is the template's. ``image`` is the operator's own at that time. ``chosen`` is the
    image and version that the user's spec named then."""

    render_version: int
    image: str
    chosen: tuple[str, str]

    def text(self) -> str:
        chosen = {"image": self.chosen[0], "version": self.chosen[1]}
        return json.dumps({"renderVersion": self.render_version, "image": self.image, "chosen": chosen})

    def defaults(self, ours: Defaults) -> Defaults:
        """The operator's defaults for this Worker."""
        return replace(ours, image=self.image, render_version=self.render_version)


def latest(worker: Worker, ours: Defaults) -> Pin:
    """The inputs that this operator would use for new members."""
    return Pin(pods.newest_version(worker), ours.image, _chosen(worker))


def pin_of(worker: Worker, body: Mapping[str, Any], ours: Defaults) -> Pin:
    """The pin recorded on the object; the latest if there is none or the user has chosen anew since."""
    noted = _parsed((body["metadata"].get("annotations") or {}).get(PINNED, ""))
    return noted if noted is not None and noted.chosen == _chosen(worker) else latest(worker, ours)


def upgrade_available(worker: Worker, pin: Pin, ours: Defaults) -> Condition:
    """Whether this operator would make different members from the present ones, and how to get them."""
    newest = latest(worker, ours)
    status, reason, message = ConditionStatus.FALSE, "UpToDate", ""
    own_image = _has_own_image(worker)
    if pin.render_version != newest.render_version or (own_image and pin.image != newest.image):
        status, reason = ConditionStatus.TRUE, "OperatorChanged"
        field = "spec.version" if own_image or worker.spec.version else "spec.image"
        message = (
            f"members are made as an earlier operator did ({_words(worker, pin)}), this operator would "
            f"create them differently"
            f" ({_words(worker, newest)}): they stay as they are until {field} is changed, which "
            "replaces them one by one"
        )
    return Condition(
        type=UPGRADE_AVAILABLE,
        status=status,
        reason=reason,
        message=message,
        observed_generation=worker.metadata.generation,
    )


def _has_own_image(worker: Worker) -> bool:
    """Whether members run the operator's own image; that of stock workers goes with the template."""
    return not worker.spec.image and not worker.spec.is_stock


def _words(worker: Worker, pin: Pin) -> str:
    image = f", image {pin.image}" if _has_own_image(worker) else ""
    return f"template {pin.render_version}{image}"


def _chosen(worker: Worker) -> tuple[str, str]:
    return worker.spec.image or "", worker.spec.version or ""


def _parsed(text: str) -> Pin | None:
    """Return None if the text is missing or not ours."""
    try:
        said = json.loads(text)
        chosen = said["chosen"]
        return Pin(
            int(said["renderVersion"]), str(said["image"]), (str(chosen["image"]), str(chosen["version"]))
        )
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
