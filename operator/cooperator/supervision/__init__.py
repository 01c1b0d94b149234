"""Long-lived threads, watched by one supervisor: none ends by an exception without anybody noticing.

What may live here: the supervisor, and how a program reacts to a death. Imports no other package.
"""

from cooperator.supervision.threads import Death, Supervisor, deaths, end_process_on_death, supervised

__all__ = ["Death", "Supervisor", "deaths", "end_process_on_death", "supervised"]
