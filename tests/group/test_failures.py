"""Retry delays and messages of failures."""

from hypothesis import given
from hypothesis import strategies as st
from kafka import errors

from cooperator.group import GroupConfig
from cooperator.group.failures import (
    LeadNotTaken,
    delay_ms,
    explain,
    is_everyday,
    is_worth_saying,
    waiting,
)
from cooperator.wire import Role

CONFIG = GroupConfig("localhost:9092", "lake", "lake-0", Role.WORKER)
EVERYDAY = [
    errors.MemberIdRequiredError(),
    errors.RebalanceInProgressError(),
    errors.UnknownMemberIdError(),
    errors.IllegalGenerationError(),
]
OTHERS = [
    errors.KafkaConnectionError("refused"),
    errors.CoordinatorNotAvailableError(),
    errors.GroupAuthorizationFailedError("lake"),
    LeadNotTaken("another leads"),
    LeadNotTaken("theirs", refused=True),
    ValueError("of any kind"),
]
SPREADS = st.floats(0, 1, exclude_max=True)


@given(st.sampled_from(EVERYDAY), SPREADS)
def test_errors_that_belong_to_the_protocol_are_retried_at_once_and_not_reported(
    error: Exception, spread: float
) -> None:
    assert [delay_ms(error, attempt, spread) for attempt in (1, 2, 3)] == [0, 0, 0]
    assert is_everyday(error)
    assert not is_worth_saying(error, 3600)


@given(st.sampled_from(EVERYDAY + OTHERS), st.integers(4, 10_000), SPREADS)
def test_every_failure_is_eventually_retried_with_bounded_delays(
    error: Exception, attempts: int, spread: float
) -> None:
    assert 50 < delay_ms(error, attempts, spread) <= 10_000


@given(st.sampled_from(OTHERS), st.integers(1, 50), SPREADS)
def test_delays_grow_and_a_broker_that_is_back_is_noticed_within_a_second(
    error: Exception, attempts: int, spread: float
) -> None:
    assert delay_ms(error, attempts, spread) <= delay_ms(error, attempts + 1, spread)
    if isinstance(error, errors.KafkaConnectionError | errors.CoordinatorNotAvailableError):
        assert delay_ms(error, attempts, spread) <= 1_000


def test_a_moving_coordinator_is_reported_only_if_it_lasts() -> None:
    assert not is_worth_saying(errors.NotCoordinatorError(), 0.5)
    assert is_worth_saying(errors.NotCoordinatorError(), 5)
    assert is_worth_saying(errors.GroupAuthorizationFailedError("lake"), 0)


def test_messages_name_the_group_and_the_remedy() -> None:
    assert "group 'lake'" in explain(errors.GroupMaxSizeReachedError("lake"), CONFIG)
    assert "group.max.size" in explain(errors.GroupMaxSizeReachedError("lake"), CONFIG)
    assert "10000 ms" in explain(errors.InvalidSessionTimeoutError(), CONFIG)
    assert explain(LeadNotTaken("another leads"), CONFIG) == "group 'lake': another leads"
    assert explain(ValueError(), CONFIG) == "group 'lake': ValueError"


def test_a_refusal_does_not_blame_the_broker() -> None:
    assert waiting("the lead", 4.9, "", CONFIG) == ""
    assert waiting("the lead", 4.9, "theirs", CONFIG) == ""
    assert "the lead for more than 5 s (brokers: localhost:9092)" in waiting("the lead", 5.1, "", CONFIG)
    said = waiting("the lead", 5.1, "two workers have one name: rename one", CONFIG)
    assert said == "group 'lake': the lead is not taken: two workers have one name: rename one"
