"""The statuses that a member writes: one record whenever the state of a task changes.

A status is a projection for people to read; nothing is decided by it.
"""

from dataclasses import replace

from cooperator.agent.instructions import Instruction, PutStatus
from cooperator.agent.state import Settings, State
from cooperator.model import TaskId, TaskState, TaskStatus


def say(
    state: State, settings: Settings, key: TaskId, what: TaskState, trace: str = "", progress: str = ""
) -> list[Instruction]:
    """The instruction to write the status of an owned task; none if it says what the last one said."""
    task = state.tasks[key]
    said = (what, trace or progress)
    if task.said == said:
        return []
    state.tasks[key] = replace(task, said=said)
    status = TaskStatus(key, what, settings.identity, epoch=task.epoch, trace=trace, progress=progress)
    return [PutStatus(status)]
