"""The desired state of the simulated users, and all time settings."""

from dataclasses import dataclass, field

from cooperator.model import Desired, DesiredConnector, StateReplicas, TargetState, TaskId
from tests.simulation.tasks import UNITS


@dataclass(frozen=True, slots=True)
class Times:
    """Shorter than the defaults, in the same order: Lease < leader's session < rebalance < lease."""

    heartbeat_ms: int = 1_000
    session_ms: int = 4_000
    leader_session_ms: int = 4_500
    rebalance_ms: int = 5_000
    lease_ms: int = 9_000
    lease_margin_ms: int = 2_500
    kill_after_ms: int = 1_500
    hold_ms: int = 12_000
    join_wait_ms: int = 4_000
    drain_ms: int = 15_000
    revocation_ms: int = 6_000


@dataclass(slots=True)
class ConnectorSpec:
    tasks_max: int
    paused: bool = False
    weight: float = 1.0
    version: int = 0
    state: StateReplicas | None = None

    def desired(self) -> DesiredConnector:
        config = {
            "connector.class": "simulated",
            "tasks.max": str(self.tasks_max),
            "version": str(self.version),
            **({} if self.state is None else self.state.settings()),
        }
        state = TargetState.PAUSED if self.paused else TargetState.STARTED
        return DesiredConnector(config, state, self.weight)


@dataclass
class Spec:
    """The custom resources. ``revision`` grows with each change; ``template`` is the pods'."""

    replicas: int
    connectors: dict[str, ConnectorSpec] = field(default_factory=dict)
    revision: int = 0
    template: str = "t0"

    def touch(self) -> None:
        self.revision += 1

    def desired(self) -> Desired:
        return Desired(self.revision, {name: c.desired() for name, c in sorted(self.connectors.items())})

    def tasks(self) -> frozenset[TaskId]:
        """All tasks that should run in the end."""
        return frozenset(
            TaskId(name, number)
            for name, connector in self.connectors.items()
            for number in range(-1, min(connector.tasks_max, UNITS))
        )
