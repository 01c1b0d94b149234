"""A group from outside: what the broker tells of it and what its logs say, put together."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from cooperator.group import DescribedGroup, DescribedMember, GroupState
from cooperator.leader.observability.group_inspector import GroupAddress, NotSeen, compose, with_status
from cooperator.leader.observability.projection import project
from cooperator.logs import LeaderRecords, LogsRead
from cooperator.model import (
    ClusterConfig,
    ConnectorConfig,
    Epoch,
    Hold,
    Member,
    Memory,
    Policy,
    PolicyName,
    StateReplicas,
    TaskId,
)
from cooperator.planner.view import Facts
from cooperator.reconciliation import encode_records
from cooperator.scenarios.snapshot import LedBy, Snapshot
from cooperator.scenarios.what_if import what_if
from cooperator.wire import (
    AgentAssignment,
    AgentReport,
    ExtendedAssignment,
    Metadata,
    Owner,
    Protocol,
    Role,
    encode_assignment,
    encode_metadata,
)
from tests.harness.fake_group import FakeGroup
from tests.harness.reconciling_group import reconciled_group

A, A0, A1, A2 = (TaskId("a", number) for number in range(-1, 3))
WHERE = GroupAddress("kafka:9092", "lake")
CONFIG = ClusterConfig(
    5,
    {
        "a": ConnectorConfig(
            {"connector.class": "noop"}, tasks=({"task.units": "u0,u1"}, {"task.units": "u2"})
        )
    },
)
NOW = 1_700_000_000_000


def assignment(
    leader: str, assigned: Sequence[TaskId] = (), revoked: Sequence[TaskId] = (), error: int = 0
) -> ExtendedAssignment:
    agent = AgentAssignment(Epoch(3, 17), 40_000)
    return ExtendedAssignment(error, leader, "http://leader/", 5, tuple(assigned), tuple(revoked), 0, agent)


def member(
    name: str,
    given: ExtendedAssignment,
    owned: Sequence[TaskId] = (),
    role: Role | None = Role.WORKER,
    client_id: str = "",
    **report: object,
) -> DescribedMember:
    """``role`` None: a stock worker."""
    allocation = ExtendedAssignment(0, "", "", 5, tuple(owned), (), 0, None)
    agent = AgentReport(role, name, f"{name}-incarnation", **report) if role is not None else None  # type: ignore[arg-type]
    if role is None:
        given = given._replace(agent=None)
    return DescribedMember(
        member_id=f"{name}-id",
        group_instance_id=name if role is Role.LEADER else None,
        client_id=client_id or name,
        client_host="/10.0.0.1",
        metadata=encode_metadata(Metadata(f"http://{name}:8083/", 5, allocation, agent), Protocol.SESSIONED),
        assignment=encode_assignment(given, Protocol.SESSIONED),
    )


def seen(
    *members: DescribedMember,
    state: LeaderRecords | None = None,
    config: ClusterConfig | None = CONFIG,
    protocol: str = "sessioned",
) -> Snapshot:
    group = DescribedGroup(GroupState.STABLE, "connect", protocol, members)
    return compose(WHERE, group, LogsRead(config, state), NOW)


def led_by_operator(*, memory: Memory | None = None) -> Snapshot:
    given = assignment("operator-id")
    return seen(
        member("operator", given, role=Role.LEADER),
        member("w-0", assignment("operator-id", [A1]), [A, A0]),
        member("w-1", given),
        state=LeaderRecords(policy=Policy(assignor="Uniform"), memory=memory),
    )


def members(snapshot: Snapshot) -> dict[str, Member]:
    return {member.identity: member for member in snapshot.view.members}


def test_the_operator_is_no_worker_and_assigned_tasks_count_as_running() -> None:
    snapshot = led_by_operator()
    assert snapshot.led_by is LedBy.OPERATOR
    assert members(snapshot).keys() == {"w-0", "w-1"}
    assert members(snapshot)["w-0"].owned == (A, A0, A1)
    assert members(snapshot)["w-0"].applied == Epoch(3, 17)
    assert snapshot.view.generation == 17
    assert snapshot.view.policy.assignor == "Uniform"
    assert snapshot.view.tasks == {"a": 2}
    assert (snapshot.units, snapshot.classes) == ({"a": (("u0", "u1"), ("u2",))}, {"a": "noop"})


def test_revoked_tasks_are_reported_as_stopping() -> None:
    snapshot = seen(member("w-0", assignment("w-0-id", revoked=[A0]), [A, A0]))
    assert members(snapshot)["w-0"].owned == (A, A0)
    assert members(snapshot)["w-0"].stopping == {A0}


def test_an_assignment_that_was_an_error_gave_nothing() -> None:
    assert members(seen(member("w-0", assignment("w-0-id", [A1], error=1), [A])))["w-0"].owned == (A,)


def test_an_awaited_member_counts_as_expected() -> None:
    hold = Hold(frozenset({A0}), NOW - 1000, NOW + 60_000, incarnation="w-2-incarnation")
    memory = Memory(3, 16, joins={"w-3": NOW}, holds={"w-2": hold})
    snapshot = led_by_operator(memory=memory)
    assert snapshot.view.facts.expected == {"w-0", "w-1", "w-2", "w-3"}
    assert snapshot.memory == memory
    assert snapshot.view.generation == 17, "a round that changed nothing is in no log"


def test_a_member_of_ours_that_leads_knows_no_facts() -> None:
    given = assignment("w-1-id")
    snapshot = seen(member("w-0", given, [A, A0]), member("w-1", given, [A1]), state=LeaderRecords())
    assert snapshot.led_by is LedBy.MEMBER
    assert snapshot.view.facts == Facts()
    assert snapshot.memory.given == {"w-0": {A, A0}, "w-1": {A1}}
    assert any("no policy" in note for note in snapshot.notes)


def test_stock_workers_are_told_apart_by_their_addresses_where_their_client_ids_are_the_same() -> None:
    given = assignment("w-0-id")
    one = member("w-0", given, [A, A0], role=None, client_id="connect-1")
    other = member("w-1", given, [A1], role=None, client_id="connect-1")
    snapshot = seen(one, other)
    assert snapshot.led_by is LedBy.STOCK
    assert snapshot.view.policy.name is PolicyName.KIP415
    assert snapshot.view.leader_id == "w-0-id"
    assert members(snapshot).keys() == {"connect-1@w-0:8083", "connect-1@w-1:8083"}
    assert any("--max-delay-ms" in note for note in snapshot.notes)
    assert what_if(snapshot).rounds == ()
    assert members(seen(one, replace(other, client_id="mine"))).keys() == {"connect-1", "mine"}


def test_an_eager_group_is_played_by_eager_rules() -> None:
    stock = member("w-0", assignment("w-0-id", [A, A0, A1]), role=None)
    assert seen(stock, protocol="default").view.policy.name is PolicyName.EAGER


def test_an_operators_memory_does_not_apply_to_a_stock_leader() -> None:
    hold = Hold(frozenset({A0}), NOW, NOW + 1, incarnation="gone")
    state = LeaderRecords(policy=Policy(), memory=Memory(3, 1, holds={"gone": hold}))
    snapshot = seen(member("w-0", assignment("w-0-id"), [A, A0, A1], role=None), state=state)
    assert snapshot.memory.holds == {}


def test_an_unreadable_member_is_ignored_and_reported() -> None:
    strange = replace(member("w-1", assignment("w-0-id")), metadata=b"\xff")
    snapshot = seen(member("w-0", assignment("w-0-id"), [A]), strange)
    assert members(snapshot).keys() == {"w-0"}
    assert any("w-1-id cannot be understood" in note for note in snapshot.notes)


def test_the_owner_of_a_stock_group_is_named() -> None:
    stock = member("w-0", assignment("w-0-id"), [A], role=None)
    assert not any("marked" in note for note in seen(stock).notes)
    snapshot = seen(stock, state=LeaderRecords(owner=Owner("blue", "data", "lake")))
    assert snapshot.led_by is LedBy.STOCK
    [with_status] = [note for note in snapshot.notes if "marked" in note]
    assert "Worker data/lake of cluster 'blue'" in with_status
    assert "GroupConflict" in with_status


def test_a_group_without_members_is_said_to_be_so() -> None:
    group = DescribedGroup(GroupState.EMPTY, "connect", "", ())
    snapshot = compose(WHERE, group, LogsRead(CONFIG, None), NOW)
    assert snapshot.view.members == ()
    assert any("nothing runs" in note for note in snapshot.notes)


def test_the_time_in_which_state_is_learned_is_said_to_be_left_out() -> None:
    connectors = {"a": replace(CONFIG.connectors["a"], config=StateReplicas().settings())}
    snapshot = seen(member("w-0", assignment("w-0-id")), config=replace(CONFIG, connectors=connectors))
    assert "tasks of a move when members have learned their state" in snapshot.notes[-1]


def test_without_a_config_topic_the_option_for_it_is_named() -> None:
    with pytest.raises(NotSeen, match=r"lake-configs does not exist: .* --config-topic"):
        seen(member("w-0", assignment("w-0-id"), role=None), config=None)


def test_the_operators_projection_is_merged() -> None:
    fake = FakeGroup()
    fake.join("w-0")
    fake.round()
    fake.desire(a=2)
    fake.settle()
    fake.post("a", "u0", "u1")
    fake.settle()
    facts = Facts(
        expected=frozenset({"w-0", "w-1"}),
        ended=frozenset({("w-1", "before")}),
        cordoned=frozenset({"w-1"}),
        poisoned=frozenset({A1}),
    )
    fake.facts(facts)
    fake.post("a", "u0", "other")
    status = project(fake.machine.state, {})
    snapshot = with_status(led_by_operator(), status)
    assert snapshot.view.facts == facts
    assert snapshot.view.suspended == {A1}
    assert snapshot.view.weights == {}
    assert snapshot.notes == led_by_operator().notes


@pytest.mark.parametrize("status", [{}, {"leading": False, "inputs": {}}])
def test_an_operator_that_does_not_lead_contributes_nothing(status: dict[str, object]) -> None:
    snapshot = with_status(led_by_operator(), status)
    assert snapshot.view == led_by_operator().view
    assert any("does not lead now" in note for note in snapshot.notes)


class TestWithoutRounds:
    def seen(self, records: LeaderRecords) -> Snapshot:
        group = reconciled_group(task_count=3)
        memory = group.saved
        written = encode_records(group.log)
        me = AgentReport(Role.LEADER, "operator", "operator")
        members = [
            DescribedMember(
                f"{each.identity}-uuid",
                None,
                each.identity,
                "/10.0.0.1",
                encode_metadata(
                    Metadata("http://w/", 5, None, AgentReport(Role.WORKER, each.identity, each.incarnation)),
                    Protocol.RECONCILED,
                ),
                encode_assignment(assignment("leader"), Protocol.RECONCILED),
            )
            for each in group.machine.state.members
        ]
        leader = DescribedMember(
            "leader",
            "operator",
            "operator",
            "/10.0.0.1",
            encode_metadata(Metadata("http://leader/", 5, None, me), Protocol.RECONCILED),
            encode_assignment(assignment("leader"), Protocol.RECONCILED),
        )
        described = DescribedGroup(GroupState.STABLE, "connect", "reconciled", (leader, *members))
        logs = LogsRead(group.fold.snapshot(), replace(records, memory=memory, others=written))
        self.running = {each.identity: each.running for each in group.members.values()}
        return compose(WHERE, described, logs, group.now_ms)

    def test_members_run_what_the_leader_log_says(self) -> None:
        snapshot = self.seen(LeaderRecords())
        assert {m.identity: set(m.owned) for m in snapshot.view.members} == self.running
        assert all(self.running.values())
