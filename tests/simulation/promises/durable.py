"""Promise 5, the part that can be seen after each event: what a leader must remember is in the leader log
before anybody can act on it, and terms only grow there.

(That crashes, lost messages and stale watches change none of the other promises is seen by checking these
while all that happens.)
"""

from typing import TYPE_CHECKING

from cooperator.model import Memory, TaskId
from cooperator.wire import decode_assignment, decode_leader, decode_metadata, member_of
from simulation.broker.messages import SyncGroup
from simulation.promises.base import Promise

if TYPE_CHECKING:
    from simulation.world import World


class MemoryBeforeShares(Promise):
    def __init__(self, world: "World") -> None:
        super().__init__(world)
        self._term = 0
        self._given: dict[int, list[Memory]] = {}

    def check(self) -> None:
        world = self.world
        if world.records:
            records, world.records = world.records, []
            for record in records:
                value = decode_leader(record)
                if isinstance(value, Memory):
                    self._written(value)
        if world.late_writes:
            raise self.broken(f"somebody else has taken the lead, and there writes {world.late_writes[0]}")
        if world.syncs:
            syncs, world.syncs = world.syncs, []
            for sync in syncs:
                self._sent(sync)

    def _written(self, memory: Memory) -> None:
        if memory.term < self._term:
            raise self.broken(f"a memory of term {memory.term} was written after one of {self._term}")
        self._term = memory.term
        self._given.setdefault(memory.term, []).append(memory)

    def _sent(self, sync: SyncGroup) -> None:
        group = self.world.coordinator.group
        if group is None:
            return
        for member_id, data in sync.assignments.items():
            share = decode_assignment(data)
            member = group.members.get(member_id)
            if not share.assigned or share.agent is None or member is None:
                continue
            metadata = decode_metadata(member.protocols[0][1])
            identity = member_of(member_id, member.client_id, metadata).identity
            term = share.agent.epoch.term
            if not self._is_remembered(term, identity, frozenset(share.assigned)):
                raise self.broken(
                    f"{identity} is given {', '.join(map(str, share.assigned))} in {share.agent.epoch}, and "
                    "the leader log does not say so"
                )

    def _is_remembered(self, term: int, identity: str, assigned: frozenset[TaskId]) -> bool:
        memories = reversed(self._given.get(term, []))
        return any(assigned <= memory.given.get(identity, frozenset()) for memory in memories)
