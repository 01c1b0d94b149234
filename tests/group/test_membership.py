"""A membership's life without a broker."""

import pytest
from kafka.net.wakeup_notifier import WakeupNotifier

from cooperator.group import GroupUnavailable
from cooperator.group.library import new_loop, wake
from group.party import Party
from support import eventually


def test_brokers_that_cannot_even_be_named_are_said_and_do_not_end_it() -> None:
    party = Party("localhost:no-port", "lake", "lake-0")
    party.membership.start()
    eventually(lambda: party.all("trouble"), timeout_s=10)
    assert party.membership.alive
    party.membership.stop(leave=False)
    assert not party.membership.alive


def test_before_it_starts_it_is_no_member_and_can_be_asked_for_nothing() -> None:
    party = Party("localhost:1", "lake", "lake-0")
    assert not party.membership.alive
    assert (party.member_id, party.generation) == ("", -1)
    party.membership.rejoin("too early")
    party.membership.evict(["a"])
    with pytest.raises(GroupUnavailable, match="does not run"):
        party.membership.describe()
    party.membership.stop(leave=True)


def test_its_listener_may_stop_it() -> None:
    class Impatient(Party):
        def trouble(self, message: str) -> None:
            super().trouble(message)
            self.membership.stop(leave=True)

    party = Impatient("localhost:1", "lake", "lake-0")
    party.membership.start()
    eventually(lambda: party.all("trouble") and not party.membership.alive, timeout_s=15)


def test_who_asks_in_the_second_between_two_sessions_is_not_told_of_the_loop_that_has_ended() -> None:
    loop = new_loop(Party("localhost:1", "lake", "lake-0").membership._config)
    notifier = WakeupNotifier(loop)
    loop.close()
    with pytest.raises(RuntimeError, match="closed"):
        notifier.notify()
    wake(notifier)
