"""Promise 5, as far as it can be checked after each event: a leader's memory is in the leader log before
anybody can act on it, and terms only grow there. And nothing is assigned by a config log older than what a
member of the round has read: two members could start one task under two configurations.

(These checks run during crashes, lost messages and stale watches, which shows that those break none of the
other promises.)
"""

from typing import TYPE_CHECKING

from cooperator.group import GroupState
from cooperator.model import Memory, TaskId
from cooperator.wire import Role, decode_assignment, decode_leader, decode_metadata, member_of
from tests.simulation.broker.group import Group
from tests.simulation.broker.messages import SyncGroup
from tests.simulation.promises.base import Promise

if TYPE_CHECKING:
    from tests.simulation.simulation import Simulation


class MemoryBeforeAssignments(Promise):
    def __init__(self, simulation: "Simulation") -> None:
        super().__init__(simulation)
        self._term = 0
        self._given: dict[int, list[Memory]] = {}

    def check(self) -> None:
        simulation = self.simulation
        if simulation.records:
            records, simulation.records = simulation.records, []
            for record in records:
                value = decode_leader(record)
                if isinstance(value, Memory):
                    self._written(value)
        if simulation.late_writes:
            raise self.broken(
                f"somebody else has taken the lead, and there writes {simulation.late_writes[0]}"
            )
        if simulation.syncs:
            syncs, simulation.syncs = simulation.syncs, []
            for sync in syncs:
                self._sent(sync)

    def _written(self, memory: Memory) -> None:
        if memory.term < self._term:
            raise self.broken(f"a memory of term {memory.term} was written after one of {self._term}")
        self._term = memory.term
        self._given.setdefault(memory.term, []).append(memory)

    def _sent(self, sync: SyncGroup) -> None:
        group = self.simulation.coordinator.group
        if group is None:
            return
        if group.state is GroupState.STABLE and group.generation == sync.generation:
            self._is_up_to_date(group, sync)
        for member_id, data in sync.assignments.items():
            assignment = decode_assignment(data)
            member = group.members.get(member_id)
            if not assignment.assigned or assignment.agent is None or member is None:
                continue
            metadata = decode_metadata(member.protocols[0][1])
            identity = member_of(member_id, member.client_id, metadata).identity
            term = assignment.agent.epoch.term
            if not self._is_remembered(term, identity, member_id, frozenset(assignment.assigned)):
                raise self.broken(
                    f"{identity} is given {', '.join(map(str, assignment.assigned))} "
                    f"in {assignment.agent.epoch}, and "
                    "the leader log does not say so"
                )

    def _is_up_to_date(self, group: Group, sync: SyncGroup) -> None:
        found = {i: decode_metadata(m.protocols[0][1]) for i, m in group.members.items()}
        workers = {i: m for i, m in found.items() if m.agent is None or m.agent.role is not Role.LEADER}
        read = max((metadata.config_offset for metadata in workers.values()), default=-1)
        for data in sync.assignments.values():
            assignment = decode_assignment(data)
            if assignment.assigned and assignment.config_offset < read:
                raise self.broken(
                    f"{', '.join(map(str, assignment.assigned))} is assigned in generation {sync.generation} "
                    f"by the config log up to {assignment.config_offset}, and a member has read up to {read}"
                )

    def _is_remembered(self, term: int, identity: str, member_id: str, assigned: frozenset[TaskId]) -> bool:
        """For a stock worker that shares its client id: under the identity that this member id has."""
        return any(
            assigned <= memory.given.get(known, frozenset())
            for memory in reversed(self._given.get(term, []))
            for known in (
                identity,
                *(i for i, incarnation in memory.incarnations.items() if incarnation == member_id),
            )
        )
