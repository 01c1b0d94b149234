"""The story of a member: lines that explain later why a task did what it did."""

from dataclasses import dataclass

from cooperator.agent.instructions import (
    AskLeader,
    Exit,
    Instruction,
    KillGroup,
    Leave,
    Pause,
    PostTaskConfigs,
    PutStatus,
    ReadyToJoin,
    Rejoin,
    Resume,
    SendReport,
    SetTimer,
    StartTask,
    StopTask,
    Watch,
)
from cooperator.model import INSTANCE, TaskId


@dataclass(frozen=True, slots=True)
class StoryLine:
    """The history of ``task`` (None: of all of them). ``cause``: the id of the event that caused it."""

    at_ms: int
    cause: str
    task: TaskId | None
    what: str


def description_of(instruction: Instruction) -> tuple[TaskId | None, str] | None:
    """The task concerned and a text without configuration; None if the instruction is not worth a line."""
    match instruction:
        case StartTask(task, attempt, _, paused, epoch):
            return task, f"start attempt {attempt} under {epoch}" + (", paused" if paused else "")
        case StopTask(task, attempt):
            return task, f"stop attempt {attempt}"
        case Pause(task):
            return task, "pause"
        case Resume(task):
            return task, "resume"
        case PostTaskConfigs(connector, number, configs):
            return TaskId(connector, INSTANCE), f"post {number}: {len(configs)} task configurations"
        case Rejoin(reason):
            return None, f"rejoin: {reason}"
        case AskLeader():
            return None, "ask the leader whether the tasks are still ours"
        case Leave():
            return None, "leave the group"
        case Exit(code):
            return None, f"exit with {code}"
        case KillGroup(reason):
            return None, f"kill the process group: {reason}"
        case ReadyToJoin():
            return None, "join with nothing"
        case PutStatus() | SendReport() | SetTimer() | Watch():
            return None
