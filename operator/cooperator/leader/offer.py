"""When a leader offers its group the protocol in which rounds assign no tasks. Pure."""

from collections.abc import Iterator

from cooperator.leader.state import LeaderState
from cooperator.model import PolicyName
from cooperator.wire import Protocol

ROUNDS_MS = 600_000
"""A group with a member that does not reach the leader stays in rounds for so long."""
AGAIN_MS = (1_000, 60_000)
"""Shortest and longest pause after a round that has not chosen what all members can."""


def offers(state: LeaderState) -> bool:
    """Whether the leader offers the protocol in its next JoinGroup."""
    if state.group is not None:
        is_asked = state.policy.reconciles and state.policy.name is PolicyName.DEFAULT
        return is_asked and not (state.handing_back or state.unreached or state.learners.stateful)
    return state.may_reconcile


def is_chosen(protocol: str) -> bool:
    """Whether this is the name of the sub-protocol in which rounds assign no tasks."""
    return protocol == Protocol.RECONCILED.value


class Pauses:
    """Until when (ms) a group stays in rounds, whatever its members offer.

    ``again_ms``: as the last round has not chosen the protocol; ``rounds_until_ms``: as a member does not
    reach the leader.
    """

    def __init__(self) -> None:
        self.again_ms = self.rounds_until_ms = 0
        self._pause_ms = AGAIN_MS[0]

    def chosen(self) -> None:
        self._pause_ms = AGAIN_MS[0]

    def not_chosen(self, now_ms: int) -> None:
        """A round for which the protocol was offered has chosen another one, though all members know it.

        One of them has not read the policy that asks for it. Rounds that wait for it must not follow each
        other.
        """
        self.again_ms = now_ms + self._pause_ms
        self._pause_ms = min(2 * self._pause_ms, AGAIN_MS[1])

    def unreached(self, now_ms: int) -> None:
        self.rounds_until_ms = now_ms + ROUNDS_MS

    def next_ms(self, now_ms: int) -> Iterator[int]:
        """Times (ms) at which a pause ends."""
        return (at_ms for at_ms in (self.again_ms, self.rounds_until_ms) if at_ms > now_ms)
