"""Deleting a connector takes a word: of its resource, or of who starts the leader. Else it runs on."""

import logging
from collections.abc import Mapping, Sequence
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cooperator.leader import events as ev
from cooperator.leader.actuator import Actuator
from cooperator.leader.reconcile import connector_records, deleted_connectors
from cooperator.leader.state import LeaderSettings
from cooperator.logs import LogUnavailable
from cooperator.model import ClusterConfig, Desired, DesiredConnector
from cooperator.wire import ConnectorRecord
from tests.harness.fake_group import FakeGroup

CONFIG = {"connector.class": "noop"}


def connector(orphan: bool = False) -> DesiredConnector:
    return DesiredConnector(CONFIG, orphan=orphan)


def group(owns_config: bool, before: FakeGroup | None = None) -> FakeGroup:
    """A leader; after ``before``: of the next process, which knows the logs alone."""
    found = FakeGroup(leading=False, owns_config=owns_config)
    if before is not None:
        found.saved, found.fold, found.offset = before.saved, before.fold, before.offset
        found.generation = before.generation
    found.take_lead()
    found.round()
    return found


def configured(fake: FakeGroup) -> set[str]:
    return set(fake.fold.snapshot().connectors)


@pytest.mark.parametrize("owns_config", [True, False])
def test_a_connector_removed_from_a_file_runs_until_it_is_pruned(owns_config: bool) -> None:
    first = group(owns_config)
    first.want(Desired(1, {"a": connector(), "b": connector()}, prune=False))
    assert configured(first) == {"a", "b"}
    for _ in range(2):
        first = group(owns_config, first)
        first.want(Desired(1, {"a": connector()}, prune=False))
        first.advance(60_000)
        assert configured(first) == {"a", "b"}
    last = group(owns_config, first)
    last.want(Desired(1, {"a": connector()}))
    assert configured(last) == {"a"}


@pytest.mark.parametrize("owns_config", [True, False])
def test_an_orphan_runs_on_over_all_leaders_until_it_is_taken_up_again(owns_config: bool) -> None:
    first = group(owns_config)
    first.want(Desired(1, {"a": connector(orphan=True)}))
    first.want(Desired(2))
    first.advance(60_000)
    second = group(owns_config, first)
    second.want(Desired(3))
    second.advance(60_000)
    assert configured(second) == {"a"}
    second.want(Desired(4, {"a": connector()}))
    second.want(Desired(5))
    assert configured(second) == set()


def test_whether_it_goes_is_durable_before_it_is_written() -> None:
    """The leader ends between the two: the next one deletes what it finds gone."""
    first = group(owns_config=False)
    first.want(Desired(1, {"a": connector()}))
    assert first.saved.managed == ("a",), "no round was held"
    first.want(Desired(2, {"a": connector(orphan=True)}))
    assert (first.saved.managed, first.saved.orphans) == ((), ("a",))
    second = group(False, first)
    second.want(Desired(3))
    assert configured(second) == {"a"}


def test_a_save_that_failed_is_made_good_before_anything_is_written() -> None:
    first = group(owns_config=False)
    first.save_fails = True
    first.want(Desired(1, {"a": connector()}))
    first.save_fails = False
    first.advance(10_000)
    assert first.saved.managed == ("a",)


def test_the_resource_that_is_being_deleted_has_the_last_word() -> None:
    """It may have been changed and deleted between two looks."""
    for orphan in (True, False):
        fake = group(owns_config=False)
        fake.want(Desired(1, {"a": connector(orphan=not orphan)}))
        fake.want(Desired(2, ending={"a": orphan}))
        assert (configured(fake) == {"a"}) is orphan
        assert list(fake.machine.state.orphans) == (["a"] if orphan else [])


def test_unreadable_connectors_are_not_deleted() -> None:
    fake = group(owns_config=True)
    fake.want(Desired(1, {"a": connector(), "b": connector()}))
    fake.want(Desired(2, {"b": connector()}, kept=frozenset({"a"})))
    assert configured(fake) == {"a", "b"}


@pytest.mark.parametrize("fails", [False, True])
def test_the_log_names_what_is_deleted_before_the_deletion_is_written(
    fails: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """If the process dies in between, its log shows which connectors may be gone."""
    caplog.set_level(logging.WARNING)
    logged_at_write: list[list[str]] = []

    def write(records: Sequence[object]) -> int:
        logged_at_write.append(caplog.messages.copy())
        if fails:
            raise LogUnavailable("the broker is away")
        return 7

    logs = Mock(writer=Mock(write_config=write))
    actuator = Actuator(LeaderSettings("http://leader/"), Mock(), logs, Mock(), Mock(), lambda: False, Mock())
    actuator.begin()
    known = group(owns_config=True)
    known.want(Desired(1, {"My B": connector(), "a": connector()}))
    records = connector_records(Desired(2), known.fold.snapshot(), owns_config=True)
    try:
        actuator.carry_out(ev.WriteConfig(records, "a test"))
    except LogUnavailable:
        assert fails
    assert logged_at_write == [["deleting connectors that are no longer desired: My B, a"]]


Wish = st.sampled_from(["Delete", "Orphan", "gone", "restart", "no prune"])


@given(st.booleans(), st.lists(Wish, max_size=12))
def test_only_a_connector_last_asked_to_go_with_its_resource_is_deleted(
    owns_config: bool, wishes: list[str]
) -> None:
    fake, last = group(owns_config), ""
    for number, wish in enumerate(wishes):
        if wish == "restart":
            fake = group(owns_config, fake)
            continue
        wanted: Mapping[str, DesiredConnector] = {}
        if wish in ("Delete", "Orphan"):
            wanted, last = {"a": connector(orphan=wish == "Orphan")}, wish
        was_there = "a" in configured(fake)
        fake.want(Desired(number, wanted, prune=wish != "no prune"))
        fake.advance(5_000)  # A recent write is not repeated at once.
        if wanted:
            assert configured(fake) == {"a"}
        elif wish == "no prune" or last == "Orphan":
            assert ("a" in configured(fake)) is was_there
        else:
            assert configured(fake) == set()


def test_records_name_what_they_delete() -> None:
    config = ClusterConfig(1)
    records = connector_records(Desired(1, {"a": connector()}), config, owns_config=True)
    assert deleted_connectors(records) == ()
    assert deleted_connectors([*records, ConnectorRecord("b", None)]) == ("b",)
