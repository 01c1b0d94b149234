"""``cooperator packages``: fetches Java libraries into the cache, for an image of members that needs no
registry, and for servers that run queries of members."""

from typing import Annotated

import typer

from cooperator.artifacts import ArtifactError, resolve, resolve_packages
from cooperator.artifacts.cache import cache_root
from cooperator.local.broker import BrokerError, write_broker_classes
from cooperator.model.extras import Extra, NotInstalled, require
from cooperator.runtime.class_path import own_jars
from cooperator.runtime.warm import write_classes
from cooperator.terminal.console import Console, write


def packages(
    coordinates: Annotated[
        list[str] | None, typer.Argument(help="group:artifact:version, as in spec.spark.packages.")
    ] = None,
    store: Annotated[bool, typer.Option("--s3", help="Include the jars for checkpoints in a store.")] = False,
    local: Annotated[bool, typer.Option("--local", help="Include the broker of `cooperator local`.")] = False,
    classes: Annotated[
        bool,
        typer.Option("--classes", help="Write a class archive, with which JVMs start in half the time."),
    ] = False,
) -> None:
    """Fetch spec.spark.packages of a Worker, all of them at once, into the cache (COOPERATOR_CACHE), and
    print the paths of these jars and of cooperator's own."""
    said = Console().say
    try:
        require(Extra.SPARK, "`cooperator packages`")
        jars = [
            *own_jars(store=store),
            *(resolve("kafka", said) if local else ()),
            *resolve_packages(coordinates or (), cache_root() / "packages", said),
        ]
        if classes:
            write_classes(tuple(coordinates or ()), store=store, progress=said)
        if classes and local:
            write_broker_classes()
    except (ArtifactError, BrokerError, NotInstalled) as error:
        Console().error(str(error))
        raise typer.Exit(1) from None
    for jar in jars:
        write(str(jar))
