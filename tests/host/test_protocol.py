"""A Worker's status shows its group's protocol, its epochs and the members' states."""

from typing import Any

from cooperator.crd import Worker, WorkerStatus, parse
from cooperator.host.status import WorkerFacts, worker_status
from cooperator.leader.observability.projection import project
from cooperator.model import Desired, DesiredConnector, StateReplicas
from tests.harness.reconciling_group import ReconcilingGroup, reconciled_group


def status_of(group: ReconcilingGroup, spec: str = "{protocol: auto}", **more: Any) -> WorkerStatus:
    (worker,) = parse(
        "apiVersion: cooperator.dev/v1alpha1\nkind: Worker\nmetadata: {name: lake}\nspec: " + spec, "test"
    )
    assert isinstance(worker, Worker)
    machine = group.machine
    leader = project(machine.state, group.statuses)
    leader |= {"why_in_rounds": machine.why_in_rounds(group.now_ms), **more}
    return worker_status(worker, WorkerFacts(leader=leader), group.now_ms)


def protocol_of(group: ReconcilingGroup, spec: str = "{protocol: auto}") -> tuple[str, str]:
    protocol = status_of(group, spec).protocol
    assert protocol is not None
    return protocol.name, protocol.reason


def test_a_group_without_rounds_shows_its_epochs_and_where_each_member_is() -> None:
    group = reconciled_group()
    group.join("lake-3")
    group.round()
    group.advance(100)
    [giver] = [m for m in group.members.values() if m.stopping]
    status = status_of(group)
    known = group.machine.state.group
    assert known is not None
    assert status.protocol is not None
    assert (status.protocol.name, status.protocol.reason) == ("reconciled", "")
    assert (status.protocol.group_epoch, status.protocol.assignment_epoch) == (
        known.epoch,
        known.assignment_epoch,
    )
    members = {each.identity: each for each in status.members}
    releasing, joined = members[giver.identity], members["lake-3"]
    assert (releasing.state, joined.state) == ("UNREVOKED_TASKS", "UNRELEASED_TASKS")
    assert releasing.epoch is not None
    assert releasing.target_epoch is not None
    assert releasing.epoch < releasing.target_epoch, "it has not released what it is to give"
    assert joined.epoch == joined.target_epoch == known.assignment_epoch

    group.release(giver.identity)
    group.settle()
    assert {each.state for each in status_of(group).members} == {"STABLE"}


def test_in_rounds_the_reason_is_named() -> None:
    group = reconciled_group()
    group.older = {"lake-9"}
    group.join("lake-9")
    group.round()
    group.settle()
    assert protocol_of(group) == ("sessioned", "lake-9 offers rounds only")
    assert {(m.state, m.epoch, m.target_epoch) for m in status_of(group).members} == {("", None, None)}
    assert protocol_of(group, "{protocol: sessioned}") == ("sessioned", "protocol: sessioned")
    assert protocol_of(group, "{policy: Kip415}") == ("sessioned", "policy: Kip415 is defined in rounds")

    group.die("lake-9")
    group.round()
    assert protocol_of(group)[0] == "sessioned"
    assert "lake-9" not in protocol_of(group)[1]


def test_tasks_with_state_keep_the_group_in_rounds_and_their_connector_is_named() -> None:
    group = reconciled_group()
    config = {"connector.class": "noop", "tasks.max": "6", **StateReplicas().settings()}
    group.want(Desired(2, {"a": DesiredConnector(config)}))
    group.advance(1_000)
    group.settle()
    assert protocol_of(group) == ("sessioned", "tasks with state learn in rounds: a has stateReplicas")


def test_nothing_is_shown_that_may_be_out_of_date() -> None:
    group = reconciled_group()
    for more in ({"stale": True}, {"reading_statuses": True}, {"leading": False}):
        status = status_of(group, **more)
        assert status.protocol is None, more
    assert {(m.state, m.epoch) for m in status_of(group, stale=True).members} == {("", None)}
    group.lose_lead()
    assert status_of(group).protocol is None
