"""What can go wrong while parts are fetched; every message names the remedy."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cooperator.artifacts.bundles import Artifact


class ArtifactError(Exception):
    """A bundle could not be had: the message says what failed and what to do about it."""


class NotThere(ArtifactError):
    """The registry has no such artifact; ``artifacts``: which."""

    def __init__(self, artifacts: "Sequence[Artifact]") -> None:
        super().__init__(
            f"not found: {', '.join(map(str, artifacts))}; correct the coordinates, or name a mirror that "
            "has them by an Ivy settings file in COOPERATOR_IVY_SETTINGS"
        )
        self.artifacts = tuple(artifacts)


class JavaNotFound(ArtifactError):
    """No Java of a supported version is on this machine."""
