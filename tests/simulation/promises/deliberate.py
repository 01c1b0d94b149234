"""Promise 9: a deliberate end makes no suspect.

Only deleted pods end by SIGKILL here (``kubelet``): by a person, an eviction, a drained node, a roll or a
scale-down. So no task may ever be suspected of having ended a member.
"""

from tests.simulation.promises.base import Promise


class DeliberateEndsAccuseNobody(Promise):
    def check(self) -> None:
        for operator in self.simulation.operators:
            if operator.suspects:
                raise self.broken(f"{operator.name} suspects {sorted(map(str, operator.suspects))}")
