"""Tells which conditions report a problem."""

from typing import Final

PROBLEMS: Final = frozenset({"Unfenced", "Hung", "EagerProtocol", "UnsignedRequests"})
"""Condition types of a leader that are True when something is wrong; all others are True when all is well."""


def is_amiss(type_: str, status: str) -> bool:
    """Return whether a leader's condition reports a problem. ``status`` is True, False or Unknown."""
    return status != ("False" if type_ in PROBLEMS else "True")
