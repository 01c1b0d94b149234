"""Errors of fetching dependencies; every message names the remedy."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cooperator.artifacts.bundles import Artifact


class ArtifactError(Exception):
    """A bundle is not available; the message says what failed and what to do about it."""


class NotThere(ArtifactError):
    """The registry does not have ``artifacts``."""

    def __init__(self, artifacts: "Sequence[Artifact]") -> None:
        super().__init__(
            f"not found: {', '.join(map(str, artifacts))}; correct the coordinates, or set "
            "COOPERATOR_IVY_SETTINGS to an Ivy settings file with a mirror that has them"
        )
        self.artifacts = tuple(artifacts)


class JavaNotFound(ArtifactError):
    """This machine has no Java of a supported version."""
