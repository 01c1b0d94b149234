"""``cooperator worker`` as in a release that knows rounds only."""

from dataclasses import replace

from cooperator.agent import main as agent
from cooperator.cli import main

_run = agent.run_worker
agent.run_worker = lambda options: _run(replace(options, reconciles=False))
main()
