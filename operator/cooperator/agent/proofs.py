"""Proofs of the lease, which are processed before everything else that waits.

The agent's thread may stall for a while: in a call of the runtime, or on an overloaded machine. Responses
queue up meanwhile. Judged by the first of them the lease would appear to have ended, and everything would be
stopped, although the proof of the contrary waits further back in the queue.
"""

from collections import deque

from cooperator.agent.events import Contact, LeaderConfirmed

Proof = Contact | LeaderConfirmed


class Proofs:
    """``add`` may be called from any thread, ``take`` from the agent's only."""

    def __init__(self) -> None:
        self._waiting: deque[Proof] = deque()

    def add(self, proof: Proof) -> None:
        self._waiting.append(proof)

    def take(self) -> list[Proof]:
        """The newest proof of each kind, newest first. Older ones prove nothing more and are dropped."""
        newest: dict[type[Proof], Proof] = {}
        while self._waiting:
            proof = self._waiting.popleft()
            known = newest.get(type(proof))
            if known is None or proof.sent_at_ms >= known.sent_at_ms:
                newest[type(proof)] = proof
        return sorted(newest.values(), key=lambda proof: proof.sent_at_ms, reverse=True)
