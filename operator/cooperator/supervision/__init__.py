"""Long-lived threads, watched by one supervisor: a thread that dies or stands still is always noticed.

Contents: the supervisor, the table of heartbeats, bounded ends of clients that may hang, and how a program
reacts to a death. Imports no other package.
"""

from cooperator.supervision.threads import (
    LIMIT_S,
    TURN_S,
    Death,
    Heartbeat,
    Standstill,
    ThreadSupervisor,
    at_most_a_turn,
    close_aside,
    closing_aside,
    deaths,
    keep_turning,
    name_native_thread,
    supervise_process,
    supervised,
    trouble,
    turn,
    wait_turning,
)

__all__ = [
    "LIMIT_S",
    "TURN_S",
    "Death",
    "Heartbeat",
    "Standstill",
    "ThreadSupervisor",
    "at_most_a_turn",
    "close_aside",
    "closing_aside",
    "deaths",
    "keep_turning",
    "name_native_thread",
    "supervise_process",
    "supervised",
    "trouble",
    "turn",
    "wait_turning",
]
