"""The jars that a member's Spark has besides its own."""

import logging
from importlib.resources import files
from pathlib import Path

from cooperator.artifacts import ArtifactError, resolve, resolve_packages
from cooperator.runtime.api import RuntimeSettings

log = logging.getLogger(__name__)


def jars_of(settings: RuntimeSettings) -> tuple[Path, ...]:
    """Ours and the user's; fetches what is not here yet. ArtifactError names the field and the remedy."""
    for jar in settings.spark_jars:
        if not jar.is_file():
            raise ArtifactError(
                f"spec.spark.jars: {jar} is no file on member {settings.member}: put it there (into the "
                "image, or on a volume), or name a library in spec.spark.packages"
            )
    return (
        *resolve("spark-kafka", log.info),
        packaged("jars/cooperator-spark.jar"),
        *settings.spark_jars,
        *resolve_packages(settings.spark_packages, settings.state_dir / "packages", log.info),
    )


def packaged(name: str) -> Path:
    """A file of this package."""
    return Path(str(files("cooperator.runtime").joinpath(name)))
