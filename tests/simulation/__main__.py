"""``python -m tests.simulation``: run seeds, replay one, tell its story, or try planted bugs."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from simulation.command import main

sys.exit(main(sys.argv[1:]))
