"""Resources in the planner's terms, refused changes, and conditions."""

import re

import pytest

from cooperator.crd import (
    Condition,
    ConditionStatus,
    Connector,
    ResourceError,
    Worker,
    WorkerStatus,
    compile_desired,
    compile_policy,
    forbidden_changes,
    forbidden_move,
    merge_conditions,
    parse,
    to_manifest,
    worker_found,
)
from cooperator.crd.choices import DEFAULT_PROTOCOL, GroupProtocol
from cooperator.crd.connector_names import named
from cooperator.model import (
    RESERVED,
    AutoRestart,
    DesiredConnector,
    Fencing,
    PolicyName,
    StateReplicas,
    TargetState,
)


def worker(name: str = "lake", spec: str = "{}", namespace: str = "default") -> Worker:
    (made,) = parse(
        "apiVersion: cooperator.dev/v1alpha1\nkind: Worker\n"
        f"metadata: {{name: {name}, namespace: {namespace}}}\nspec: {spec}\n",
        "test",
    )
    assert isinstance(made, Worker)
    return made


def connector(name: str = "sources", spec: str = "", worker: str = "lake") -> Connector:
    (made,) = parse(
        f"apiVersion: cooperator.dev/v1alpha1\nkind: Connector\nmetadata: {{name: {name}}}\n"
        f"spec: {{workerRef: {{name: {worker}}}, class: files-to-kafka{spec}}}\n",
        "test",
    )
    assert isinstance(made, Connector)
    return made


def test_a_connector_becomes_kafka_connects_flat_config() -> None:
    made = connector(spec=", tasksMax: 4, taskWeight: 2, config: {path: ./data, header: true}")

    desired = compile_desired(worker(), [made], revision=7)

    assert desired.revision == 7
    assert desired.connectors == {
        "sources": DesiredConnector(
            config={
                "name": "sources",
                "connector.class": "files-to-kafka",
                "tasks.max": "4",
                "path": "./data",
                "header": "true",
            },
            target=TargetState.STARTED,
            weight=2.0,
        )
    }


def test_automatic_restarts_are_in_the_configuration_unless_they_are_defaults() -> None:
    made = connector(spec=", autoRestart: {enabled: false, maxRestarts: 3, backoffMaxMs: 60000}")

    config = compile_desired(worker(), [made], 1).connectors["sources"].config

    reserved = {name: value for name, value in config.items() if name.startswith(RESERVED)}
    assert reserved == {
        "cooperator.auto.restart.enabled": "false",
        "cooperator.auto.restart.max": "3",
        "cooperator.auto.restart.backoff.max.ms": "60000",
    }
    assert AutoRestart.of(config) == AutoRestart(enabled=False, max_restarts=3, backoff_max_ms=60_000)
    defaults = connector().spec.auto_restart
    assert (defaults.enabled, defaults.max_restarts, defaults.backoff_ms) == (True, 7, 10_000)
    assert (defaults.backoff_max_ms, defaults.reset_after_ms) == (300_000, 600_000)
    assert compile_desired(worker(), [connector()], 1).connectors["sources"].config.keys() == {
        "name",
        "connector.class",
        "tasks.max",
    }


def test_learners_are_in_the_configuration_once_they_are_asked_for() -> None:
    config = (
        compile_desired(worker(), [connector(spec=", stateReplicas: {}")], 1).connectors["sources"].config
    )
    assert StateReplicas.of(config) == StateReplicas()
    made = connector(
        spec=", stateReplicas: {standbys: 1, maxWarmups: 3, acceptableLagBytes: 0, warmupTimeoutMs: 5000}"
    )
    config = compile_desired(worker(), [made], 1).connectors["sources"].config
    assert StateReplicas.of(config) == StateReplicas(1, 3, 0, 5_000)
    assert StateReplicas.of(compile_desired(worker(), [connector()], 1).connectors["sources"].config) is None


