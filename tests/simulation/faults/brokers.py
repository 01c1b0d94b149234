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
    """One process gets nothing from its topics; everything else of it runs."""

    def happen(self) -> str:
        simulation = self.simulation
        process = self.one_of([*simulation.operators, *simulation.members])
        if process is None:
            return ""
        topics = simulation.topics
        topics.silent.append(process)
        duration = self.lasting(500, 12_000, lambda: topics.silent.remove(process))
        return f"{process.name} reads no topic {duration}"


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
