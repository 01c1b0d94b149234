"""The command line: what all rooms come together in.

What may live here: the program's commands, one a file, as thin as they can be: options in, a call, errors
out. Commands that belong to one room only (``local``) live there and are hung in here; those for a cluster
are in ``kubectl``. May import everything.
"""

import sys
from pathlib import Path


def main() -> None:
    """Run the command that the arguments name; ends the process.

    Called ``kubectl-cooperator`` or ``kubectl_complete-cooperator`` (a link will do), it is that program.
    """
    called = Path(sys.argv[0]).name.removesuffix(".exe")
    # Who completes a word must not wait for all rooms.
    if called == "kubectl-cooperator":
        from cooperator.cli.kubectl import main as run
    elif called == "kubectl_complete-cooperator":
        from cooperator.cli.kubectl import complete as run
    else:
        from cooperator.cli.app import main as run
    run()
