"""A change of task configurations while tasks run (KIP-429 for pipelines).

Units never change; a new ``tasksMax`` only deals them to tasks anew. Two tasks must not run one unit,
so the tasks whose units change are let go first, everywhere, and only then are the new configurations
written and assigned. Tasks that stay as they are run on.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from cooperator.model import Member, Memory, TaskId

TaskConfigs = tuple[Mapping[str, str], ...]


@dataclass(frozen=True, slots=True)
class Regroup:
    """New task configurations of one connector, and which running tasks they change or remove."""

    connector: str
    configs: TaskConfigs
    affected: frozenset[TaskId]

    @classmethod
    def between(cls, connector: str, old: TaskConfigs, new: TaskConfigs) -> "Regroup":
        changed = (TaskId(connector, n) for n, config in enumerate(old) if n >= len(new) or new[n] != config)
        return cls(connector, new, frozenset(changed))

    def in_use(self, members: Iterable[Member], memory: Memory, now_ms: int) -> bool:
        """Whether an affected task runs, or may still run at a departed member whose end is unproven."""
        if not self.affected:
            return False
        if any(not self.affected.isdisjoint(member.owned) for member in members):
            return True
        return any(
            now_ms < hold.not_before_ms and not self.affected.isdisjoint(hold.tasks)
            for hold in memory.holds.values()
        )
