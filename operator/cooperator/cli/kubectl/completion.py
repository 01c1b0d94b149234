"""Completion of words: scripts for shells, and kubectl's completion protocol for plug-ins.

typer computes the completions; this module only passes them on (docs/decisions).
"""

import io
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from enum import StrEnum
from typing import Annotated, Final

import typer
from typer.completion import completion_init  # type: ignore[attr-defined]

from cooperator.cli.kubectl.app import program
from cooperator.model.visible import visible_line
from cooperator.terminal.console import write

PROGRAM: Final = "kubectl-cooperator"
VARIABLE: Final = "_KUBECTL_COOPERATOR_COMPLETE"
_ASKED: Final = "_TYPER_COMPLETE_ARGS"
_NO_FILES: Final = ":4"
"""cobra's ShellCompDirectiveNoFileComp."""


class Shell(StrEnum):
    BASH = "bash"
    ZSH = "zsh"


def completion(shell: Annotated[Shell, typer.Argument()]) -> None:
    """Print a script that completes `kubectl-cooperator`: source <(kubectl cooperator completion bash).

    `kubectl cooperator` itself is completed by kubectl's own script, which asks `kubectl_complete-cooperator`
    on the path.
    """
    write(_typer({VARIABLE: f"source_{shell.value}"}), end="")


def answer_kubectl() -> None:
    """Print the completions of the last word of this program's arguments, one line each, ``word<TAB>help``,
    and cobra's directive at the end."""
    for word, help_ in completed(sys.argv[1:]):
        write(f"{visible_line(word)}\t{visible_line(help_)}" if help_ else visible_line(word))
    write(_NO_FILES)


def prepare() -> None:
    """Make typer answer shells; by itself it does so only where it may install its own scripts."""
    completion_init()


def asked() -> list[str]:
    """The words after the program's name that a shell asks about, split at spaces."""
    return os.environ.get(_ASKED, "").split()[1:]


def completed(words: Sequence[str]) -> list[tuple[str, str]]:
    """The completions of the last of ``words``, each with its help. Never raises."""
    *before, begun = words or [""]
    # PowerShell's protocol passes the incomplete word separately, and its answer is easy to parse.
    said = {
        VARIABLE: "complete_powershell",
        _ASKED: shlex.join([PROGRAM, *before, *([begun] if begun else [])]),
        "_TYPER_COMPLETE_WORD_TO_COMPLETE": begun,
    }
    pairs = (line.partition(":::") for line in _typer(said).splitlines() if ":::" in line)
    return [(word, help_.strip()) for word, _, help_ in pairs]


def _typer(said: Mapping[str, str]) -> str:
    """Returns what typer answers to a shell that has set these variables, which are its protocol for all
    shells."""
    prepare()
    answer = io.StringIO()
    os.environ.update(said)
    try:
        with redirect_stdout(answer), redirect_stderr(io.StringIO()):
            program(asked())(args=[], prog_name=PROGRAM)
    except (SystemExit, Exception):
        # A shell that waits for a completion must not print an error.
        pass
    finally:
        for name in said:
            del os.environ[name]
    return answer.getvalue()
