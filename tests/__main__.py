"""``python -m tests``: what ``run.py check`` and ``run.py tests`` run (``tests/suite.py``)."""

import sys

from tests.suite import main

sys.exit(main(sys.argv[1:]))
