"""Two tasks must not run one unit: what new task configurations wait for."""

from cooperator.model import Fencing, Policy
from cooperator.planner.view import Facts
from tests.harness.fake_group import FakeGroup

LEASE_AND_MARGIN_MS = 45_000


def running_group() -> FakeGroup:
    """lake-0 and lake-1 run one task each; holds are over at once, so that only leases keep anything back."""
    policy = Policy(scheduled_rebalance_max_delay_ms=0, lease_ms=40_000, lease_margin_ms=5_000)
    return with_two_tasks(FakeGroup(policy))


def with_two_tasks(group: FakeGroup, is_agent: bool = True) -> FakeGroup:
    group.desire(a=2)
    for number in range(2):
        group.join(f"lake-{number}", is_agent=is_agent)
    group.round()
    assert group.post("a", "u0,u2", "u1,u3") == 204
    group.settle()
    return group


def lake_1_vanishes_while_both_stop(group: FakeGroup) -> None:
    """Both are told to stop for new configurations. lake-0 has stopped; of lake-1 nobody hears any more."""
    assert group.post("a", "u0,u1", "u2,u3") == 202
    group.advance(1_000)
    group.round()
    cut_off = group.of("lake-1")
    assert cut_off.stopping
    group.die("lake-1", proven=False)
    group.of("lake-0").stopping.clear()


def test_a_member_that_vanishes_while_it_stops_is_waited_for() -> None:
    group = running_group()
    lake_1_vanishes_while_both_stop(group)
    group.round()
    # Its task was taken away, so that nobody holds it for lake-1; but it may run on.
    group.advance(1_000)
    assert group.post("a", "u0,u1", "u2,u3") == 202
    group.advance(LEASE_AND_MARGIN_MS)
    assert group.post("a", "u0,u1", "u2,u3") == 204


def test_a_stock_worker_that_vanishes_is_waited_for_as_long_as_its_hold() -> None:
    """It has no lease: what wakes after having been frozen runs on until it hears of its group."""
    hold_ms = LEASE_AND_MARGIN_MS + 10_000
    policy = Policy(scheduled_rebalance_max_delay_ms=hold_ms, fencing=Fencing.BEST_EFFORT)
    group = with_two_tasks(FakeGroup(policy), is_agent=False)
    group.die("lake-1", proven=False)
    group.round()
    post = ("a", "u0", "u1", "u2", "u3")
    assert group.post(*post) == 503
    group.advance(LEASE_AND_MARGIN_MS + 1_000)
    assert group.post(*post) == 503
    group.advance(10_000)
    assert group.post(*post) == 204


def test_without_best_effort_it_is_waited_for_until_its_end_is_proven() -> None:
    group = with_two_tasks(FakeGroup(), is_agent=False)
    vanished = group.die("lake-1", proven=False)
    group.round()
    post = ("a", "u0", "u1", "u2", "u3")
    group.advance(3_600_000)
    assert group.post(*post) == 503
    group.facts(Facts(ended=frozenset({("lake-1", vanished.report().incarnation)})))
    assert group.post(*post) == 204


def test_stock_workers_stop_what_changes_themselves() -> None:
    group = with_two_tasks(FakeGroup(), is_agent=False)
    before = {identity: group.runs(identity) for identity in ("lake-0", "lake-1")}
    assert group.post("a", "u0", "u1", "u2", "u3") == 204
    group.settle()
    assert all(group.runs(identity) >= tasks for identity, tasks in before.items())
    assert group.post("a", "u0", "u1", "u2", "u3") == 204
    assert group.written.count("commit-a") == 2, "the same again is not written again"


def test_a_proof_of_its_end_is_enough() -> None:
    group = running_group()
    group.post("a", "u0,u1", "u2,u3")
    group.advance(1_000)
    group.round()
    group.die("lake-1", proven=True)
    group.of("lake-0").stopping.clear()
    group.round()
    group.advance(1_000)
    assert group.post("a", "u0,u1", "u2,u3") == 204


def test_running_tasks_of_an_earlier_connector_of_that_name_are_awaited() -> None:
    group = running_group()
    group.desire()
    group.round()
    group.advance(3_000)
    group.desire(a=2)
    slow = next(member for member in group.members.values() if member.stopping)
    for member in group.members.values():
        if member is not slow:
            member.stopping.clear()
    group.round()
    assert group.post("a", "u0,u1,u2,u3") == 202
    slow.stopping.clear()
    group.round()
    assert group.post("a", "u0,u1,u2,u3") == 204


def test_a_member_missing_since_an_unplanned_round_is_awaited() -> None:
    group = running_group()
    lake_1_vanishes_while_both_stop(group)
    group.offset += 5  # a member knows more of the config log than the leader: nobody gets anything
    group.round()
    group.advance(100)
    assert group.post("a", "u0,u1", "u2,u3") == 202
