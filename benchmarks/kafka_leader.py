"""Kafka Connect's own leader in a JVM of its own, asked round by round (``java/KafkaLeader.java``)."""

import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from benchmarks.java_program import compile_program
from cooperator.model import Assignment, TaskId

PROGRAM: Final = Path(__file__).parent / "java" / "KafkaLeader.java"


@dataclass(frozen=True, slots=True)
class Decision:
    """Kafka's decision, and the nanoseconds from encoded reports to encoded assignments."""

    error: int
    delay_ms: int
    nanos: int
    assignments: Mapping[str, Assignment]


class KafkaLeader:
    """A context manager: call ``incarnation`` first, then ``configure``, then play rounds. Raises
    RuntimeError if Java fails."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="kafka-leader-")
        try:
            java, *arguments = compile_program(PROGRAM, Path(self._folder.name))
        except BaseException:
            self._folder.cleanup()
            raise
        self._java = subprocess.Popen(
            [java, "-Xmx4g", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._java.kill()
        self._java.communicate()
        self._folder.cleanup()

    def incarnation(self, delay_ms: int) -> None:
        """Start a new incarnation; ``delay_ms`` is scheduled.rebalance.max.delay.ms."""
        self._say([f"incarnation {delay_ms}"])

    def configure(self, task_counts: Mapping[str, int]) -> None:
        """Set the connectors and the number of tasks of each."""
        self._say(["config", *(f"connector {name} {count}" for name, count in task_counts.items())])

    def decide(
        self,
        members: Iterable[tuple[str, int, Iterable[TaskId]]],
        *,
        now_ms: int,
        generation: int,
        completed: int,
        leader: str,
        process: str,
        offset: int,
    ) -> Decision:
        """Plan a round of ``members`` (id, config offset, items that it reports as running).

        ``completed`` is the generation whose assignment the leader got last. ``process`` selects whose memory
        of earlier rounds it has. ``offset`` is how far it has read the config topic.
        """
        self._say([f"round {now_ms} {generation} {completed} {leader} {process} {offset}"])
        for member_id, member_offset, items in members:
            reported = " ".join(f"{connector}:{number}" for connector, number in items)
            self._say([f"member {member_id} {member_offset} {reported}".rstrip()])
        self._say(["decide"])
        assert self._java.stdin is not None
        assert self._java.stdout is not None
        self._java.stdin.flush()
        first = self._java.stdout.readline().split()
        if len(first) != 3:
            raise RuntimeError(f"Kafka's leader has ended: exit code {self._java.wait()}")
        assignments = {}
        for line in iter(self._java.stdout.readline, "done\n"):
            member_id, given, revoked = line.replace(" revoked", " assigned").split(" assigned")
            assignments[member_id] = Assignment(_items(given), _items(revoked))
        return Decision(int(first[0]), int(first[1]), int(first[2]), assignments)

    def _say(self, lines: Iterable[str]) -> None:
        assert self._java.stdin is not None
        self._java.stdin.writelines(f"{line}\n" for line in lines)


def _items(text: str) -> tuple[TaskId, ...]:
    parts = (word.rpartition(":") for word in text.split())
    return tuple(TaskId(connector, int(number)) for connector, _, number in parts)
