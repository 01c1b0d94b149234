"""``cooperator crds``: the custom resource definitions, for ``kubectl apply -f -``."""

from pathlib import Path
from typing import Annotated

import typer

from cooperator.crd.render import definitions, to_yaml
from cooperator.terminal.console import write


def crds(
    directory: Annotated[
        Path | None,
        typer.Option(
            help="Directory to write one file per definition to, instead of printing.", file_okay=False
        ),
    ] = None,
) -> None:
    """Print the custom resource definitions: kubectl apply --server-side -f -."""
    texts = {name: to_yaml(definition) for name, definition in definitions().items()}
    if directory is None:
        write("---\n".join(texts.values()), end="")
        return
    directory.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (directory / name).write_text(text)
