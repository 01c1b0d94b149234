"""Stock workers that share a client id are told apart, in every round: none is mistaken for an earlier
incarnation of another.
"""

from dataclasses import replace
from random import Random

import pytest

from cooperator.leader.identities import tell_apart
from cooperator.leader.state import LeaderSettings
from cooperator.model import Fencing, Member, Memory, Policy, TaskId
from cooperator.planner import Why
from cooperator.planner.view import Facts
from tests.harness.fake_group import FakeGroup, FakeMember, tasks

POLICY = Policy(scheduled_rebalance_max_delay_ms=20_000, fencing=Fencing.BEST_EFFORT)
COUNT = 6
ALL = tasks("a", -1, *range(COUNT))
AWAITED_MS = LeaderSettings("http://leader/").awaited_ms


class Fleet:
    """Stock workers without a host that knows them; ``client_ids``: of each worker in turn."""

    def __init__(
        self, *client_ids: str, localhost: bool = False, fencing: Fencing = Fencing.BEST_EFFORT
    ) -> None:
        self.group = FakeGroup(replace(POLICY, fencing=fencing))
        self._client_ids = client_ids
        self._localhost = localhost
        self.revoked: list[tuple[str, TaskId, Why]] = []
        self.start(0)
        self.round()
        self.group.desire(a=COUNT)
        self.settle()
        assert self.group.post("a", *(f"u{n}" for n in range(COUNT))) == 204
        self.settle()

    def start(self, number: int, before: FakeMember | None = None) -> FakeMember:
        """A process; ``before``: what it was as a member until the broker dropped it."""
        client_id = self._client_ids[number % len(self._client_ids)]
        host = "localhost" if self._localhost else f"w-{number}"
        return self.group.join(
            f"w-{number}",
            is_agent=False,
            client_id=client_id,
            url=f"http://{host}:8083/",
            running=set(before.running) if before is not None else set(),
            epochs=dict(before.epochs) if before is not None else {},
        )

    def drop(self, number: int) -> None:
        """The broker drops it; it comes back at once, under a new member id."""
        self.start(number, self.group.die(f"w-{number}", proven=False))

    def take_over(self, unread: bool = False) -> None:
        """The lead is lost, and taken again by evicting everybody; all are back in the first round."""
        for member in self.evict(unread):
            self.start(int(member.identity[2:]), member)
        self.round()

    def evict(self, unread: bool = False) -> list[FakeMember]:
        """The lead is lost, and taken again by evicting everybody.

        ``unread``: in mid-round, so that the broker tells no more of them than ids.
        """
        members = list(self.group.members.values())
        self.group.members.clear()
        if unread:
            self.group.take_lead(unread=[member.unread() for member in members])
        else:
            self.group.take_lead(*(member.report() for member in members))
        return members

    def round(self) -> None:
        self.group.round()
        plan = self.group.machine.state.plan
        assert plan is not None
        self.revoked += [("", task, reason.why) for task, reason in plan.revoked_why.items()]

    def settle(self) -> None:
        """Rounds until nobody wants one."""
        for _ in range(20):
            stopping = [member for member in self.group.members.values() if member.stopping]
            for member in stopping:
                self.group.stop(member)
            if not stopping and not self.group.asks_for_round():
                return
            self.round()
        raise AssertionError("not at rest after 20 rounds")

    def layout(self) -> dict[str, set[TaskId]]:
        return {member.identity: set(member.running) for member in self.group.members.values()}

    def whys(self) -> set[Why]:
        whys = {why for _, _, why in self.revoked}
        self.revoked.clear()
        return whys

    @property
    def identities(self) -> set[str]:
        return {member.identity for member in self.group.machine.state.members}

    def is_even(self) -> bool:
        loads = [sum(not t.is_instance for t in running) for running in self.layout().values()]
        return max(loads) - min(loads) <= 1


def fleet(
    count: int, *client_ids: str, localhost: bool = False, fencing: Fencing = Fencing.BEST_EFFORT
) -> Fleet:
    made = Fleet(*client_ids, localhost=localhost, fencing=fencing)
    for number in range(1, count):
        made.start(number)
        made.round()
        made.settle()
    assert made.whys() <= {Why.BALANCE}
    assert made.is_even()
    assert set(made.group.all_running()) == ALL
    return made


@pytest.mark.parametrize("localhost", [False, True], ids=["own-addresses", "one-address"])
def test_a_worker_that_joins_takes_only_its_part_from_those_that_share_its_client_id(
    localhost: bool,
) -> None:
    workers = fleet(2, "connect-1", localhost=localhost)
    before = workers.layout()
    workers.start(2)
    workers.round()
    workers.settle()
    after = workers.layout()
    assert workers.whys() == {Why.BALANCE}
    assert workers.is_even()
    assert all(after[worker] <= before[worker] for worker in before), "nothing else has moved"


