"""A change of task configurations while tasks run (KIP-429 for pipelines).

Units never change; a new ``tasksMax`` only deals them to tasks anew. Two tasks must not run one unit,
so the tasks whose units change are revoked first, everywhere, and only then are the new configurations
written and assigned. Unchanged tasks run on.

Tasks of an earlier connector of the same name have units, too: they must end as well.
"""

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass

from cooperator.leader import absences
from cooperator.model import ClusterConfig, Member, Memory, Policy, TaskFencing, TaskId

TaskConfigs = tuple[Mapping[str, str], ...]
NEW_TASKS = "task configurations were committed"
GATHER_MS = 50
"""Commits within this time share a round: connectors that change together make one round."""


@dataclass(frozen=True, slots=True)
class Regroup:
    """New task configurations of one connector: which tasks they change or remove, and which they leave."""

    connector: str
    configs: TaskConfigs
    affected: frozenset[TaskId]
    unchanged: frozenset[TaskId]

    @classmethod
    def between(cls, connector: str, old: TaskConfigs, new: TaskConfigs) -> "Regroup":
        tasks = frozenset(TaskId(connector, n) for n in range(len(old)))
        unchanged = frozenset(t for t in tasks if t.task < len(new) and new[t.task] == old[t.task])
        return cls(connector, new, tasks - unchanged, unchanged)

    def is_reported(self, members: Iterable[Member]) -> bool:
        """Whether a task that is not among the unchanged ones runs at one of ``members``."""
        return any(self._concerns(member.owned) for member in members)

    def is_occupied(self, tasks: Iterable[TaskId]) -> bool:
        """Whether such a task is among ``tasks``, which may run somewhere."""
        return self._concerns(tasks)

    def may_run(
        self,
        members: Iterable[Member],
        memory: Memory,
        ended: Container[tuple[str, str]],
        policy: Policy,
        now_ms: int,
    ) -> bool:
        """Whether such a task may still run at a departed incarnation.

        That is one that is none of ``members``, and whose end is not in ``ended``. Its assignment counts,
        what it was told to stop, and tasks that are not known.
        """
        if any(hold.blanket_until_ms > now_ms for hold in memory.holds.values()):
            return True
        # A stock worker has no lease by which it would have stopped: only its hold is known.
        if memory.stock and any(
            self._concerns(hold.tasks)
            and hold.deadline_ms > now_ms
            and (identity, hold.incarnation) not in ended
            for identity, hold in memory.holds.items()
        ):
            return True
        present = {(member.identity, member.incarnation) for member in members}
        # Members that are missing since a round that was not planned are not known to be missing yet.
        entries = [*memory.unstopped, *absences.as_given(memory)]
        return any(
            self._concerns(entry.tasks)
            and (entry.identity, entry.incarnation) not in present
            and absences.may_run(entry, ended, policy, now_ms)
            for entry in entries
        )

    def _concerns(self, tasks: Iterable[TaskId]) -> bool:
        return any(
            task.connector == self.connector and not task.is_instance and task not in self.unchanged
            for task in tasks
        )


def committed_since(before: ClusterConfig, now: ClusterConfig) -> bool:
    """Whether task configurations were committed between the two, be they the same as before or not."""
    if before.fencings is now.fencings:
        return False
    return any(
        fencing.generation != before.fencings.get(name, TaskFencing()).generation
        for name, fencing in now.fencings.items()
    )


def unsettled(regroups: Mapping[str, Regroup], config: ClusterConfig) -> dict[str, Regroup]:
    """Those that the config log does not have yet, of connectors that there are still."""
    return {
        name: regroup
        for name, regroup in regroups.items()
        if (committed := config.connectors.get(name)) is not None
        and (committed.tasks != regroup.configs or committed.inconsistent)
    }
