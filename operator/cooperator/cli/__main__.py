"""``python -m cooperator.cli``: the same program for when no script is on the path."""

from cooperator.cli.app import main

main()
