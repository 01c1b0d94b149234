"""``kubectl cooperator``: shows Workers and Connectors of a cluster, and sends them requests.

This package holds one command per file, the reads from the API server, and what is shown of them as pure
functions (what was read, now) -> text. Nothing runs in the cluster for it: every command has the rights of
the person who calls it.
"""

import os
import sys

from cooperator.model.extras import Extra, NotInstalled, require


def main() -> None:
    """The program ``kubectl-cooperator``, which kubectl runs for ``kubectl cooperator …``."""
    from cooperator.cli.kubectl import completion
    from cooperator.cli.kubectl.app import program

    asks = completion.VARIABLE in os.environ
    try:
        require(Extra.KUBERNETES, "kubectl cooperator")
    except NotInstalled as error:
        from cooperator.terminal.console import Console

        Console().error(str(error))
        sys.exit(1)
    commands = program(completion.asked() if asks else sys.argv[1:])
    if asks:
        # A shell asks for completions, by the script that ``completion`` has printed.
        completion.prepare()
        commands(prog_name=completion.PROGRAM)
    from cooperator.terminal.console import run

    run(commands, "kubectl cooperator")


def complete() -> None:
    """The program ``kubectl_complete-cooperator``, which kubectl runs to complete a word."""
    from cooperator.cli.kubectl.completion import answer_kubectl

    answer_kubectl()
