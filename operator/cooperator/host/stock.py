"""Stock workers' lives: the leader knows them by the broker's member ids, the pool by its pods. Pure.

A stock worker says nothing of itself but the identity in its ``client.id``. So a member id belongs to the
life that its identity's pod had when the id was seen first. A pod is made anew only after the end of the one
before has been seen, and an id that is known by then cannot be the later one's: that makes the end of a pod
the end of its member ids.

Dropped by the broker, a worker that lives on joins under a new id, and reports all that it runs: then the id
before it is over as well.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

Leader = Mapping[str, Any]
"""A leader's own projection (``LeaderService.status``)."""
Life = tuple[str, str]
"""(identity, incarnation)."""


@dataclass(frozen=True, slots=True)
class StockLives:
    """Of a group of stock workers. ``pods``: by (identity, member id), the pool's name of the life that it
    belongs to. ``present``: the members of now. ``newest``: by identity, the member id that came last."""

    pods: Mapping[Life, str] = field(default_factory=dict)
    present: frozenset[Life] = frozenset()
    newest: Mapping[str, str] = field(default_factory=dict)

    def seen(self, leader: Leader, living: Mapping[str, str]) -> "StockLives":
        """``living``: by identity, the pool's name of the newest life of its pod, ended or not."""
        if "members" not in leader:
            return self
        members = ((member["identity"], member["member_id"]) for member in leader["members"])
        ours = frozenset(life for life in members if life[0] in living)
        lives = ((identity, incarnation) for identity, incarnation in leader.get("lives", ()))
        spoken_of = ours | {life for life in lives if life[0] in living}
        pods = {life: self.pods.get(life, living[life[0]]) for life in spoken_of}
        newest = {identity: member_id for identity, member_id in self.newest.items() if identity in living}
        newest |= dict(ours - self.pods.keys())
        return StockLives(pods, ours, newest)

    def ended(self, ended: Collection[Life]) -> frozenset[Life]:
        """Of what the leader knows, what has ended; ``ended``: the same in the pool's names."""
        return frozenset(
            life for life, pod in self.pods.items() if (life[0], pod) in ended or self._is_over(life)
        )

    def in_pool_names(self, leader: Leader) -> Leader:
        """The projection with each stock member's incarnation as the pool calls it; of several members of one
        name, the newest."""
        if "members" not in leader:
            return leader
        members = (
            (member, (member["identity"], member["member_id"])) for member in leader.get("members", ())
        )
        named = [
            {**member, "incarnation": self.pods.get(life, member["incarnation"])}
            for member, life in members
            if self.newest.get(life[0], life[1]) == life[1]
        ]
        hung = [
            {**each, "incarnation": self.pods.get((each["identity"], each["incarnation"]), "")}
            for each in leader.get("hung", ())
        ]
        return {**leader, "members": named, "hung": hung}

    def _is_over(self, life: Life) -> bool:
        """Its process, which lives on, is a member under a later id."""
        identity, member_id = life
        newest = self.newest.get(identity, member_id)
        successor = (identity, newest)
        return (
            newest != member_id
            and life in self.pods
            and life not in self.present
            and successor in self.present
            and self.pods[successor] == self.pods[life]
        )
