"""Names of the native threads of tasks, by which a member's watchdog tells whose thread has frozen it.

Linux keeps 15 bytes of a name, and a thread inherits that of the thread which starts it. So a name is a
digest of the task, and the thread's own id.
"""

import hashlib
import re
from collections.abc import Iterable
from typing import Final

from cooperator.model.ids import TaskId

_DIGEST_CHARACTERS: Final = 9
_FROZEN_BY: Final = re.compile(r"^frozen-by ([0-9a-f]{9})$", re.MULTILINE)


def task_digest(task: TaskId) -> str:
    """Nine hexadecimal digits that stand for a task among those of one member."""
    return hashlib.sha256(f"{task.connector}\n{task.task}".encode()).hexdigest()[:_DIGEST_CHARACTERS]


def thread_name(task: TaskId, native_id: int) -> str:
    """The name of a thread of ``task``; ``native_id`` is the kernel's."""
    return f"{task_digest(task)}{native_id:06x}"


def frozen_by(last_words: str) -> str:
    """The digest of the task whose thread froze a member, as its watchdog has written it; empty if none."""
    found = _FROZEN_BY.search(last_words)
    return found[1] if found else ""


def of_digest(tasks: Iterable[TaskId], digest: str) -> set[TaskId]:
    """The tasks for which ``digest`` stands."""
    return {task for task in tasks if task_digest(task) == digest} if digest else set()
