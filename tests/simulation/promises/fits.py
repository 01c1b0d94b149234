"""No leader that knows the broker's limit sends a round that the broker cannot store.

A record whose members alone are too large cannot be helped. A member that has just been elected does not know
the limit yet.
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
                isinstance(process, OperatorProcess) and not lead.machine.state.limit_in_doubt
                for process, lead in self.simulation.leads
                if record.generation == lead.machine.state.generation and lead.machine.state.leading
            )
            if leads and least <= limit:
                raise self.broken(
                    f"{next(leaders, 'a leader')} makes a record of {record.size_bytes} bytes of at most "
                    f"{limit}; without changes it has {least}"
                )
