"""Two members of a group, and one query with state that reads files; members are killed, and leave."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cooperator.leader.service import LeaderService
from cooperator.local.broker import EmbeddedBroker
from tests.guarantees.pipelines_group import PATIENCE_S, POLICY, REBALANCE_MS, WORKERS
from tests.harness.member_group import MemberGroup, MemberProcess
from tests.harness.support import eventually

TASK = "counts-0"


class StatefulGroup:
    """``checkpoints`` is a directory or a store. ``hold_ms``: how long a task waits for a killed member."""

    def __init__(
        self,
        broker: EmbeddedBroker,
        root: Path,
        config: dict[str, str],
        checkpoints: str = "",
        hold_ms: int = 0,
    ) -> None:
        self.source = root / "in"
        self.source.mkdir()
        self.fed = 0
        self.group = MemberGroup(broker.bootstrap_servers, root, root.name)
        self._checkpoints = checkpoints or str(root / "checkpoints")
        policy = {**POLICY, "scheduled_rebalance_max_delay_ms": hold_ms}
        common = {
            "connector.class": "spark",
            "source.format": "json",
            "source.options.path": f"{self.source}",
            "source.options.maxFilesPerTrigger": "1",
            "trigger.interval.ms": "100",
            "tasks.max": "1",
        }
        self.leader: LeaderService = self.group.leader(
            {"counts": {**common, **config}}, WORKERS, policy=policy, rebalance_timeout_ms=REBALANCE_MS
        )
        for worker in WORKERS:
            self.start(worker)

    def start(self, identity: str) -> None:
        self.group.member(
            identity,
            runtime="spark",
            heap_mb="768",
            checkpoints=self._checkpoints,
            rebalance_timeout_ms=str(REBALANCE_MS),
        )
        self.group.facts(self.leader, WORKERS)

    def feed(self, lines: Sequence[str]) -> None:
        hidden = self.source / f".{self.fed}.json"
        hidden.write_text("\n".join(lines))
        hidden.rename(self.source / f"{self.fed:03}.json")
        self.fed += 1

    def task(self) -> dict[str, Any]:
        tasks = self.leader.status().get("tasks", ())
        return next((task for task in tasks if task["name"] == TASK), {"state": "", "member": ""})

    def owner(self) -> str:
        """The member that runs the task, once one does."""
        eventually(lambda: self.task()["state"] == "RUNNING", PATIENCE_S, "the task runs")
        return str(self.task()["member"])

    def kill(self) -> str:
        """Kills the member that has the task, with all of its processes; returns its name."""
        identity = self.owner()
        self._member(identity).kill()
        self.group.facts(self.leader, WORKERS)
        return identity

    def leave(self) -> str:
        """Ends the member that has the task cleanly; returns its name."""
        identity = self.owner()
        others = tuple(worker for worker in WORKERS if worker != identity)
        member = self._member(identity)
        member.terminate()
        self.group.facts(self.leader, others, leaving=frozenset({identity}))
        assert member.child.wait(PATIENCE_S) == 0
        member.wait_ended()
        return identity

    def has_moved_from(self, identity: str) -> None:
        eventually(
            lambda: self.task()["state"] == "RUNNING" and self.task()["member"] != identity,
            PATIENCE_S,
            f"the task runs elsewhere than at {identity}",
        )

    def _member(self, identity: str) -> MemberProcess:
        return next(member for member in reversed(self.group.members) if member.identity == identity)
