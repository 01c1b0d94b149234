"""What users do, at any time: that is no fault of theirs, but it is treated as one here."""

from simulation.faults.base import Fault
from simulation.spec import ConnectorSpec

NAMES = ("a", "b", "c")
MOST_TASKS = 5


class OfConnector(Fault):
    def connector(self) -> str | None:
        return self.one_of(sorted(self.world.spec.connectors))


class ConnectorIsCreated(Fault):
    def happen(self) -> str:
        spec = self.world.spec
        name = self.one_of([name for name in NAMES if name not in spec.connectors])
        if name is None:
            return ""
        tasks_max = self.random.randint(1, MOST_TASKS)
        spec.connectors[name] = ConnectorSpec(tasks_max)
        spec.touch()
        return f"connector {name} is created with {tasks_max} tasks"


class ConnectorIsDeleted(OfConnector):
    # An adopted group keeps what nobody desires.
    concerns_stock = False

    def happen(self) -> str:
        name = self.connector()
        if name is None:
            return ""
        del self.world.spec.connectors[name]
        self.world.spec.touch()
        return f"connector {name} is deleted"


class ConnectorIsPaused(OfConnector):
    """Or resumed."""

    def happen(self) -> str:
        name = self.connector()
        if name is None:
            return ""
        connector = self.world.spec.connectors[name]
        connector.paused = not connector.paused
        self.world.spec.touch()
        return f"connector {name} is {'paused' if connector.paused else 'resumed'}"


class ConnectorIsReconfigured(OfConnector):
    def happen(self) -> str:
        name = self.connector()
        if name is None:
            return ""
        self.world.spec.connectors[name].version += 1
        self.world.spec.touch()
        return f"connector {name} gets another configuration"


class TasksMaxChanges(OfConnector):
    def happen(self) -> str:
        name = self.connector()
        if name is None:
            return ""
        connector = self.world.spec.connectors[name]
        connector.tasks_max = self.random.randint(1, MOST_TASKS)
        self.world.spec.touch()
        return f"connector {name} gets {connector.tasks_max} tasks"


class ConnectorIsWeighed(OfConnector):
    def happen(self) -> str:
        name = self.connector()
        if name is None:
            return ""
        connector = self.world.spec.connectors[name]
        connector.weight = self.random.choice([1.0, 1.0, 2.0, 3.0])
        self.world.spec.touch()
        return f"connector {name} weighs {connector.weight}"


class WorkerIsScaled(Fault):
    # The pool does not know its pods among stock members.
    concerns_stock = False

    def happen(self) -> str:
        spec = self.world.spec
        spec.replicas = self.random.randint(2, 6)
        spec.touch()
        return f"the Worker gets {spec.replicas} replicas"


class PodsAreRolled(Fault):
    concerns_stock = False

    def happen(self) -> str:
        spec = self.world.spec
        spec.template = f"t{spec.revision}"
        spec.touch()
        return f"the pods' template changes to {spec.template}"
