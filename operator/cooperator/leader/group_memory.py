"""The memory of a leader whose group has its targets in the leader log. Pure."""

from collections.abc import Mapping
from dataclasses import replace

from cooperator.model import Memory, TaskId
from cooperator.reconciliation import ReconciledGroup


def stripped(memory: Memory) -> Memory:
    """``memory`` as the leader log has it beside a group, whose targets say what was given.

    A release without this protocol must take it for out of date: ``stock`` and the gap in the generations say
    that others have led since, so that it starts nothing unreported for a lease and a margin.
    """
    return replace(memory, given={}, moving={}, stock=True, generation=memory.generation - 1)


def restored(memory: Memory, group: ReconciledGroup) -> Memory:
    """The memory of the leader of ``group``, from what ``stripped`` has left."""
    return replace(memory, given=given_of(group), stock=False, generation=memory.generation + 1)


def lacks(saved: Memory | None, memory: Memory, owns_config: bool) -> bool:
    """Whether a log with ``saved`` lacks something of ``memory``, whose record grows with the group.

    ``owns_config``: all connectors but orphans are managed, so it need not say which (as in
    ``reconcile.remembers``).
    """
    if saved is None or saved is memory:
        return saved is None
    before, after = stripped(saved), stripped(memory)
    return before != after and not (owns_config and replace(before, managed=after.managed) == after)


def given_of(group: ReconciledGroup) -> Mapping[str, frozenset[TaskId]]:
    """The tasks that the targets give, by identity."""
    return {identity: target.tasks for identity, target in group.targets.items()}
