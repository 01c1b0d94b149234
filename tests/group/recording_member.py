"""A member whose listener records its calls, for conversations with a real broker."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from cooperator.group import (
    DescribedMember,
    GroupConfig,
    GroupState,
    GroupUnavailable,
    Joined,
    Membership,
    Round,
)
from cooperator.wire import Role

Plan = Callable[[Round], "Future[Mapping[str, bytes]] | Mapping[str, bytes]"]


def assign_generation(round_: Round) -> Mapping[str, bytes]:
    """A plan that gives every member the generation as text."""
    return {member.member_id: str(round_.generation).encode() for member in round_.members}


@dataclass
class RecordingMember:
    """One member of a group, and all calls of its listener, in order."""

    bootstrap_servers: str
    group_id: str
    name: str
    role: Role = Role.WORKER
    instance_id: str | None = None
    session_timeout_ms: int = 6_000
    heartbeat_interval_ms: int = 300
    rebalance_timeout_ms: int = 15_000
    metadata: bytes = b""
    make_plan: Plan = assign_generation
    verdict: Callable[[Sequence[DescribedMember]], bool | str] = lambda members: True
    security: Mapping[str, Any] = field(default_factory=dict, repr=False)
    calls: list[tuple[str, Any]] = field(default_factory=list)
    contacts: list[float] = field(default_factory=list)
    reported_at: list[float] = field(default_factory=list)
    """When each of ``contacts`` was reported."""

    def __post_init__(self) -> None:
        self.metadata = self.metadata or self.name.encode()
        self.config = GroupConfig(
            bootstrap_servers=self.bootstrap_servers,
            group_id=self.group_id,
            client_id=self.name,
            role=self.role,
            group_instance_id=self.instance_id,
            session_timeout_ms=self.session_timeout_ms,
            heartbeat_interval_ms=self.heartbeat_interval_ms,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            security=self.security,
        )
        self.membership = Membership(self.config, self)

    # --- recorded calls ------------------------------------------------------------------------------

    def all(self, kind: str) -> list[Any]:
        return [what for name, what in list(self.calls) if name == kind]

    @property
    def rounds(self) -> list[Round]:
        """The rounds that it led."""
        return self.all("plan")

    @property
    def generations(self) -> list[int]:
        """The generations that it completed."""
        return [joined.generation for joined in self.all("joined")]

    @property
    def member_id(self) -> str:
        return self.membership.member_id

    @property
    def generation(self) -> int:
        return self.membership.generation

    # --- the listener --------------------------------------------------------------------------------

    def protocols(self) -> Sequence[tuple[str, bytes]]:
        return [(name, self.metadata) for name in ("sessioned", "compatible", "default")]

    def plan(self, round: Round) -> "Future[Mapping[str, bytes]]":
        self._record("plan", round)
        made = self.make_plan(round)
        if isinstance(made, Future):
            return made
        plan: Future[Mapping[str, bytes]] = Future()
        threading.Thread(target=plan.set_result, args=(made,)).start()
        return plan

    def round_void(self, generation: int) -> None:
        self._record("void", generation)

    def joined(self, joined: Joined) -> None:
        self._record("joined", joined)

    def dropped(self, reason: str) -> None:
        self._record("dropped", reason)

    def fenced(self) -> None:
        self._record("fenced", None)

    def contact(self, sent_at: float) -> None:
        self.contacts.append(sent_at)
        self.reported_at.append(time.monotonic())

    def ready_to_join(self) -> None:
        """It runs nothing that would have to stop."""

    def coordinator_lost(self) -> None:
        self._record("coordinator_lost", None)

    def trouble(self, message: str) -> None:
        self._record("trouble", message)

    def may_take_lead(self, members: Sequence[DescribedMember]) -> bool | str:
        self._record("asked", tuple(members))
        return self.verdict(members)

    def refused(self, reason: str) -> None:
        self._record("refused", reason)

    def lead_taken(self, evicted: Sequence[str]) -> None:
        self._record("lead_taken", tuple(evicted))

    def lead_lost(self) -> None:
        self._record("lead_lost", None)

    def _record(self, kind: str, what: Any) -> None:
        self.calls.append((kind, what))


def all_in(*recorders: RecordingMember) -> bool:
    """All of them, and no other members, are in one completed round, and each one has its result."""
    generations = {recorder.generations[-1] if recorder.generations else -1 for recorder in recorders}
    try:
        described = recorders[0].membership.describe()
    except GroupUnavailable as error:
        raise AssertionError(f"no coordinator yet: {error}") from None
    return (
        described.state is GroupState.STABLE
        and {member.member_id for member in described.members}
        == {recorder.member_id for recorder in recorders}
        and generations == {recorders[0].generation}
        and generations != {-1}
    )
