"""Long-lived threads, watched by one supervisor: an exception that ends one of them is always noticed.

Contents: the supervisor, and how a program reacts to a death. Imports no other package.
"""

from cooperator.supervision.threads import (
    Death,
    ThreadSupervisor,
    deaths,
    end_process_on_death,
    name_native_thread,
    supervised,
)

__all__ = [
    "Death",
    "ThreadSupervisor",
    "deaths",
    "end_process_on_death",
    "name_native_thread",
    "supervised",
]
