"""Lease confirmations of a leader, with and without a broker."""

from hypothesis import given
from hypothesis import strategies as st

from cooperator.leader.lease_confirmation import Candidates, LastQuestion, may_confirm
from cooperator.model import Epoch

NOW = Epoch(3, 7)
MEMBERS = {"m-0": "lake-0", "m-1": "lake-1", "m-2": "lake-2"}
MARGIN_MS = 5_000


def confirmed(
    asked: dict[str, LastQuestion],
    *,
    member_id: str = "m-0",
    epoch: Epoch = NOW,
    current: Epoch | None = NOW,
    contact_age_ms: int = 60_000,
    absent: tuple[str, ...] = (),
    candidates: Candidates | None = Candidates(frozenset(MEMBERS.values()), 99_000),  # noqa: B008
) -> bool:
    return may_confirm(
        member_id,
        epoch,
        current=current,
        members=MEMBERS,
        absent=absent,
        candidates=candidates,
        asked=asked,
        leader_contact_age_ms=contact_age_ms,
        leader_session_ms=25_000,
        recent_ms=9_000,
        margin_ms=MARGIN_MS,
        now_ms=100_000,
    )


def everyone(at_ms: int = 99_000, epoch: Epoch = NOW) -> dict[str, LastQuestion]:
    return {member_id: LastQuestion(epoch, at_ms) for member_id in MEMBERS}


def test_a_leader_in_touch_with_the_broker_confirms_a_member_of_its_round() -> None:
    assert confirmed({}, contact_age_ms=3_000)


def test_nobody_is_confirmed_in_a_round_or_by_a_leader_that_is_none() -> None:
    assert not confirmed(everyone(), current=None, contact_age_ms=0)


def test_a_stranger_is_not_confirmed() -> None:
    assert not confirmed(everyone(), member_id="m-9", contact_age_ms=0)


def test_a_member_of_another_epoch_is_not_confirmed() -> None:
    assert not confirmed(everyone(), epoch=Epoch(3, 6), contact_age_ms=0)
    assert not confirmed(everyone(), epoch=Epoch(2, 7), contact_age_ms=0)


def test_in_an_outage_all_members_together_are_confirmed() -> None:
    assert confirmed(everyone())


def test_a_member_that_departed_before_and_may_live_can_have_been_elected_elsewhere() -> None:
    assert not confirmed(everyone(), absent=("lake-3",))
    assert confirmed(everyone(), absent=("lake-3",), contact_age_ms=3_000), (
        "the broker has elected nobody else"
    )


def test_a_pod_that_is_not_in_the_round_can_have_been_elected_elsewhere() -> None:
    """It need not have been a member ever: it reads the memory of the group, and gives away what it finds."""
    newcomer = Candidates(frozenset((*MEMBERS.values(), "lake-3")), 99_000)
    assert not confirmed(everyone(), candidates=newcomer)
    assert confirmed(everyone(), candidates=newcomer, contact_age_ms=3_000)


def test_the_next_incarnation_of_a_member_that_has_ended_is_such_a_pod() -> None:
    """The member's end is proven, so that it is none of those who must ask."""
    living = {member_id: identity for member_id, identity in MEMBERS.items() if member_id != "m-2"}
    asked = {member_id: LastQuestion(NOW, 99_000) for member_id in living}
    said = {"current": NOW, "members": living, "absent": (), "asked": asked, "margin_ms": MARGIN_MS}
    times = {"leader_contact_age_ms": 60_000, "leader_session_ms": 25_000, "recent_ms": 9_000}
    for there, expected in ((frozenset(living.values()), True), (frozenset(MEMBERS.values()), False)):
        candidates = Candidates(there, 99_000)
        assert may_confirm("m-0", NOW, candidates=candidates, now_ms=100_000, **said, **times) is expected


def test_who_may_join_has_to_be_known_and_to_be_news() -> None:
    everybody = frozenset(MEMBERS.values())
    assert not confirmed(everyone(), candidates=None), "a leader without a platform cannot know"
    assert confirmed(everyone(), candidates=Candidates(everybody, 100_000 - MARGIN_MS))
    assert not confirmed(everyone(), candidates=Candidates(everybody, 100_000 - MARGIN_MS - 1))


@given(
    silent=st.sampled_from(sorted(MEMBERS)),
    how=st.sampled_from(["never asked", "asked long ago", "asks from a newer epoch"]),
)
def test_in_an_outage_one_member_that_may_be_elsewhere_is_enough_to_refuse(silent: str, how: str) -> None:
    asked = everyone()
    if how == "never asked":
        del asked[silent]
    elif how == "asked long ago":
        asked[silent] = LastQuestion(NOW, 90_999)
    else:
        asked[silent] = LastQuestion(Epoch(3, 8), 99_999)
    assert not confirmed(asked)
