"""The operator's metrics while a pod is away and returns, and what operator and members send by OTLP."""

import time
from collections import defaultdict
from collections.abc import Iterator

import pytest

from tests.harness.installation import SIX, Installation, started
from tests.harness.otlp_receiver import OtlpReceiver
from tests.harness.scrapes import scraped

OPERATOR = "cooperator-operator"

pytestmark = [pytest.mark.real]


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[OtlpReceiver]:
    monkeypatch.setenv("OTEL_METRIC_EXPORT_INTERVAL", "500")
    with OtlpReceiver() as receiver:
        yield receiver


def test_a_death_can_be_read_off_the_metrics(installation: Installation, receiver: OtlpReceiver) -> None:
    sending = ("--otlp-endpoint", receiver.url)
    before = started(installation, options=sending, scheduledRebalanceMaxDelayMs=20_000)
    [operator] = installation.operators
    here = (installation.namespace, "lake")
    lost = {task for task, at in before.items() if at == "lake-1"}

    def all_run() -> bool:
        seen = defaultdict(lambda: -1.0, scraped(operator.url))
        assert seen["cooperator_connector_tasks", ("a", installation.namespace, "RUNNING", "lake")] == len(
            SIX
        )
        return seen["cooperator_worker_settled", here] == 1

    installation.eventually(all_run)
    at_rest = scraped(operator.url)
    assert at_rest["cooperator_worker_leading", here] == 1
    assert at_rest["cooperator_worker_members", here] == 3
    assert at_rest["cooperator_connector_state", ("a", installation.namespace, "RUNNING", "lake")] == 1
    assert not [name for name, _ in at_rest if name == "cooperator_worker_held_tasks"]

    installation.kubelet.restart_s = 60
    began_s = time.time()
    installation.kubelet.crash("lake-1")

    def held() -> bool:
        seen = defaultdict(lambda: -1.0, scraped(operator.url))
        of_member = ("lake-1", *here)
        # Its instance of the connector waits, too, if it had it.
        assert seen["cooperator_worker_held_tasks", of_member] in (len(lost), len(lost) + 1)
        deadline_s = seen["cooperator_worker_hold_deadline_timestamp_seconds", of_member]
        assert began_s + 15 < deadline_s < began_s + 40
        return seen["cooperator_connector_tasks", ("a", installation.namespace, "HELD", "lake")] == len(lost)

    installation.eventually(held)
    installation.runs(*SIX)
    installation.eventually(all_run)
    after = scraped(operator.url)

    def grown(name: str) -> float:
        return after[name, here] - at_rest[name, here]

    assert len(lost) <= grown("cooperator_worker_moved_total") <= len(lost) + 1
    assert grown("cooperator_worker_moved_total") == grown("cooperator_worker_assigned_total")
    assert grown("cooperator_worker_revoked_total") == 0
    # It is looked at twice a second, more rarely on a busy machine.
    waited_s = 20 * len(lost)
    assert 0.85 * waited_s <= grown("cooperator_worker_unassigned_task_seconds_total") < 2 * waited_s
    rounds = sum(count for (name, _), count in after.items() if name == "cooperator_worker_rebalances_total")
    assert rounds >= 3
    assert grown("cooperator_worker_generation") == grown("cooperator_worker_planning_seconds_count") >= 1
    assert after["cooperator_worker_planning_seconds_sum", here] < 5
    assert grown("cooperator_worker_rebalance_duration_seconds_count") >= 1
    holds = grown("cooperator_worker_hold_seconds_count")
    assert len(lost) <= holds <= len(before)
    assert 0.85 * 20 * holds <= grown("cooperator_worker_hold_seconds_sum") < 2 * 20 * holds
    assert grown("cooperator_worker_task_start_seconds_count") >= len(lost)

    def all_is_sent() -> bool:
        ours = [shown for resource, shown in receiver.sources() if resource["service.name"] == OPERATOR]
        members = {
            resource["k8s.pod.name"]: shown
            for resource, shown in receiver.sources()
            if resource["service.name"] == "cooperator-worker" and resource["cooperator.worker"] == "lake"
        }
        [of_operator] = ours
        page = scraped(operator.url)
        assert of_operator.keys() == page.keys()
        assert {s: v for s, v in of_operator.items() if s[1][-2:] == here} == {
            s: v for s, v in page.items() if s[1][-2:] == here
        }
        # The killed one could not end its series.
        assert members.keys() == {"lake-0", "lake-1", "lake-2"}
        left = (members["lake-0"], members["lake-2"])
        return sum(shown["cooperator_member_tasks", ()] for shown in left) == len(SIX) + 1

    installation.eventually(all_is_sent)
