"""Operators: killed, paused, cut off, with stale watches."""

from tests.simulation.faults.base import Fault
from tests.simulation.network import API, BROKER
from tests.simulation.operator_process import OperatorProcess


class OfOperator(Fault):
    def operator(self) -> OperatorProcess | None:
        """Prefers the one that works."""
        operators = self.simulation.operators
        working = [operator for operator in operators if operator.holds_lease]
        return self.one_of(working if working and self.random.random() < 0.8 else operators)

    def cut_off(self, places: list[str], what: str) -> str:
        operator = self.operator()
        if operator is None:
            return ""
        here, network = operator.place, self.simulation.network
        for place in places:
            network.cut(here, place)

        def heal() -> None:
            for place in places:
                network.join(here, place)

        return f"{here} loses {what} {self.lasting(300, 12_000, heal)}"


class OperatorIsKilled(OfOperator):
    def happen(self) -> str:
        operator = self.operator()
        if operator is None:
            return ""
        operator.kill()
        return f"{operator.name} is killed"


class OperatorsAreAway(Fault):
    """None runs, and none is started: a member leads meanwhile."""

    def happen(self) -> str:
        simulation = self.simulation
        simulation.operators_away += 1
        for operator in list(simulation.operators):
            operator.kill()

        def heal() -> None:
            simulation.operators_away -= 1

        return f"all operators are away {self.lasting(2_000, 30_000, heal)}"


class OperatorIsPaused(OfOperator):
    """It stands still, and afterwards believes that it still leads."""

    def happen(self) -> str:
        operator = self.operator()
        if operator is None or operator.frozen_ms is not None:
            return ""
        operator.freeze()

        def heal() -> None:
            if operator.alive:
                operator.thaw()

        return f"{operator.name} is paused {self.lasting(500, 14_000, heal)}"


class OperatorLosesBroker(OfOperator):
    def happen(self) -> str:
        return self.cut_off([BROKER], "the broker")


class OperatorLosesApi(OfOperator):
    def happen(self) -> str:
        return self.cut_off([API], "the API")


class OperatorLosesMembers(OfOperator):
    def happen(self) -> str:
        return self.cut_off(list(self.simulation.cluster.machines), "the members")


class WatchIsStale(OfOperator):
    def happen(self) -> str:
        operator = self.operator()
        if operator is None:
            return ""
        informer = operator.informer
        informer.lag_ms = self.random.choice([500, 3_000, 8_000])

        def heal() -> None:
            informer.lag_ms = 0

        return f"{operator.name} sees pods {informer.lag_ms} ms late {self.lasting(1_000, 12_000, heal)}"


class WatchIsLost(OfOperator):
    """Events until the next relist are lost."""

    def happen(self) -> str:
        operator = self.operator()
        if operator is None:
            return ""
        blind_ms = self.random.randint(300, 8_000)
        operator.informer.lose(blind_ms)
        return f"{operator.name} sees no pods for {blind_ms} ms"


class MemberIsNotSeen(OfOperator):
    """The operator's view of the API lacks a pod whose member is in the group."""

    concerns_stock = False

    def happen(self) -> str:
        operator = self.operator()
        member = self.one_of(self.simulation.members)
        if operator is None or member is None:
            return ""
        hidden = operator.informer.hidden
        hidden.add(member.identity)
        duration = self.lasting(1_000, 15_000, lambda: hidden.discard(member.identity))
        return f"{operator.name} does not see {member.identity} {duration}"
