"""A Dockerfile as data: as much of the language as ours uses. Anything else is refused, not skipped."""

from __future__ import annotations

import json
import re
import shlex
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path


class UnknownInstruction(Exception):
    """The Dockerfile says something that this reader does not know; the message has the line."""


@dataclass(frozen=True)
class Bind:
    """A file or folder that one RUN sees, read-only: of the build context, or of another stage."""

    source: str
    target: str
    stage: str | None = None


@dataclass(frozen=True)
class Run:
    """One layer: what a shell does as root, on top of the layers before it."""

    command: str
    binds: tuple[Bind, ...]
    env: Mapping[str, str]


@dataclass(frozen=True)
class Target:
    """A stage with all that it is built on: its base, its layers in order, and how it is started."""

    base: str
    runs: tuple[Run, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    user: str = ""
    working_folder: str = "/"
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()


def read_dockerfile(path: Path) -> dict[str, Target]:
    """All stages by their names. Raises UnknownInstruction."""
    arguments: dict[str, str] = {}
    stages: dict[str, Target] = {}
    name = ""
    for line in _logical_lines(path.read_text()):
        word, _, rest = line.partition(" ")
        rest = rest.strip()
        match word:
            case "ARG" if not name:
                key, _, default = rest.partition("=")
                arguments[key] = default
            case "FROM":
                source, name = _from(line, rest)
                source = string.Template(source).substitute(arguments)
                stages[name] = stages.get(source) or Target(source)
            case _ if not name:
                raise UnknownInstruction(f"{path}: {line!r} stands before the first FROM")
            case _:
                stages[name] = _with(stages[name], word, rest, line)
    return stages


def _from(line: str, rest: str) -> tuple[str, str]:
    match = re.fullmatch(r"(\S+) AS (\S+)", rest)
    if match is None:
        raise UnknownInstruction(f"{line!r}: every stage has a name here, FROM … AS …")
    return match[1], match[2]


def _with(stage: Target, word: str, rest: str, line: str) -> Target:
    match word:
        case "RUN":
            if stage.user not in ("", "0:0"):
                raise UnknownInstruction(f"{line!r}: runs as {stage.user}, this reader only as 0:0")
            return replace(stage, runs=(*stage.runs, _run(rest, stage.env)))
        case "ENV":
            pairs = dict(pair.split("=", 1) for pair in shlex.split(rest))
            return replace(stage, env={**stage.env, **pairs})
        case "USER":
            return replace(stage, user=rest)
        case "WORKDIR":
            return replace(stage, working_folder=rest)
        case "ENTRYPOINT":
            return replace(stage, entrypoint=_words(rest, line))
        case "CMD":
            return replace(stage, command=_words(rest, line))
    raise UnknownInstruction(f"{line!r}: {word} is not known here")


def _run(rest: str, env: Mapping[str, str]) -> Run:
    binds = []
    while option := re.match(r"--mount=type=bind,(?:from=(\w+),)?source=([^,\s]+),target=(\S+)\s+", rest):
        binds.append(Bind(option[2], option[3], option[1]))
        rest = rest[option.end() :]
    if rest.startswith("--"):
        raise UnknownInstruction(
            f"{rest!r}: of the options only --mount=type=bind,[from=…,]source=…,target=… is known"
        )
    return Run(rest, tuple(binds), dict(env))


def _words(rest: str, line: str) -> tuple[str, ...]:
    try:
        words: Sequence[str] = json.loads(rest)
    except ValueError:
        raise UnknownInstruction(f'{line!r}: only the form ["program", "argument"] is known') from None
    return tuple(words)


def _logical_lines(text: str) -> list[str]:
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"[ \t]*\\\n[ \t]*", " ", "\n".join(lines))
    return [line.strip() for line in joined.splitlines() if line.strip()]