def test_workers_that_cannot_learn_refuse_learners() -> None:
    made = connector(spec=", stateReplicas: {}")
    refused = named(worker(spec="{runtime: connect}"), [made]).refused
    assert refused["sources"].startswith("spec.stateReplicas: Worker lake has runtime: connect")


def test_a_departing_member_has_time_left_to_hand_over() -> None:
    assert compile_policy(worker()).depart_warm_ms == 40_000
    assert compile_policy(worker(spec="{drainTimeoutMs: 10000}")).depart_warm_ms == 5_000


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("autoRestart: {maxRestarts: -1}", "spec.autoRestart.maxRestarts is -1, but must be at least 0"),
        ("autoRestart: {backoffMs: 0}", "spec.autoRestart.backoffMs is 0, but must be at least 1000"),
        ("autoRestart: {backoffMss: 5}", "did you mean 'backoffMs'"),
        ("autoRestart: {backoffMs: 400000}", "raise backoffMaxMs to 400000, or lower backoffMs"),
        ("stateReplicas: {maxWarmups: 0}", "spec.stateReplicas.maxWarmups is 0, but must be at least 1"),
        ("stateReplicas: {standby: 1}", "did you mean 'standbys'"),
        ("config: {cooperator.auto.restart.max: 5}", "such as spec.autoRestart: remove it from the config"),
    ],
)
def test_invalid_automatic_restarts_are_refused_with_the_remedy(spec: str, message: str) -> None:
    with pytest.raises(ResourceError, match=re.escape(message)):
        connector(spec=f", {spec}")


@pytest.mark.parametrize(
    ("state", "target"),
    [
        ("Running", TargetState.STARTED),
        ("Paused", TargetState.PAUSED),
        ("Stopped", TargetState.STOPPED),
    ],
)
def test_states(state: str, target: TargetState) -> None:
    desired = compile_desired(worker(), [connector(spec=f", state: {state}")], 1)
    assert desired.connectors["sources"].target is target


def test_a_withheld_connector_is_stopped_whatever_its_state_says() -> None:
    desired = compile_desired(worker(), [connector("a"), connector("b")], 1, withheld={"a"})
    assert {name: made.target for name, made in desired.connectors.items()} == {
        "a": TargetState.STOPPED,
        "b": TargetState.STARTED,
    }


def test_only_the_connectors_of_this_worker_are_compiled() -> None:
    connectors = [connector("mine"), connector("others", worker="pond")]

    assert set(compile_desired(worker(), connectors, 1).connectors) == {"mine"}
    assert compile_desired(worker(namespace="elsewhere"), connectors, 1).connectors == {}


@pytest.mark.parametrize(
    ("spec", "reconciles", "why"),
    [
        ("{protocol: auto}", True, ""),
        ("{protocol: sessioned}", False, "protocol: sessioned"),
        ("{runtime: connect}", False, "stock workers know rounds only"),
        ("{runtime: connect, protocol: sessioned}", False, "stock workers know rounds only"),
        ("{policy: Kip415}", False, "policy: Kip415 is defined in rounds"),
        ("{policy: Eager}", False, "policy: Eager is defined in rounds"),
    ],
)
def test_a_group_leaves_rounds_only_where_it_can(spec: str, reconciles: bool, why: str) -> None:
    made = worker(spec=spec)
    assert compile_policy(made).reconciles is reconciles
    assert made.spec.why_in_rounds == why


def test_without_a_protocol_one_constant_decides() -> None:
    assert compile_policy(worker()).reconciles is (DEFAULT_PROTOCOL is GroupProtocol.AUTO)


def test_the_policy() -> None:
    made = worker(spec="{policy: Kip415, scheduledRebalanceMaxDelayMs: 5, leaseMs: 50000}")

    policy = compile_policy(made)

    assert policy.name is PolicyName.KIP415
    assert (policy.scheduled_rebalance_max_delay_ms, policy.lease_ms) == (5, 50_000)


