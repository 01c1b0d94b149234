"""``python -m tests.simulation``: run seeds, replay one, tell its story, or try planted bugs."""

import sys

from tests.simulation.command import main

sys.exit(main(sys.argv[1:]))
