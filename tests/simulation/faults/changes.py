"""Changes by users, at any time. They are no faults, but are handled as such here."""

from tests.simulation.faults.base import Fault
from tests.simulation.spec import ConnectorSpec

NAMES = ("a", "b", "c")
MOST_TASKS = 5


class OfConnector(Fault):
    def connector(self) -> str | None:
        return self.one_of(sorted(self.simulation.spec.connectors))


class ConnectorIsCreated(Fault):
    def happen(self) -> str:
        spec = self.simulation.spec
        name = self.one_of([name for name in NAMES if name not in spec.connectors])
        if name is None:
            return ""
        tasks_max = self.random.randint(1, MOST_TASKS)
        spec.connectors[name] = ConnectorSpec(tasks_max)
        spec.touch()
        return f"connector {name} is created with {tasks_max} tasks"


class ConnectorIsDeleted(OfConnector):
    # An adopted group keeps connectors that nobody desires.
    concerns_stock = False

    def happen(self) -> str:
        name = self.connector()
        if name is None:
            return ""
        del self.simulation.spec.connectors[name]
        self.simulation.spec.touch()
        return f"connector {name} is deleted"


class ConnectorIsPaused(OfConnector):
    """Pauses a connector, or resumes it."""

    def happen(self) -> str:
        name = self.connector()
        if name is None:
            return ""
        connector = self.simulation.spec.connectors[name]
        connector.paused = not connector.paused
        self.simulation.spec.touch()
        return f"connector {name} is {'paused' if connector.paused else 'resumed'}"


class ConnectorIsReconfigured(OfConnector):
    def happen(self) -> str:
        name = self.connector()
        if name is None:
            return ""
        self.simulation.spec.connectors[name].version += 1
        self.simulation.spec.touch()
        return f"connector {name} gets another configuration"


class TasksMaxChanges(OfConnector):
    def happen(self) -> str:
        name = self.connector()
        if name is None:
            return ""
        connector = self.simulation.spec.connectors[name]
        connector.tasks_max = self.random.randint(1, MOST_TASKS)
        self.simulation.spec.touch()
        return f"connector {name} gets {connector.tasks_max} tasks"


class ConnectorIsWeighed(OfConnector):
    def happen(self) -> str:
        name = self.connector()
        if name is None:
            return ""
        connector = self.simulation.spec.connectors[name]
        connector.weight = self.random.choice([1.0, 1.0, 2.0, 3.0])
        self.simulation.spec.touch()
        return f"connector {name} weighs {connector.weight}"


class WorkerIsScaled(Fault):
    # The pool cannot identify its pods among stock members.
    concerns_stock = False

    def happen(self) -> str:
        spec = self.simulation.spec
        spec.replicas = self.random.randint(2, 6)
        spec.touch()
        return f"the Worker gets {spec.replicas} replicas"


class PodsAreRolled(Fault):
    concerns_stock = False

    def happen(self) -> str:
        spec = self.simulation.spec
        spec.template = f"t{spec.revision}"
        spec.touch()
        return f"the pods' template changes to {spec.template}"
