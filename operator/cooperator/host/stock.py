"""Incarnations of stock workers: the leader knows them by member id, the pool by its pods. Pure.

A stock worker reports nothing of itself but the identity in its ``client.id``. So a member id belongs to the
incarnation that its identity's pod had when the id was first seen. A pod is recreated only after the end of
the previous one has been observed, and a member id known by then cannot belong to the later pod. Therefore
the end of a pod is the end of its member ids.

A worker that survives being dropped by the broker rejoins under a new id and reports all that it runs; its
previous id is then over as well.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from cooperator.host.known import Leader

Incarnation = tuple[str, str]
"""(identity, incarnation)."""


@dataclass(frozen=True, slots=True)
class StockIncarnations:
    """The incarnations in a group of stock workers.

    * ``pods``: by (identity, member id), the pool's name of its incarnation.
    * ``present``: the current members.
    * ``newest``: by identity, the member id that joined last.
    """

    pods: Mapping[Incarnation, str] = field(default_factory=dict)
    present: frozenset[Incarnation] = frozenset()
    newest: Mapping[str, str] = field(default_factory=dict)

    def seen(self, leader: Leader, living: Mapping[str, str]) -> "StockIncarnations":
        """Update from a projection. ``living``: by identity, the pool's name of its pod's newest incarnation.

        That incarnation may have ended.
        """
        if "members" not in leader:
            return self
        members = ((member["identity"], member["member_id"]) for member in leader["members"])
        ours = frozenset(seen for seen in members if seen[0] in living)
        incarnations = ((identity, incarnation) for identity, incarnation in leader.get("incarnations", ()))
        spoken_of = ours | {seen for seen in incarnations if seen[0] in living}
        pods = {seen: self.pods.get(seen, living[seen[0]]) for seen in spoken_of}
        newest = {identity: member_id for identity, member_id in self.newest.items() if identity in living}
        newest |= dict(ours - self.pods.keys())
        return StockIncarnations(pods, ours, newest)

    def ended(self, ended: Collection[Incarnation]) -> frozenset[Incarnation]:
        """Ended incarnations in the leader's names; ``ended``: the same in the pool's names."""
        return frozenset(
            seen for seen, pod in self.pods.items() if (seen[0], pod) in ended or self._is_over(seen)
        )

    def in_pool_names(self, leader: Leader) -> Leader:
        """The projection with each stock member's incarnation in the pool's name.

        Of several members with the same identity only the newest is kept.
        """
        if "members" not in leader:
            return leader
        members = (
            (member, (member["identity"], member["member_id"])) for member in leader.get("members", ())
        )
        named = [
            {**member, "incarnation": self.pods.get(seen, member["incarnation"])}
            for member, seen in members
            if self.newest.get(seen[0], seen[1]) == seen[1]
        ]
        hung = [
            {**each, "incarnation": self.pods.get((each["identity"], each["incarnation"]), "")}
            for each in leader.get("hung", ())
        ]
        return {**leader, "members": named, "hung": hung}

    def _is_over(self, seen: Incarnation) -> bool:
        """Whether its process, still running, is a member under a later id."""
        identity, member_id = seen
        newest = self.newest.get(identity, member_id)
        successor = (identity, newest)
        return (
            newest != member_id
            and seen in self.pods
            and seen not in self.present
            and successor in self.present
            and self.pods[successor] == self.pods[seen]
        )
