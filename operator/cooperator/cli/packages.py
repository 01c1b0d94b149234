"""``cooperator packages``: Java libraries into the cache, for an image of members that needs no registry."""

from typing import Annotated

import typer

from cooperator.artifacts import ArtifactError, resolve_packages
from cooperator.artifacts.cache import cache_root
from cooperator.local.console import Console


def packages(
    coordinates: Annotated[
        list[str], typer.Argument(help="group:artifact:version, as in spec.spark.packages.")
    ],
) -> None:
    """Fetch spec.spark.packages of a Worker, all of them at once, into the cache (COOPERATOR_CACHE)."""
    try:
        jars = resolve_packages(coordinates, cache_root() / "packages", Console().say)
    except ArtifactError as error:
        Console().error(str(error))
        raise typer.Exit(1) from None
    for jar in jars:
        typer.echo(str(jar))
