"""Kafka's own builders, asked in one JVM for many answers at once (``java/KafkaReconciliation.java``)."""

import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.java_program import compile_program
from cooperator.model import TaskId
from cooperator.reconciliation import CurrentAssignment, MemberState

PROGRAM: Final = Path(__file__).parent / "java" / "KafkaReconciliation.java"

STATES: Final = {
    MemberState.STABLE: "STABLE",
    MemberState.UNREVOKED_TASKS: "UNREVOKED_PARTITIONS",
    MemberState.UNRELEASED_TASKS: "UNRELEASED_PARTITIONS",
}


@dataclass(frozen=True)
class Step:
    """One question to ``CurrentAssignmentBuilder``. Connectors are named c0 to c7, as the topics are."""

    current: CurrentAssignment
    target: frozenset[TaskId]
    target_epoch: int
    owned: frozenset[TaskId] | None
    occupied: frozenset[TaskId]

    def line(self) -> str:
        current = self.current
        fields = (
            f"step {STATES[current.state]} {current.member_epoch} {current.previous_member_epoch}",
            str(self.target_epoch),
            _epochs(current.assigned),
            _epochs(current.pending_revocation),
            _tasks(self.target),
            "none" if self.owned is None else _tasks(self.owned),
            _tasks(self.occupied),
        )
        return "|".join(fields)


def shown(current: CurrentAssignment) -> str:
    """The text in which Kafka's answer to a ``Step`` would be ``current``."""
    head = f"{STATES[current.state]} {current.member_epoch} {current.previous_member_epoch}"
    return "|".join((head, _epochs(current.assigned), _epochs(current.pending_revocation)))


@dataclass(frozen=True)
class NewTargets:
    """One question to ``TargetAssignmentBuilder``: which records turn ``before`` into ``layout``."""

    epoch: int
    members: tuple[str, ...]
    before: Mapping[str, frozenset[TaskId]]
    layout: Mapping[str, frozenset[TaskId]]

    def line(self) -> str:
        members = " ".join(self.members)
        return f"target {self.epoch}|{members}|{shown_targets(self.before)}|{shown_targets(self.layout)}"


def shown_targets(targets: Mapping[str, frozenset[TaskId]]) -> str:
    return " ".join(f"{member}={_tasks(tasks, ',')}" for member, tasks in sorted(targets.items()))


def ask_kafka(lines: Iterable[str]) -> list[str]:
    """Kafka's answer to each line. Raises RuntimeError if Java fails."""
    with tempfile.TemporaryDirectory(prefix="kafka-reconciliation-") as folder:
        java, *arguments = compile_program(PROGRAM, Path(folder))
        ran = subprocess.run(
            [java, "-XX:TieredStopAtLevel=1", *arguments],
            input="".join(f"{line}\n" for line in lines),
            capture_output=True,
            text=True,
            check=False,
        )
    if ran.returncode:
        raise RuntimeError(f"{PROGRAM} failed:\n{ran.stderr[-2000:]}")
    return ran.stdout.splitlines()


def _word(task: TaskId) -> str:
    return f"{task.connector[1:]}:{task.task}"


def _tasks(tasks: Iterable[TaskId], separator: str = " ") -> str:
    return separator.join(sorted(map(_word, tasks)))


def _epochs(tasks: Mapping[TaskId, int]) -> str:
    return " ".join(sorted(f"{_word(task)}:{epoch}" for task, epoch in tasks.items()))
