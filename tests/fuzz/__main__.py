"""The long run: python -m tests.fuzz wire --inputs 10000000

An input that breaks a promise is printed with its exception and in base64: fix it, and add the line to the
target's seeds.
"""

import sys
import tempfile
from pathlib import Path
from typing import Annotated

import atheris
import typer

# The parser of SQL is guided, too, by the only target that spends its time there.
PACKAGES = ["cooperator", "sqlglot"] if "sql" in sys.argv else ["cooperator"]

with atheris.instrument_imports(include=PACKAGES):
    from tests.fuzz.targets import TARGETS, seeds

program = typer.Typer(add_completion=False)


@program.command()
def fuzz(
    target: Annotated[str, typer.Argument(help=f"One of {', '.join(TARGETS)}.")],
    inputs: Annotated[int, typer.Option(help="Number of inputs to try.")] = 100_000,
    seed: Annotated[int, typer.Option(help="Makes a run repeatable.")] = 1,
    seconds: Annotated[int, typer.Option(help="End after this time at the latest; 0: never.")] = 0,
    keep: Annotated[Path | None, typer.Option(help="Directory for inputs that reach something new.")] = None,
) -> None:
    """Fuzz one target, guided by the code that it reaches."""
    if target not in TARGETS:
        raise typer.BadParameter(f"{target!r} is no target: use one of {', '.join(TARGETS)}")
    # libFuzzer ends the process; what reached something new is kept there.
    corpus = keep or Path(tempfile.mkdtemp(prefix=f"cooperator-{target}-"))
    corpus.mkdir(parents=True, exist_ok=True)
    for number, known in enumerate(seeds(target)):
        (corpus / str(number)).write_bytes(known)
    limits = ["-max_len=4096", "-len_control=0", "-timeout=5", "-rss_limit_mb=4096"]
    options = [
        f"-runs={inputs}",
        f"-seed={seed}",
        f"-max_total_time={seconds}",
        *limits,
        f"-artifact_prefix={corpus}/",
    ]
    atheris.Setup([sys.argv[0], *options, str(corpus)], TARGETS[target])
    atheris.Fuzz()


if __name__ == "__main__":
    program()
