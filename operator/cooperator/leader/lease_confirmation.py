"""Decides when the leader may confirm that none of a member's tasks were reassigned, so that it may run on.

A member that has lost its broker asks here. Confirming is safe in two cases. If the leader itself is in
contact with the broker, then the group still counts the member, and a member that departs later is not
replaced before lease + margin. If the leader has no broker either, then an outage cannot be told from a
partition; the leader confirms only while *every* member of the last round asks from the same epoch, since a
leader elected elsewhere would have had to take one of them into a newer epoch. A member that departed before
that round, and may still live, could be that leader: while there is one, a leader without its broker confirms
nothing.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from cooperator.model import Epoch


@dataclass(frozen=True, slots=True)
class LastQuestion:
    """A member's last question: its epoch then, and the time (ms of any one clock)."""

    epoch: Epoch
    at_ms: int


def may_confirm(
    member_id: str,
    epoch: Epoch,
    *,
    current: Epoch | None,
    member_ids: Collection[str],
    absent: Collection[str],
    asked: Mapping[str, LastQuestion],
    leader_contact_age_ms: int,
    leader_session_ms: int,
    recent_ms: int,
    now_ms: int,
) -> bool:
    """Whether the lease of ``member_id``, which is in ``epoch``, may be counted from its question.

    * ``current``: the epoch of the last delivered round; None during a round, and while not leading.
    * ``member_ids``: members of that round whose end is not proven.
    * ``absent``: identities that departed before that round, are still awaited, and whose end is not proven.
    * ``asked``: the last question of each member.
    * ``leader_contact_age_ms``: time since the leader sent its last answered heartbeat.
    * ``recent_ms``: maximum age of the other members' questions.
    """
    if current is None or epoch != current or member_id not in member_ids:
        return False
    if leader_contact_age_ms < leader_session_ms:
        return True
    return not absent and all(
        (question := asked.get(other)) is not None
        and question.epoch == current
        and now_ms - question.at_ms <= recent_ms
        for other in member_ids
    )
