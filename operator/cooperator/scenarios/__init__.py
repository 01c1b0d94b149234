"""Runs the planner in a simulated group: scenarios in, rounds and metrics out.

Contents: reading scenarios, a group of workers without processes or broker, the leaders that plan
for it (Kafka's, elected among the workers, and the operator), measurements and the tables made of them, and
simulated changes to a group's present state (``what_if``). Time is simulated; the only I/O is reading
scenarios and writing results.
May import ``planner`` and ``model`` only.
"""

from cooperator.scenarios.run import run, run_comparison, run_story

__all__ = ["run", "run_comparison", "run_story"]
