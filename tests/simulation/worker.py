"""Base of all member processes, ours and Kafka's."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from cooperator.agent.story import StoryLine
from cooperator.model import Epoch, TaskId
from tests.simulation.cluster import told
from tests.simulation.process import Process
from tests.simulation.tasks import Copy, SimulatedRuntime

if TYPE_CHECKING:
    from tests.simulation.simulation import Simulation


class WorkerProcess(Process):
    """A process of a pod. ``engine`` and ``guard`` run beside the part that decides and continue when it
    hangs; a frozen machine freezes all of them. ``on_exit`` is called at the end, with the exit code."""

    runtime: SimulatedRuntime
    is_stock = False

    def __init__(
        self,
        simulation: "Simulation",
        identity: str,
        incarnation: str,
        place: str,
        on_exit: Callable[[int], None],
    ) -> None:
        super().__init__(simulation, told(identity, incarnation), place)
        self.identity = identity
        self.incarnation = incarnation
        self.engine = Process(simulation, f"{self.name} (engine)", place)
        self.guard = Process(simulation, f"{self.name} (watchdog)", place)
        self._on_exit = on_exit
        self.woke_ms = 0
        self.proof_ms = 0
        """When the newest request was sent whose answer shows that it is a member, or has lost nothing."""
        self.revoked: frozenset[TaskId] | set[TaskId] = frozenset()
        """Tasks that assignments which reached it have revoked, and not assigned again."""

    # Facts for the checks

    @property
    def member_id(self) -> str:
        raise NotImplementedError

    @property
    def applied(self) -> Epoch | None:
        return None

    def may_stop(self, copy: Copy) -> bool:
        """Whether there is a reason to stop ``copy``."""
        raise NotImplementedError

    def counts(self, now_ms: int) -> bool:
        """Whether its tasks run, or would run if this machine continued now."""
        raise NotImplementedError

    def configured(self, task: TaskId) -> Mapping[str, str] | None:
        raise NotImplementedError

    def told_to_end(self) -> None:
        """Handle SIGTERM."""
        raise NotImplementedError

    def failed_tasks(self) -> list[TaskId]:
        return []

    def validate(self) -> None:
        """Raises AssertionError where it contradicts itself."""

    def story_lines(self) -> Sequence[StoryLine]:
        """Its report of itself."""
        return ()

    def copies(self) -> list[Copy]:
        return list(self.runtime.copies.values())

    # Its incarnation

    def freeze(self) -> None:
        for process in (self.engine, self.guard):
            process.freeze()
        super().freeze()
        if self not in self.simulation.sleepers:
            self.simulation.sleepers.append(self)

    def thaw(self) -> None:
        self.woke_ms = self.simulation.now_ms
        for process in (self.guard, self.engine):
            process.thaw()
        super().thaw()

    def kill(self) -> None:
        """SIGKILL of the process group, or the end of its machine."""
        self.exited(137)

    def exited(self, code: int) -> None:
        if not self.alive:
            return
        super().kill()
        for process in (self.engine, self.guard):
            process.kill()
        self.runtime.end()
        self.simulation.process_ended(self, code)
        self._on_exit(code)
