"""Messages that are lost, late, repeated and reordered."""

from tests.simulation.faults.base import Fault


class MessagesAreLost(Fault):
    def happen(self) -> str:
        weather = self.simulation.network.weather
        fraction = self.random.choice([0.02, 0.1, 0.3])
        weather.lose += fraction

        def heal() -> None:
            weather.lose = max(0.0, weather.lose - fraction)

        return f"{fraction:.0%} of all messages are lost {self.lasting(500, 8_000, heal)}"


class MessagesAreLate(Fault):
    def happen(self) -> str:
        weather = self.simulation.network.weather
        weather.delay, weather.delay_ms = 0.3, self.random.choice([300, 1_500, 4_000])

        def heal() -> None:
            weather.delay = 0.0

        return f"messages are up to {weather.delay_ms} ms late {self.lasting(500, 10_000, heal)}"


class MessagesAreRepeated(Fault):
    def happen(self) -> str:
        weather = self.simulation.network.weather
        weather.repeat = 0.4

        def heal() -> None:
            weather.repeat = 0.0

        return f"messages are repeated {self.lasting(1_000, 10_000, heal)}"


class ThreadsAreSlow(Fault):
    def happen(self) -> str:
        weather = self.simulation.network.weather
        weather.hop_ms = self.random.choice([100, 600, 2_500])

        def heal() -> None:
            weather.hop_ms = 4

        return f"threads wait up to {weather.hop_ms} ms for each other {self.lasting(500, 8_000, heal)}"