def test_a_worker_that_is_killed_and_returns_gets_its_own_and_nobody_else_is_touched() -> None:
    workers = fleet(3, "connect-1")
    before = workers.layout()
    for number in range(3):
        workers.group.die(f"w-{number}", proven=False)
        workers.round()
        workers.start(number)
        workers.round()
        workers.settle()
        assert workers.layout() == before
    assert workers.whys() == set()


def test_they_are_told_apart_after_a_change_of_the_leader_with_one_of_them_away() -> None:
    workers = fleet(3, "connect-1")
    before = workers.layout()
    workers.group.die("w-1", proven=False)
    workers.round()
    workers.take_over()
    workers.settle()
    assert workers.identities == {"connect-1@w-0:8083", "connect-1@w-2:8083"}
    workers.start(1)
    workers.round()
    workers.settle()
    assert (workers.layout(), workers.whys()) == (before, set())


def test_one_that_is_alone_keeps_its_client_id_and_its_tasks_whatever_its_address() -> None:
    """Nobody knows yet whether it is the one that was lost, so its tasks wait for that one to rejoin."""
    workers = fleet(1, "mine")
    assert workers.identities == {"mine"}
    workers.group.die("w-0", proven=False)
    workers.round()
    workers.start(7)
    workers.round()
    assert workers.layout() == {"w-7": set()}
    workers.group.advance(AWAITED_MS)
    workers.settle()
    assert workers.identities == {"mine"}
    assert workers.layout() == {"w-7": ALL}
    assert workers.whys() == set()


@pytest.mark.parametrize("fencing", Fencing)
def test_the_wait_for_one_at_a_new_address_begins_with_the_departure(fencing: Fencing) -> None:
    workers = fleet(1, "mine", fencing=fencing)
    workers.group.die("w-0", proven=False)
    workers.round()
    workers.group.advance(AWAITED_MS)
    workers.start(7)
    workers.round()
    assert workers.layout() == {"w-7": ALL}, "a restart that took longer costs nothing more"


def test_a_worker_at_a_new_address_whose_predecessor_has_ended_gets_its_tasks_at_once() -> None:
    workers = fleet(1, "mine")
    known = workers.group.machine.state.memory.incarnations["mine"]
    workers.group.die("w-0", proven=False)
    workers.group.facts(Facts(ended=frozenset({("mine", known)})))
    workers.start(7)
    workers.round()
    assert workers.layout() == {"w-7": ALL}


@pytest.mark.parametrize("changes", ["none", "lead", "lead in mid-round"])
@pytest.mark.parametrize("is_noticed", [False, True])
def test_another_worker_with_its_client_id_gets_no_task_of_one_that_the_broker_dropped(
    is_noticed: bool, changes: str
) -> None:
    """No round has had both yet. The one that was dropped runs on, and comes back with all that it runs."""
    workers = fleet(1, "connect-1")
    dropped = workers.group.die("w-0", proven=False)
    if is_noticed:
        workers.round()
    workers.start(1)
    workers.round()
    assert workers.layout() == {"w-1": set()}
    if changes != "none":
        workers.take_over(unread=changes != "lead")
        assert workers.layout() == {"w-1": set()}
    workers.start(0, dropped)
    workers.round()
    assert workers.layout()["w-1"] == set(), "what it gets, the other one stops first"
    if changes != "none":
        # The new leader does not know at which address the one was that it waits for.
        workers.group.advance(AWAITED_MS)
    workers.settle()
    assert workers.identities == {"connect-1@w-0:8083", "connect-1@w-1:8083"}
    assert workers.is_even()
    assert workers.whys() == {Why.BALANCE}


def test_workers_that_return_at_one_new_address_after_another_wait_for_all_before_them() -> None:
    workers = fleet(1, "mine")
    workers.group.die("w-0", proven=False)
    for number in (1, 2, 3):
        workers.start(number)
        workers.round()
        assert workers.layout() == {f"w-{number}": set()}
        workers.group.die(f"w-{number}", proven=False)
        workers.round()
        workers.group.advance(1_000)
    workers.start(4)
    workers.round()
    workers.group.advance(AWAITED_MS)
    workers.settle()
    assert workers.layout() == {"w-4": ALL}


@pytest.mark.parametrize("first", [0, 1])
def test_memory_by_client_id_moves_to_the_address(first: int) -> None:
    """It was killed, and is back in the very round in which another one joins for the first time."""
    workers = fleet(1, "connect-1")
    workers.group.die("w-0", proven=False)
    workers.round()
    for number in (first, 1 - first):
        workers.start(number)
    workers.round()
    assert set(workers.group.all_running()) == ALL, "nothing waits for one that is there"


