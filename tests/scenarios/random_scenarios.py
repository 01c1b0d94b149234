"""Random scenarios, for comparisons that no test vector covers."""

import json
from random import Random
from typing import Any

from cooperator.scenarios.scenario import Scenario, parse_scenarios

GAPS_MS = (0, 1, 500, 1_000, 1_500, 30_000, 60_000, 100_000, 300_000, 300_001)


def scenario(seed: int, *, faults: bool = True) -> Scenario:
    """A scenario that depends on the seed only. With ``faults``, workers are dropped, fall behind and miss
    assignments."""
    [parsed] = parse_scenarios([json.dumps(_Maker(Random(seed), faults).make(seed))], f"seed {seed}")
    return parsed


class _Maker:
    def __init__(self, random: Random, faults: bool) -> None:
        self.random = random
        self.workers = random.randint(1, 6)
        self.tasks = {f"c{i}": random.randint(0, 8) for i in range(random.randint(0, 5))}
        self.config = dict(self.tasks)
        self.present = set(range(self.workers))
        self.away: list[int] = []
        self.dropped: set[int] = set()
        self.next_pod = self.workers
        self.kinds = [self.join, self.join, self.leave, self.leave, self.come_back]
        self.kinds += [self.set_tasks, self.create, self.delete, self.rebalance]
        if faults:
            self.kinds += [self.kick, self.rejoin, self.freeze, self.fail_next]

    def make(self, seed: int) -> dict[str, Any]:
        time_ms, events = 0, []
        for _ in range(self.random.randint(1, 14)):
            time_ms += self.random.choice((*GAPS_MS, self.random.randint(1, 400_000)))
            event = self.random.choice(self.kinds)()
            if event is not None:
                events.append({"time_ms": time_ms, **event})
        return {
            "id": f"seed-{seed}",
            "name": f"seed-{seed}",
            "protocol": "sessioned",
            "scheduled_rebalance_max_delay_ms": self.random.choice((0, 1, 1_000, 60_000, 300_000)),
            "rejoin_ms": self.random.choice((200, 1_000)),
            "config0": self.config,
            "workers0": [f"w{pod:02d}" for pod in range(self.workers)],
            "events": events,
        }

    def join(self) -> dict[str, Any]:
        self.present.add(self.next_pod)
        self.next_pod += 1
        return {"type": "join", "pod": self.next_pod - 1}

    def leave(self) -> dict[str, Any] | None:
        pod = self._take(self.present)
        if pod is None:
            return None
        self.away.append(pod)
        return {"type": "leave", "pod": pod}

    def come_back(self) -> dict[str, Any] | None:
        if not self.away:
            return None
        pod = self.away.pop(self.random.randrange(len(self.away)))
        self.present.add(pod)
        return {"type": "join", "pod": pod}

    def set_tasks(self) -> dict[str, Any] | None:
        return self._set(self.random.choice(sorted(self.tasks))) if self.tasks else None

    def create(self) -> dict[str, Any]:
        return self._set(f"n{len(self.tasks)}")

    def delete(self) -> dict[str, Any] | None:
        if not self.tasks:
            return None
        connector = self.random.choice(sorted(self.tasks))
        del self.tasks[connector]
        return {"type": "delete", "connector": connector}

    def rebalance(self) -> dict[str, Any]:
        return {"type": "rebalance"}

    def kick(self) -> dict[str, Any] | None:
        pod = self._take(self.present) if len(self.present) > 1 else None
        if pod is None:
            return None
        self.dropped.add(pod)
        return {"type": "kick", "pod": pod}

    def rejoin(self) -> dict[str, Any] | None:
        pod = self._take(self.dropped)
        if pod is None:
            return None
        self.present.add(pod)
        return {"type": "rejoin_running", "pod": pod}

    def freeze(self) -> dict[str, Any] | None:
        return {"type": "freeze", "pod": self.random.choice(sorted(self.present))} if self.present else None

    def fail_next(self) -> dict[str, Any] | None:
        if not self.present:
            return None
        pods = self.random.sample(sorted(self.present), self.random.randint(1, len(self.present)))
        return {"type": "fail_next", "pods": sorted(pods), "dead": False}

    def _take(self, pods: set[int]) -> int | None:
        if not pods:
            return None
        pod = self.random.choice(sorted(pods))
        pods.discard(pod)
        return pod

    def _set(self, connector: str) -> dict[str, Any]:
        self.tasks[connector] = self.random.randint(0, 10)
        return {"type": "set", "connector": connector, "tasks": self.tasks[connector]}
