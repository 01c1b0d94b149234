"""Reports about stock workers, fencing for them, and the hand-back of their group."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cooperator.leader import events as ev
from cooperator.leader.observability.projection import project
from cooperator.leader.owners import restart_url
from cooperator.leader.reconcile import task_records
from cooperator.leader.regroup import GATHER_MS, NEW_TASKS
from cooperator.leader.state import LeaderState
from cooperator.leader.stock.fencing import Zombies, overrides, zombies
from cooperator.leader.stock.handback import lacks
from cooperator.leader.stock.members import conditions, holding_down
from cooperator.leader.stock.write_window import SETTLE_MS
from cooperator.model import INSTANCE, ClusterConfig, Desired, DesiredConnector, Member, Policy, TaskId
from cooperator.planner import Workspace, kip415
from cooperator.planner.view import View
from cooperator.wire import (
    CommitRecord,
    ConfigFold,
    ConnectorRecord,
    FencingRecord,
    RestartRecord,
    TaskRecord,
    decode_assignment,
    encode_config,
)
from tests.harness.fake_group import FakeGroup, running_group


def worker(name: str, *owned: TaskId) -> Member:
    return Member(f"{name}-id", name, f"{name}-id", owned, is_agent=False, url=f"http://{name}:8083/")


class TestFencing:
    def log(self, *counts: int | str) -> ClusterConfig:
        """A connector with so many tasks committed in turn; "fenced 2": a fencing of two tasks."""
        fold = ConfigFold()
        records: list[object] = [ConnectorRecord("a", {})]
        for count in counts:
            if isinstance(count, int):
                records += [TaskRecord(TaskId("a", n), {}) for n in range(count)]
                records.append(CommitRecord("a", count))
            else:
                records.append(FencingRecord("a", int(count.split()[1])))
        for offset, record in enumerate(records):
            fold.apply(encode_config(record), offset)  # type: ignore[arg-type]
        return fold.snapshot()

    def test_before_the_first_start_there_is_nobody_to_fence_but_that_is_recorded(self) -> None:
        assert zombies(self.log(3), "a") == Zombies("a", fence=0, tasks=3, generation=1)

    def test_once_recorded_nothing_is_done_until_tasks_are_committed_again(self) -> None:
        assert zombies(self.log(3, "fenced 3"), "a") is None
        assert zombies(self.log(3, "fenced 3", 2), "a") == Zombies("a", fence=3, tasks=2, generation=2)

    def test_one_task_fences_its_own_predecessor(self) -> None:
        assert zombies(self.log(1, "fenced 1", 1), "a") == Zombies("a", fence=0, tasks=1, generation=2)
        assert zombies(self.log(1, "fenced 1", 2), "a") == Zombies("a", fence=1, tasks=2, generation=2)

    def test_producers_are_named_as_stock_workers_name_them(self) -> None:
        assert Zombies("a", 2, 5, 1).transactional_ids("lake") == ("lake-a-0", "lake-a-1")

    def test_a_connectors_own_admin_settings_count(self) -> None:
        config = {"admin.override.bootstrap.servers": "b:1", "producer.override.acks": "all"}
        assert overrides(config) == {"bootstrap.servers": "b:1"}

    def test_new_tasks_that_were_committed_meanwhile_have_to_be_fenced_again(self) -> None:
        group = running_group(is_agent=False)
        generation = group.fold.snapshot().fencings["a"].generation
        assert group.post("a", *(f"v{n}" for n in range(6))) == 204
        assert group.fenced(FencingRecord("a", 6), generation) == ev.PostOutcome.OUTDATED
        assert group.fenced(FencingRecord("a", 6), generation + 1) == ev.PostOutcome.AGAIN, "it is written"
        assert group.fenced(FencingRecord("a", 6), generation + 1) == 204


class TestChanges:
    """Stock workers stop what changes when they read it, and start it anew only after a round."""

    @pytest.mark.parametrize("again", [False, True], ids=["other", "the same"])
    def test_the_round_that_members_need_is_asked_for_at_once_and_once(self, again: bool) -> None:
        group = running_group(is_agent=False)
        configs = [f"u{n}" for n in range(6)]
        group.write(task_records("a", tuple({"units": u if again else f"new {u}"} for u in configs)))
        group.advance(GATHER_MS)
        assert group.rejoins == [NEW_TASKS]
        group.round()
        assert not group.asks_for_round()

    def test_a_commit_after_members_have_joined_has_a_round_as_soon_as_that_one_is_over(self) -> None:
        """They stop what it changes when they read it: it ran nowhere until a heartbeat made a round."""
        group = running_group(is_agent=False)
        group.write(task_records("a", tuple({"units": f"new u{n}"} for n in range(6))))
        group.advance(GATHER_MS)
        assert group.rejoins == [NEW_TASKS]
        group.read_to = group.offset
        group.write(task_records("a", tuple({"units": f"newer u{n}"} for n in range(6))))
        group.round()
        assert group.rejoins == [NEW_TASKS], "members had not read it when they joined"
        group.read_to = None
        group.round()
        assert not group.asks_for_round()

    def test_a_member_that_never_reads_a_commit_costs_one_more_round_and_no_more(self) -> None:
        group = running_group(is_agent=False)
        group.read_to = group.offset
        group.write(task_records("a", tuple({"units": f"new u{n}"} for n in range(6))))
        group.round()
        group.round()
        assert not group.asks_for_round()

    def test_agents_need_none_for_what_they_run_unchanged(self) -> None:
        group = running_group()
        group.write(task_records("a", tuple({"units": f"u{n}"} for n in range(6))))
        assert not group.asks_for_round()

    @pytest.mark.parametrize("is_agent", [False, True])
    def test_a_connector_changed_by_a_take_over_is_written_without_its_old_tasks(
        self, is_agent: bool
    ) -> None:
        """Nobody is back when it is written: their kind is known from before."""
        group = running_group(is_agent=is_agent)
        evicted = [member.report() for member in group.members.values()]
        group.members.clear()
        group.take_lead(*evicted)
        group.written.clear()
        group.desire(a=7)
        group.round()
        group.advance(SETTLE_MS)
        assert group.written[0] == "connector-a"
        assert ("commit-a" in group.written) is is_agent, "agents do not compute the same ones anew"


class TestProtocols:
    def test_a_later_joiner_is_named_as_the_reason_for_an_older_protocol(self) -> None:
        members = (worker("w"), worker("v"), worker("new"))
        named = holding_down("default", "sessioned", {"w-id", "v-id"}, (), members)
        assert named == ("new",)
        assert holding_down("default", "default", {m.member_id for m in members}, named, members) == named

    def test_from_the_beginning_it_may_be_any_of_them(self) -> None:
        assert holding_down("compatible", "", (), (), (worker("w"), worker("v"))) == ("v", "w")

    def test_agents_speak_the_newest(self) -> None:
        assert holding_down("default", "", (), (), (Member("m", "ours", "1"), worker("w"))) == ("w",)

    def test_that_is_over_with_the_protocol(self) -> None:
        assert holding_down("sessioned", "default", (), ("w",), (worker("w"),)) == ()

    def test_in_a_group_that_is_eager_all_is_dealt_anew_and_nothing_is_asked_for_without_end(self) -> None:
        group = FakeGroup()
        for name in ("w", "v"):
            group.join(name, is_agent=False)
        group.protocol = "default"
        group.round()
        group.desire(a=4)
        group.settle()
        assert not group.asks_for_round()
        assert condition(group, "EagerProtocol")[0]
        assert condition(group, "UnsignedRequests")[0]


def test_in_the_first_eager_round_everybody_keeps_what_it_runs_and_in_the_second_all_is_dealt() -> None:
    """It has stopped nothing before the first one, and its report has no room for its tasks."""
    group = running_group(is_agent=False)
    group.protocol = "default"
    runs = [(member, set(member.running)) for member in group.members.values()]
    for member, _ in runs:
        member.running.clear()  # As it reports it.
    newcomer = group.join("eager", is_agent=False)
    group.round()
    assert all(member.running == ran for member, ran in runs), "it is told what it has, to stop it next"
    assert newcomer.running == set()
    assert group.asks_for_round()
    for member in group.members.values():
        member.running.clear()
    group.round()
    assert newcomer.running
    assert len(group.all_running()) == 7
    assert not group.asks_for_round()


def test_in_the_eager_protocol_a_stock_worker_is_sent_nothing_that_it_would_misread() -> None:
    """It reads what comes behind as it would in a later version: as what it has to let go of."""
    group = FakeGroup()
    group.join("w", is_agent=False)
    group.join("ours")
    group.protocol = "default"
    group.round()
    assert group.answers is not None
    for data in group.answers.values():
        as_later = b"\x00\x02" + data[2:]
        assert decode_assignment(as_later).revoked == ()


def condition(group: FakeGroup, type_: str) -> tuple[bool, str]:
    incarnations = {
        name: (status, message) for name, status, _, message in conditions(project(group.machine.state, {}))
    }
    return incarnations[type_]


def test_a_group_of_agents_has_none_of_these_conditions() -> None:
    assert list(conditions(project(running_group().machine.state, {}))) == []


def test_an_unproven_departure_is_named_once_its_hold_ends() -> None:
    group = running_group(Policy(scheduled_rebalance_max_delay_ms=10_000), is_agent=False)
    group.die("lake-1", proven=False)
    group.round()
    group.advance(9_000)
    assert not condition(group, "Unfenced")[0]
    group.advance(1_000)
    status, message = condition(group, "Unfenced")
    assert status
    assert "lake-1" in message
    group.join("lake-1", is_agent=False)
    group.round()
    assert not condition(group, "Unfenced")[0]
    assert len(group.all_running()) == 7, "it is back, and gets its own"


class TestSingleRestarts:
    def test_the_owner_is_asked(self) -> None:
        members = (worker("w", TaskId("a b", INSTANCE), TaskId("a b", 3)),)
        state = LeaderState(leading=True, members=members)
        incarnations = restart_url(state, RestartRecord("a b", task=3))
        assert incarnations == "http://w:8083/connectors/a%20b/tasks/3/restart?forward=false"
        assert (
            restart_url(state, RestartRecord("a b")) == "http://w:8083/connectors/a%20b/restart?forward=false"
        )

    @pytest.mark.parametrize(
        "record", [RestartRecord("a", True), RestartRecord("a", only_failed=True), RestartRecord("a", task=1)]
    )
    def test_a_restart_of_several_or_of_unassigned_items_writes_a_record(self, record: RestartRecord) -> None:
        members = (worker("w", TaskId("a", INSTANCE), TaskId("a", 0)),)
        assert restart_url(LeaderState(leading=True, members=members), record) is None


def layouts() -> st.SearchStrategy[tuple[int, dict[str, int], dict[str, float]]]:
    names = st.sampled_from("abcde")
    return st.tuples(
        st.integers(1, 5),
        st.dictionaries(names, st.integers(0, 7), min_size=1),
        st.dictionaries(names, st.sampled_from([0.5, 3.0, 8.0])),
    )


class TestHandBack:
    @given(layouts())
    def test_a_java_leader_finds_nothing_to_move(
        self, layout: tuple[int, dict[str, int], dict[str, float]]
    ) -> None:
        count, tasks, weights = layout
        group = FakeGroup(Policy(assignor="Weighted"))
        for number in range(count):
            group.join(f"w{number}", is_agent=False)
        group.round()
        connectors = {
            name: DesiredConnector(
                {"connector.class": "x", "tasks.max": str(n)}, weight=weights.get(name, 1.0)
            )
            for name, n in tasks.items()
        }
        group._do(ev.DesiredChanged(Desired(1, connectors)))
        group.settle()
        for name, n in tasks.items():
            group.post(name, *(f"u{i}" for i in range(n)))
            group.settle()
        group._do(ev.HandBack())
        group.settle()
        state = group.machine.state
        assert group.machine.lacks_for_hand_back(group.now_ms) == ""
        assert lacks(state.members, tasks) == ""
        view = View(
            now_ms=group.now_ms,
            generation=group.generation + 1,
            members=tuple(m.report() for m in group.members.values()),
            tasks=tasks,
            leader_id=next(iter(group.members)),
        )
        plan, _ = kip415.plan(view, group.saved, Workspace())
        assert all(assignment.is_empty for assignment in plan.assignments.values())

    def test_the_cause_of_an_uneven_layout_is_named(self) -> None:
        a = [TaskId("a", n) for n in range(-1, 3)]
        assert "a-2 is run by 0 workers" in lacks((worker("w", *a[:2]), worker("v", *a[2:3])), {"a": 3})
        assert "workers have 0 to 3 tasks" in lacks((worker("w", *a), worker("v")), {"a": 3})
