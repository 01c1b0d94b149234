"""When an incarnation that is missing is over, as far as what it was given goes."""

from cooperator.leader.starts import lease_end_ms
from cooperator.model import Hold, Memory, Policy, TaskId, Unstopped

TASKS = frozenset({TaskId("a", 0)})
INCARNATION = ("lake-1", "incarnation-1")
POLICY = Policy(lease_ms=40_000, lease_margin_ms=5_000)


def held(*unstopped: Unstopped) -> Memory:
    hold = Hold(TASKS, since_ms=100_000, deadline_ms=400_000, incarnation="incarnation-1")
    return Memory(holds={"lake-1": hold}, unstopped=unstopped)


def test_its_lease_and_margin_count_from_when_it_was_found_missing() -> None:
    assert lease_end_ms(INCARNATION, held(Unstopped(*INCARNATION, TASKS, 100_000)), POLICY) == 145_000


def test_not_from_its_first_absence_when_a_round_without_a_plan_may_have_renewed_its_lease() -> None:
    assert lease_end_ms(INCARNATION, held(Unstopped(*INCARNATION, TASKS, 140_000)), POLICY) == 185_000
    assert lease_end_ms(INCARNATION, held(Unstopped(*INCARNATION, TASKS, None)), POLICY) is None


def test_it_is_over_when_nothing_may_run_there_any_more() -> None:
    other = Unstopped("lake-1", "incarnation-2", TASKS, 500_000)
    assert lease_end_ms(INCARNATION, held(other), POLICY) == 0


def test_nothing_is_known_of_an_incarnation_without_a_hold() -> None:
    assert lease_end_ms(INCARNATION, Memory(), POLICY) is None
    assert lease_end_ms(("lake-1", "incarnation-2"), held(), POLICY) is None