def test_nobody_gets_what_may_run_at_a_third_one() -> None:
    """Two join at once while the only one that was there is away: neither is it."""
    workers = fleet(1, "connect-1")
    dropped = workers.group.die("w-0", proven=False)
    workers.start(1)
    workers.start(2)
    workers.round()
    assert workers.layout() == {"w-1": set(), "w-2": set()}
    workers.start(0, dropped)
    workers.round()
    workers.settle()
    assert workers.whys() == {Why.BALANCE}
    assert workers.is_even()


def test_a_client_id_that_looks_like_the_identity_of_another_worker_is_none() -> None:
    workers = fleet(4, "a", "a@w-0:8083")
    assert len(workers.identities) == 4
    assert workers.whys() == set()


def test_pods_that_a_host_knows_are_told_by_their_client_ids() -> None:
    """A pod that was cut off and its successor: one identity, of which the earlier incarnation lets go."""
    members = tuple(
        Member(f"lake-0-{n}", "lake-0", f"{n}", is_agent=False, url=f"http://10.0.0.{n}/") for n in (1, 2)
    )
    assert tell_apart(members, Memory(), {"lake-0"}.__contains__).members == members
    workers = fleet(2, "connect-1")
    workers.group.facts(Facts(expected=frozenset({"connect-1"})))
    workers.round()
    assert workers.identities == {"connect-1"}


@pytest.mark.parametrize("first", range(4))
@pytest.mark.parametrize("unread", [False, True], ids=["reported", "in mid-round"])
@pytest.mark.parametrize("localhost", [False, True], ids=["own-addresses", "one-address"])
def test_one_that_is_back_first_gets_nothing_that_another_one_may_still_run(
    first: int, unread: bool, localhost: bool
) -> None:
    """Simulation seed 2010295: a second process at an address, which runs nothing, is back before the
    first."""
    workers = fleet(3, "connect-1", localhost=localhost)
    workers.start(3 if localhost else 0, None)
    evicted = workers.evict(unread)
    away = {number: set(member.running) for number, member in enumerate(evicted)}
    for number in (*range(first, 4), *range(first)):
        workers.start(int(evicted[number].identity[2:]), evicted[number])
        del away[number]
        workers.round()
        running = workers.group.all_running()
        assert len(running) == len(set(running))
        assert not set(running) & set().union(*away.values()), "another one may still run it"
    workers.settle()
    workers.group.advance(AWAITED_MS)
    workers.settle()
    assert set(workers.group.all_running()) == ALL
    assert workers.whys() <= {Why.BALANCE}


EVENTS = ("kill", "return", "return", "join", "drop", "take over", "take over in mid-round")


@pytest.mark.parametrize("seed", range(60))
def test_with_shared_client_ids_tasks_move_only_for_balance(
    seed: int,
) -> None:
    """Joins, kills, returns, drops by the broker and changes of the leader, in any order."""
    random = Random(seed)
    client_ids = random.choice([("connect-1",), ("connect-1", "other"), ("a", "b", "a")])
    workers = fleet(random.randint(1, 3), *client_ids)
    away: dict[int, set[TaskId]] = {}
    new, may_be_anybody = 10, False
    for _ in range(12):
        present = [int(member.identity[2:]) for member in workers.group.members.values()]
        owned = workers.layout()
        match random.choice(EVENTS):
            case "kill" if len(present) > 1:
                number = random.choice(present)
                workers.group.die(f"w-{number}", proven=False)
                away[number] = owned[f"w-{number}"]
            case "return" if away:
                number = random.choice(sorted(away))
                wanted = away.pop(number)
                workers.start(number)
                workers.round()
                if not may_be_anybody:
                    assert workers.layout()[f"w-{number}"] >= wanted, "its own, at once"
            case "join" if len(present) < 5 and not away:
                workers.start(new)
                new += 1
            case "drop":
                workers.drop(random.choice(present))
            case "take over":
                workers.take_over()
            case "take over in mid-round":
                workers.take_over(unread=True)
                # One that is away may be the one that was evicted, as far as its ids tell.
                may_be_anybody |= bool(away)
            case _:
                continue
        workers.round()
        workers.settle()
        assert workers.whys() <= {Why.BALANCE}
        assert len(workers.identities) == len(workers.group.members)
        for number, tasks_ in away.items():
            assert not tasks_ & set(workers.group.all_running()), f"held for w-{number}"
        if not away:
            assert set(workers.group.all_running()) == ALL
            assert workers.is_even()
