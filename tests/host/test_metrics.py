"""Metrics of a group's protocol, under the names that Kafka has for its new groups."""

from typing import Any

from prometheus_client import CollectorRegistry

from cooperator.host.metrics import WorkerMetrics
from cooperator.leader.observability.projection import project
from tests.harness.reconciling_group import ReconcilingGroup, reconciled_group

LAKE = {"namespace": "default", "worker": "lake"}
PREFIX = "cooperator_worker_"


class Scraped:
    """The samples that a page shows of one group."""

    def __init__(self, group: ReconcilingGroup, **more: Any) -> None:
        status = {**project(group.machine.state, group.statuses), "settled": False, **more}
        self._registry = CollectorRegistry()
        self._registry.register(_Page({("default", "lake"): status}))

    def value(self, name: str, **labels: str) -> float | None:
        return self._registry.get_sample_value(f"{PREFIX}{name}", {**LAKE, **labels})


class _Page:
    def __init__(self, statuses: dict[tuple[str, str], dict[str, Any]]) -> None:
        self._metrics = WorkerMetrics(lambda: statuses)

    def collect(self) -> Any:
        return self._metrics.collect()


def test_a_group_without_rounds_has_states_and_epochs() -> None:
    group = reconciled_group()
    group.join("lake-3")
    group.round()
    group.advance(100)
    known = group.machine.state.group
    assert known is not None
    seen = Scraped(group)
    assert seen.value("group_count", protocol="reconciled") == 1
    assert seen.value("reconciled_group_count", state="Reconciling") == 1
    assert seen.value("reconciled_group_count", state="Stable") == 0
    counts = {
        state: seen.value("reconciled_members", state=state)
        for state in ("STABLE", "UNREVOKED_TASKS", "UNRELEASED_TASKS")
    }
    assert counts == {"STABLE": 2, "UNREVOKED_TASKS": 1, "UNRELEASED_TASKS": 1}
    assert seen.value("group_epoch") == known.epoch
    assert seen.value("assignment_epoch") == known.assignment_epoch

    group.settle()
    assert Scraped(group).value("reconciled_group_count", state="Stable") == 1


def test_a_group_in_rounds_has_its_protocol_alone() -> None:
    group = reconciled_group()
    group.older = {"lake-9"}
    group.join("lake-9")
    group.round()
    seen = Scraped(group)
    assert seen.value("group_count", protocol="sessioned") == 1
    assert seen.value("group_count", protocol="reconciled") is None
    assert seen.value("reconciled_group_count", state="Stable") is None
    assert seen.value("group_epoch") is None


def test_nothing_is_shown_that_may_be_out_of_date() -> None:
    seen = Scraped(reconciled_group(), stale=True)
    assert seen.value("group_count", protocol="reconciled") is None
    assert seen.value("group_epoch") is None


def test_changes_without_rounds_count_as_rebalances() -> None:
    group = reconciled_group()
    before = Scraped(group)
    generation = group.generation
    group.desire(a=6, b=1)
    group.settle()
    assert group.generation == generation
    after = Scraped(group)
    grown = [
        name
        for name in group.machine.state.history.reasons
        if (after.value("rebalances_total", reason=name) or 0)
        > (before.value("rebalances_total", reason=name) or 0)
    ]
    assert grown
