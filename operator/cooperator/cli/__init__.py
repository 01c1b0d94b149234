"""The command line, where all packages come together.

This package holds the program's commands, one per file and as thin as possible: options in, a call, errors
out. Commands that belong to one package only (``local``) live there and are registered here; those for a
cluster are in ``kubectl``. It may import everything.
"""

import sys
from pathlib import Path


def main() -> None:
    """Run the command that the arguments name; ends the process.

    Under the name ``kubectl-cooperator`` or ``kubectl_complete-cooperator`` (a link suffices) it is that
    program.
    """
    called = Path(sys.argv[0]).name.removesuffix(".exe")
    # Shell completion must not import the whole program.
    if called == "kubectl-cooperator":
        from cooperator.cli.kubectl import main as run
    elif called == "kubectl_complete-cooperator":
        from cooperator.cli.kubectl import complete as run
    else:
        from cooperator.cli.app import main as run
    run()
