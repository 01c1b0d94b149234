"""The command line: what all rooms come together in.

What may live here: the program's commands, one a file, as thin as they can be: options in, a call, errors
out. Commands that belong to one room only (``local``) live there and are hung in here. May import everything.
"""

from cooperator.cli.app import main

__all__ = ["main"]
