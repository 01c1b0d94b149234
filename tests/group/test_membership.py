"""A membership without a broker."""

import pytest
from kafka.net.wakeup_notifier import WakeupNotifier

from cooperator.group import GroupUnavailable
from cooperator.group.library import new_loop, wake
from tests.group.recording_member import RecordingMember
from tests.harness.support import eventually


def test_unresolvable_brokers_are_reported_and_do_not_end_the_membership() -> None:
    recorder = RecordingMember("localhost:no-port", "lake", "lake-0")
    recorder.membership.start()
    eventually(lambda: recorder.all("trouble"), timeout_s=10)
    assert recorder.membership.alive
    recorder.membership.stop(leave=False)
    assert not recorder.membership.alive


def test_a_membership_that_has_not_started_is_no_member_and_refuses_requests() -> None:
    recorder = RecordingMember("localhost:1", "lake", "lake-0")
    assert not recorder.membership.alive
    assert (recorder.member_id, recorder.generation) == ("", -1)
    recorder.membership.rejoin("too early")
    recorder.membership.evict(["a"])
    with pytest.raises(GroupUnavailable, match="does not run"):
        recorder.membership.describe()
    recorder.membership.stop(leave=True)


def test_a_listener_may_stop_its_membership() -> None:
    class Impatient(RecordingMember):
        def trouble(self, message: str) -> None:
            super().trouble(message)
            self.membership.stop(leave=True)

    recorder = Impatient("localhost:1", "lake", "lake-0")
    recorder.membership.start()
    eventually(lambda: recorder.all("trouble") and not recorder.membership.alive, timeout_s=15)


def test_a_request_between_two_sessions_ignores_the_loop_that_has_closed() -> None:
    loop = new_loop(RecordingMember("localhost:1", "lake", "lake-0").membership._config)
    notifier = WakeupNotifier(loop)
    loop.close()
    with pytest.raises(RuntimeError, match="closed"):
        notifier.notify()
    wake(notifier)
