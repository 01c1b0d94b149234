"""Decides when the leader may confirm that none of a member's tasks were reassigned, so that it may run on.

A member that has lost its broker asks here. Confirming is safe in two cases. If the leader itself is in
contact with the broker, then the group still counts the member, and a member that departs later is not
replaced before lease + margin. If the leader has no broker either, then an outage cannot be told from a
partition, in which somebody else is elected, finds all others gone, and gives their tasks away after lease +
margin. So the leader confirms only while it is known that nobody was elected: *every* member of the last
round asks from the same epoch, and nobody else may join. Others who may are members that departed before that
round and may still live, and every pod that is not in that round: a new one, or the next incarnation of one
that has ended. Only the platform knows the pods, so that a leader without a platform confirms nothing without
its broker. The platform's answer must not be older than the margin: who was created after it is elected later
still, and then waits for lease + margin.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from cooperator.model import Epoch


@dataclass(frozen=True, slots=True)
class LastQuestion:
    """A member's last question: its epoch then, and the time (ms of any one clock)."""

    epoch: Epoch
    at_ms: int


@dataclass(frozen=True, slots=True)
class Candidates:
    """The identities that run or may start, so that each may join the group; ``asked_at_ms``: when the
    platform was asked for them (ms of the monotonic clock).
    """

    identities: frozenset[str]
    asked_at_ms: int


def may_confirm(
    member_id: str,
    epoch: Epoch,
    *,
    current: Epoch | None,
    members: Mapping[str, str],
    absent: Collection[str],
    candidates: Candidates | None,
    asked: Mapping[str, LastQuestion],
    leader_contact_age_ms: int,
    leader_session_ms: int,
    recent_ms: int,
    margin_ms: int,
    now_ms: int,
) -> bool:
    """Whether the lease of ``member_id``, which is in ``epoch``, may be counted from its question.

    * ``current``: the epoch of the last delivered round; None during a round, and while not leading.
    * ``members``: the members of that round whose end is not proven: their identities by member id.
    * ``absent``: identities that departed before that round, are still awaited, and whose end is not proven.
    * ``candidates``: those of the platform; None: there is none, or it was never asked.
    * ``asked``: the last question of each member.
    * ``leader_contact_age_ms``: time since the leader sent its last answered heartbeat.
    * ``recent_ms``: maximum age of the other members' questions.
    * ``margin_ms``: of the lease; maximum age of ``candidates``.
    """
    if current is None or epoch != current or member_id not in members:
        return False
    if leader_contact_age_ms < leader_session_ms:
        return True
    if absent or candidates is None or now_ms - candidates.asked_at_ms > margin_ms:
        return False
    return candidates.identities <= set(members.values()) and all(
        (question := asked.get(other)) is not None
        and question.epoch == current
        and now_ms - question.at_ms <= recent_ms
        for other in members
    )
