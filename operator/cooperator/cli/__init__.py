"""The command line: what all rooms come together in.

What may live here: the program's commands, one a file, as thin as they can be: options in, a call, errors
out. Commands that belong to one room only (``local``) live there and are hung in here; those for a cluster
are in ``kubectl``. May import everything.
"""


def main() -> None:
    """Run the command that the arguments name; ends the process."""
    # Who completes a word must not wait for all rooms.
    from cooperator.cli.app import main as run

    run()