def test_the_policy_of_the_default_planner() -> None:
    made = worker(spec="{assignor: Spread, spread: Strict, joinWaitMs: 0, maxReturns: 2}")

    policy = compile_policy(made)

    assert (policy.name, policy.assignor, policy.strict_spread) == (PolicyName.DEFAULT, "Spread", True)
    assert (policy.join_wait_ms, policy.max_returns) == (0, 2)


def test_the_policy_of_stock_workers() -> None:
    made = worker(spec="{runtime: connect, fencing: BestEffort, connect: {hungAfterMs: 90000}}")

    policy = compile_policy(made)

    assert (policy.fencing, policy.hung_after_ms) == (Fencing.BEST_EFFORT, 90_000)
    assert compile_policy(worker(spec="{runtime: connect}")).fencing is Fencing.STRICT


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("{assignor: Uniform, spread: Strict}", "spread: Strict requires the assignor Sticky or Spread"),
        ("{policy: Kip415, assignor: Uniform}", "Kip415 plans as Kafka's own leader does"),
        ("{assignor: 'two words'}", "use an assignor: Sticky, Spread, Uniform"),
        ("{rollout: {strategy: Surge}}", "Surge"),
        ("{rollout: {maxUnavailable: 0}}", "maxUnavailable"),
    ],
)
def test_contradictory_fields_are_refused_with_the_remedy(spec: str, message: str) -> None:
    with pytest.raises(ResourceError, match=message):
        worker(spec=spec)


def test_immutable_fields_are_named_with_the_reason() -> None:
    assert forbidden_changes(worker(), worker(spec="{replicas: 5, leaseMs: 60000}")) == ()
    assert forbidden_changes(worker(), worker(spec="{groupId: cooperator-default.lake}")) == ()

    (group,) = forbidden_changes(worker(), worker(spec="{groupId: other}"))
    assert group.startswith("spec.groupId cannot be changed from 'cooperator-default.lake' to 'other': ")


def test_a_connector_stays_with_its_worker_once_it_may_have_progress_there() -> None:
    refusal = forbidden_move(connector(worker="pond"), "lake")
    assert refusal.startswith("spec.workerRef.name cannot be changed from 'lake' to 'pond': ")
    assert forbidden_move(connector(worker="lake"), "lake") == ""
    assert forbidden_move(connector(worker="pond"), None) == ""


def test_an_unknown_worker_is_a_condition_with_a_suggestion() -> None:
    missing = worker_found(connector(worker="laek"), [worker("lake"), worker("pond")])

    assert (missing.status, missing.reason) == (ConditionStatus.FALSE, "WorkerNotFound")
    assert "'laek'" in missing.message
    assert "did you mean 'lake'?" in missing.message
    assert worker_found(connector(), [worker("lake")]).status is ConditionStatus.TRUE
    elsewhere = worker_found(connector(), [worker("lake", namespace="elsewhere")])
    assert elsewhere.status is ConditionStatus.FALSE


def test_a_transition_time_changes_with_the_status_only() -> None:
    def ready(status: ConditionStatus, reason: str) -> Condition:
        return Condition(type="Ready", status=status, reason=reason)

    first = merge_conditions((), [ready(ConditionStatus.FALSE, "Starting")], 0)
    second = merge_conditions(first, [ready(ConditionStatus.FALSE, "Waiting")], 60_000)
    third = merge_conditions(second, [ready(ConditionStatus.TRUE, "Running")], 120_000)

    assert [c[0].last_transition_time for c in (first, second, third)] == [
        "1970-01-01T00:00:00Z",
        "1970-01-01T00:00:00Z",
        "1970-01-01T00:02:00Z",
    ]
    assert (second[0].reason, third[0].reason) == ("Waiting", "Running")


def test_a_status_is_printed_in_camel_case() -> None:
    printed = to_manifest(worker(), WorkerStatus(replicas=3, ready_replicas=0))

    assert printed["status"]["replicas"] == 3
    assert printed["status"]["readyReplicas"] == 0
