"""The jars on a member's class path besides Spark's own."""

import logging
from importlib.resources import files
from pathlib import Path

from cooperator.artifacts import ArtifactError, resolve, resolve_packages
from cooperator.connectors.places import is_in_store
from cooperator.runtime.api import RuntimeSettings

log = logging.getLogger(__name__)


def jars_of(settings: RuntimeSettings) -> tuple[Path, ...]:
    """Returns the built-in jars and the user's; fetches missing ones.

    Raises ``ArtifactError``, which names the field and the remedy.
    """
    for jar in settings.spark_jars:
        if not jar.is_file():
            raise ArtifactError(
                f"spec.spark.jars: {jar} does not exist on member {settings.member}: add it to the image or "
                "a volume, or name a library in spec.spark.packages"
            )
    named = any(name.startswith("spark.hadoop.fs.s3a.") for name in settings.spark_conf)
    return (
        *own_jars(store=named or is_in_store(str(settings.checkpoints))),
        *settings.spark_jars,
        *resolve_packages(settings.spark_packages, settings.state_dir / "packages", log.info),
    )


def own_jars(*, store: bool) -> tuple[Path, ...]:
    """Returns the jars that connectors need, and with ``store`` those for checkpoints in a store."""
    bundles = ("spark-kafka", "postgresql", *(("spark-s3", "aws-sdk") if store else ()))
    fetched = (jar for bundle in bundles for jar in resolve(bundle, log.info))
    return (*fetched, packaged("jars/cooperator-spark.jar"))


def packaged(name: str) -> Path:
    """Returns a file of this package."""
    return Path(str(files("cooperator.runtime").joinpath(name)))
