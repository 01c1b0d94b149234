"""Whole members and a whole leader that reconcile over HTTP, around a broker that is in memory."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from cooperator.group import JoinedMember, Round
from cooperator.leader import events as ev
from cooperator.leader.endpoint import Endpoint
from cooperator.leader.leader_thread import LeaderThread
from cooperator.leader.machine import LeaderMachine
from cooperator.leader.routes import LeaderRoutes
from cooperator.leader.state import LeaderSettings
from cooperator.logs import Logs, MemoryBroker, MemoryTransport, ensure_topics_of
from cooperator.model import Desired, DesiredConnector, Policy
from cooperator.wire import AgentReport, Metadata, Protocol, Role, encode_metadata
from tests.agent.surroundings import LocalMember
from tests.harness.support import eventually

PROTOCOLS = (Protocol.RECONCILED, Protocol.SESSIONED)


class Times:
    session_timeout_ms = 10_000
    heartbeat_interval_ms = 3_000


class Reconciling:
    """A group whose rounds are held by the test. ``asked``: the leader's requests for them."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.transport = MemoryTransport(MemoryBroker())
        self.members: list[LocalMember] = []
        self.asked: list[str] = []
        self.generation = 0
        self.protocol = ""
        self.endpoint = Endpoint("127.0.0.1", 0, {})
        self.routes = LeaderRoutes(lambda: (self.lead, self.logs), lambda: 0, Times())
        self.endpoint = Endpoint("127.0.0.1", 0, self.routes.all())
        self.endpoint.start()

    def rejoin(self, reason: str) -> None:
        self.asked.append(reason)

    def evict(self, member_ids: Sequence[str]) -> None:
        raise AssertionError(f"nobody has ended: {member_ids}")

    def begin(self, count: int) -> None:
        first = self.member()
        ensure_topics_of(self.transport, first.logs_config.topic_names, 1, 5_000)
        self.logs = Logs(self.transport, first.logs_config)
        policy = Policy(reconciles=True, join_wait_ms=0)
        machine = LeaderMachine(LeaderSettings(self.endpoint.url), policy)
        self.lead = LeaderThread(machine, self, self.logs)
        self.lead.start()
        self.lead.plan(self._round(())).result(10)
        self.lead.submit(ev.Delivered(self.generation))
        for _ in range(count - 1):
            self.member()
        for member in self.members:
            member.start()
        self.round()

    def member(self) -> LocalMember:
        number = len(self.members)
        home = self.directory / f"w-{number}"
        member = LocalMember(home, identity=f"lake-{number}")
        self.members.append(member)
        member.logs = Logs(self.transport, member.logs_config)
        return member

    def desire(self, **tasks: int) -> None:
        journal = str(self.directory / "journal.jsonl")
        connectors = {
            name: DesiredConnector(
                {"connector.class": "noop", "tasks.max": str(n), "units": str(n), "journal": journal}
            )
            for name, n in tasks.items()
        }
        self.lead.submit(ev.DesiredChanged(Desired(1, connectors)))

    def round(self) -> None:
        """All members join again, and the broker chooses what all offer."""
        self.asked.clear()
        joining = [(member, dict(member.group.listener.protocols())) for member in self.members]
        offers = [set(said) for _, said in joining]
        if not self.lead.offers_reconciliation:
            offers.append({"sessioned"})
        protocol = next(p.value for p in PROTOCOLS if all(p.value in said for said in offers))
        joined = tuple(
            JoinedMember(f"m-{number}", None, said[protocol]) for number, (_, said) in enumerate(joining)
        )
        assignments = self.lead.plan(self._round(joined, protocol)).result(10)
        for number, (member, _) in enumerate(joining):
            member.deliver(self.generation, f"m-{number}", protocol, assignments[f"m-{number}"])
        self.lead.submit(ev.Delivered(self.generation))
        self.protocol = protocol

    def _round(self, joined: tuple[JoinedMember, ...], protocol: str = "sessioned") -> Round:
        self.generation += 1
        me = AgentReport(Role.LEADER, "operator", "operator")
        metadata = encode_metadata(Metadata(self.endpoint.url, -1, None, me), Protocol(protocol))
        return Round(
            self.generation, protocol, "operator", (JoinedMember("operator", "o", metadata), *joined)
        )

    def running(self) -> dict[str, str]:
        return {
            task: member.agent.options.identity
            for member in self.members
            for task, phase in ((str(t), p) for t, p in member.agent._supervisor.phases().items())
            if phase == "RUNNING"
        }

    def close(self) -> None:
        for member in self.members:
            member.stop()
        self.lead.stop()
        self.endpoint.stop()


@pytest.fixture
def group(tmp_path: Path) -> Iterator[Reconciling]:
    group = Reconciling(tmp_path)
    yield group
    group.close()


def tasks(**counts: int) -> set[str]:
    return set(counts) | {f"{c}-{n}" for c, count in counts.items() for n in range(count)}


def test_members_leave_rounds_start_tasks_and_give_some_to_one_that_joins(group: Reconciling) -> None:
    group.begin(2)
    eventually(lambda: group.asked, 10, "the leader asks to leave rounds")
    group.round()
    assert group.protocol == "reconciled"
    group.desire(a=4)
    eventually(lambda: group.running().keys() == tasks(a=4), 20)
    before = group.running()
    assert set(before.values()) == {"lake-0", "lake-1"}

    group.desire(a=4, b=2)
    eventually(lambda: group.running().keys() == tasks(a=4, b=2), 20)
    assert group.generation == 3, "no round was needed"
    assert group.asked == []

    group.member().start()
    group.round()
    eventually(lambda: list(group.running().values()).count("lake-2") >= 2, 20, "it has what others gave")
    eventually(lambda: group.running().keys() == tasks(a=4, b=2), 20)
    assert group.generation == 4


def test_members_offer_rounds_only_once_the_policy_asks_for_them(group: Reconciling) -> None:
    group.begin(1)
    [member] = group.members

    def first() -> str:
        return str(member.group.listener.protocols()[0][0])

    assert first() == "reconciled"
    group.lead.submit(ev.PolicyChanged(Policy(join_wait_ms=0)))
    eventually(lambda: first() == "sessioned", 10)
