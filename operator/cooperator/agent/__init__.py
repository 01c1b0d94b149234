"""The member process: takes its share of the work from the group, and runs it.

``machine.py`` is a pure supervisor: events in, instructions out, ``now`` an argument; with its values in
``events.py``, ``instructions.py`` and ``state.py`` it reaches no clock, thread, socket or log. The rest is
the shell: one thread that feeds the supervisor from a queue and carries its instructions out, listeners
that only put events, the HTTP endpoint and calls, the watchdog. No decision is taken in the shell.

May import leader, group, logs, runtime, wire and model; the pure modules import ``model`` only.
"""
