"""Facts that an operator knows about the pods of a scenario, because it orders them.

A scenario says that a pod leaves, not why. The operator would know, since it creates the pods. So at each
time its leader gets what has been ordered by then:

* a pod that leaves and never joins again is scaled down: it will not come back, and is announced as leaving
  ``bound_ms`` ahead;
* a pod that leaves and joins again is restarted: it will come back at an unknown time;
* a pod that joins is ordered ``bound_ms`` ahead.

Events that are not ordered (a process that the broker drops, an assignment that gets lost) are not reported.
"""

from cooperator.scenarios.scenario import Scenario
from cooperator.scenarios.workers import pod_name

_ARRIVALS = frozenset({"join", "join_with", "rejoin_running"})


class Knowledge:
    """The orders behind a scenario."""

    def __init__(self, scenario: Scenario) -> None:
        self._arrivals: dict[int, list[int]] = {pod: [0] for pod in scenario.workers0}
        self._last_leaves: dict[int, int] = {}
        for event in scenario.events:
            if event.type in _ARRIVALS:
                self._arrivals.setdefault(event.pod, []).append(event.time_ms)
                self._last_leaves.pop(event.pod, None)
            elif event.type == "leave":
                self._last_leaves[event.pod] = event.time_ms

    def gone(self, now_ms: int, present: frozenset[str]) -> frozenset[str]:
        """Return the pods that existed and will not come back."""
        left = (pod for pod, times in self._arrivals.items() if times[-1] <= now_ms)
        return frozenset(map(pod_name, left)) - present

    def leaving(self, now_ms: int, bound_ms: int) -> frozenset[str]:
        """Return the pods that are about to be scaled down."""
        soon = (pod for pod, at_ms in self._last_leaves.items() if now_ms < at_ms <= now_ms + bound_ms)
        return frozenset(map(pod_name, soon))

    def expected(self, now_ms: int, present: frozenset[str], bound_ms: int) -> frozenset[str]:
        """Return the pods that exist or have been ordered."""
        soon = (
            pod
            for pod, times in self._arrivals.items()
            if any(now_ms < time_ms <= now_ms + bound_ms for time_ms in times)
        )
        return present.union(map(pod_name, soon))
