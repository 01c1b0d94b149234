"""The long run: python -m tests.fuzz wire --inputs 10000000

Inputs that found something new are kept in a corpus beside the seeds; what breaks a promise is written to the
working directory as libFuzzer does, and printed with its exception.
"""

import sys
from pathlib import Path
from typing import Annotated

import atheris
import typer

with atheris.instrument_imports(include=["cooperator"]):
    from tests.fuzz.targets import CORPUS, TARGETS

program = typer.Typer(add_completion=False)


@program.command()
def fuzz(
    target: Annotated[str, typer.Argument(help=f"One of {', '.join(TARGETS)}.")],
    inputs: Annotated[int, typer.Option(help="How many inputs to try.")] = 100_000,
    seed: Annotated[int, typer.Option(help="Makes a run repeatable.")] = 1,
    seconds: Annotated[int, typer.Option(help="End after this time at the latest; 0: never.")] = 0,
    kept: Annotated[Path | None, typer.Option(help="Keep what found something new in this folder.")] = None,
) -> None:
    """Fuzz one target, guided by the code that it reaches."""
    if target not in TARGETS:
        raise typer.BadParameter(f"{target!r} is no target: use one of {', '.join(TARGETS)}")
    seeds = CORPUS / target
    folders = [str(folder) for folder in (kept, seeds) if folder is not None]
    if kept is not None:
        kept.mkdir(parents=True, exist_ok=True)
    limits = ["-max_len=4096", "-len_control=0", "-timeout=5", "-rss_limit_mb=4096"]
    options = [f"-runs={inputs}", f"-seed={seed}", f"-max_total_time={seconds}", *limits]
    atheris.Setup([sys.argv[0], *options, *folders], TARGETS[target])
    atheris.Fuzz()


if __name__ == "__main__":
    program()
