"""The member process: receives its assignment from the group and runs it.

``machine.py`` is a pure supervisor: events in, instructions out, ``now`` an argument. Together with its
values in ``events.py``, ``instructions.py`` and ``state.py`` it uses no clock, thread, socket or log. The
rest is the shell: one thread that feeds the supervisor from a queue and carries its instructions out,
listeners that only queue events, the HTTP endpoint and its client, and the watchdog. The shell takes no
decisions.

May import leader, group, logs, runtime, wire and model; the pure modules import ``model`` only.
"""
