"""No leader that knows the broker's limit sends a round that the broker cannot store.

A record whose members alone are too large, by the leader's estimate, cannot be helped: the leader sends
urgent revocations and lets the broker decide (decision 080). The estimate is too high by up to
``OVERHEAD_BYTES``, which is much in the small records of histories, and nothing in those of brokers. A member
that has just been elected does not know the limit yet.
"""

from tests.simulation.operator_process import OperatorProcess
from tests.simulation.promises.base import Promise


class EveryRoundFits(Promise):
    def check(self) -> None:
        coordinator = self.simulation.coordinator
        for record in coordinator.take_too_large():
            empty = min(len(member.assignment) for member in record.members)
            least = record.size_bytes - sum(len(member.assignment) - empty for member in record.members)
            limit = coordinator.settings.max_record_bytes
            leaders = (member.client_id for member in record.members if member.member_id == record.leader)
            leads = any(
                isinstance(process, OperatorProcess)
                and not state.limit_in_doubt
                and state.record.least_bytes <= state.max_group_bytes
                for process, lead in self.simulation.leads
                if record.generation == (state := lead.machine.state).generation and state.leading
            )
            if leads and least <= limit:
                raise self.broken(
                    f"{next(leaders, 'a leader')} makes a record of {record.size_bytes} bytes of at most "
                    f"{limit}; without changes it has {least}"
                )
