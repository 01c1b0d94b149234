"""When the leader may confirm that nothing of a member was reassigned, so that it may run on.

A member without its broker asks here. Two cases are safe. If the leader itself is in touch with the
broker, then the group still counts the member, and whoever departs later is not replaced before
lease + margin. If the leader has no broker either, then nobody can tell an outage from a partition;
it confirms only while *every* member of the last round asks from the same epoch: somebody elected
elsewhere would have had to take one of them into a newer one.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from cooperator.model import Epoch


@dataclass(frozen=True, slots=True)
class Asked:
    """The last question of a member: its epoch then, and when (ms, any one clock)."""

    epoch: Epoch
    at_ms: int


def may_confirm(
    member_id: str,
    epoch: Epoch,
    *,
    current: Epoch | None,
    member_ids: Collection[str],
    asked: Mapping[str, Asked],
    leader_contact_age_ms: int,
    leader_session_ms: int,
    recent_ms: int,
    now_ms: int,
) -> bool:
    """Whether the lease of ``member_id``, which is in ``epoch``, may be counted from its question.

    ``current``: the epoch of the last delivered round; None while not leading or in a round.
    ``member_ids``: members of that round whose end is not proven. ``asked``: the last question of each.
    ``leader_contact_age_ms``: since the send time of the leader's last answered heartbeat.
    ``recent_ms``: how old the other members' questions may be.
    """
    if current is None or epoch != current or member_id not in member_ids:
        return False
    if leader_contact_age_ms < leader_session_ms:
        return True
    return all(
        (question := asked.get(other)) is not None
        and question.epoch == current
        and now_ms - question.at_ms <= recent_ms
        for other in member_ids
    )
