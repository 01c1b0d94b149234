"""Incarnations of stock workers: the leader knows them by member id, the pool by its pods. Pure.

A stock worker reports nothing of itself but the identity in its ``client.id`` and the address at which it
serves. Two pods of one identity may run at a time: one that was deleted by force while its machine was cut
off, and its successor. So a member id belongs to the pod that has its address, however late it is seen, and
to none while no such pod is known: its end is not proven then. The address of a pod that the API no longer
shows is remembered while the leader speaks of its members. If a successor has been given the same one, the
earlier pod has released it. Where no two pods of one identity can run at a time (they have no addresses), a
member id belongs to the newest one. The end of a pod is the end of its member ids.

A worker that survives being dropped by the broker rejoins under a new id and reports all that it runs; its
previous id is then over as well.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from cooperator.host.known import Leader

Incarnation = tuple[str, str]
"""(identity, incarnation)."""


@dataclass(frozen=True, slots=True)
class StockIncarnations:
    """The incarnations in a group of stock workers.

    * ``pods``: by (identity, member id), the pool's name of its incarnation.
    * ``present``: the current members.
    * ``newest``: by identity, the member id of its newest pod that joined last.
    * ``hosts``: the addresses of pods that are, or of which members are spoken of.
    """

    pods: Mapping[Incarnation, str] = field(default_factory=dict)
    present: frozenset[Incarnation] = frozenset()
    newest: Mapping[str, str] = field(default_factory=dict)
    hosts: Mapping[Incarnation, str] = field(default_factory=dict)

    def seen(
        self,
        leader: Leader,
        living: Mapping[str, str],
        addresses: Mapping[Incarnation, str | None] = MappingProxyType({}),
    ) -> "StockIncarnations":
        """Update from a projection. ``living``: by identity, the pool's name of its pod's newest incarnation.

        That incarnation may have ended. ``addresses``: as in ``pool.Pod``, by identity and the pool's name.
        """
        if "members" not in leader:
            return self
        members = ((member["identity"], member["member_id"]) for member in leader["members"])
        ours = frozenset(seen for seen in members if seen[0] in living)
        incarnations = ((identity, incarnation) for identity, incarnation in leader.get("incarnations", ()))
        spoken_of = ours | {seen for seen in incarnations if seen[0] in living}
        spoken_pods = {(identity, pod) for (identity, _), pod in self.pods.items()} | {*living.items()}
        now = {pod: host for pod, host in addresses.items() if host is not None}
        hosts = {pod: host for pod, host in {**self.hosts, **now}.items() if pod in spoken_pods}
        served = leader.get("addresses", {})

        def pod_of(seen: Incarnation) -> str:
            identity, member_id = seen
            newest = identity, living[identity]
            if seen in self.pods or addresses.get(newest) is None:
                return self.pods.get(seen, living[identity])
            host = served.get(member_id, "").rpartition(":")[0].strip("[]")
            own = (pod for pod in (newest, *hosts) if pod[0] == identity and host and hosts.get(pod) == host)
            return next(own, (identity, ""))[1]

        pods = {seen: pod for seen in spoken_of if (pod := pod_of(seen))}
        newest = {identity: member_id for identity, member_id in self.newest.items() if identity in living}
        newest |= {i: m for i, m in ours - self.pods.keys() if pods.get((i, m)) == living[i]}
        return StockIncarnations(pods, ours, newest, hosts)

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
            and self.pods.get(successor) == self.pods[seen]
        )
