"""The broker: down, or unreachable."""

from tests.simulation.faults.base import Fault
from tests.simulation.network import BROKER


class BrokerCrashes(Fault):
    def happen(self) -> str:
        port = self.simulation.port
        if not port.up:
            return ""
        port.crash()
        longest_ms = self.random.choice([1_000, 6_000, 14_000])
        return f"the broker is down {self.lasting(100, longest_ms, port.restart)}"


class LogsAreDown(Fault):
    """The topics' leaders are down, the group's coordinator is not."""

    def happen(self) -> str:
        topics = self.simulation.topics
        topics.down += 1

        def heal() -> None:
            topics.down -= 1

        return f"the topics are away {self.lasting(200, self.random.choice([1_000, 8_000]), heal)}"


class LogReaderHangs(Fault):
    """One process gets nothing from its topics for a while, or until all faults end; the rest of it runs.

    Most often it is a leader's, and a user changes a connector meanwhile: the leader writes what it cannot
    read, and the members read it.
    """

    def happen(self) -> str:
        simulation = self.simulation
        leading = [process for process, lead in simulation.leads if lead.machine.state.leading]
        others = [*simulation.operators, *simulation.members]
        process = self.one_of(leading if leading and self.random.random() < 0.8 else others)
        if process is None:
            return ""
        silent = simulation.topics.silent
        silent.append(process)
        longest_ms = self.random.choice([3_000, 12_000, 45_000])
        duration = self.lasting(500, longest_ms, lambda: silent.remove(process))
        name = self.one_of(sorted(simulation.spec.connectors)) if process in leading else None
        if name is None:
            return f"{process.name} reads no topic {duration}"
        simulation.spec.connectors[name].version += 1
        simulation.spec.touch()
        return f"{process.name} reads no topic {duration}; connector {name} gets another configuration"


class BrokerIsBusy(Fault):
    """Nobody reaches it, and nobody is notified."""

    def happen(self) -> str:
        network = self.simulation.network
        places = [
            *self.simulation.cluster.machines,
            *(f"op-{n}" for n in range(self.simulation.shape.operators)),
        ]
        for place in places:
            network.cut(place, BROKER)

        def heal() -> None:
            for place in places:
                network.join(place, BROKER)

        return f"nobody reaches the broker {self.lasting(200, self.random.choice([3_000, 13_000]), heal)}"
