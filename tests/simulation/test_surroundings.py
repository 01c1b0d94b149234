"""The simulated surroundings of the project's code behave like the real ones."""

import time
from typing import Any
from unittest.mock import patch

from cooperator.leader.events import PostOutcome
from cooperator.leader.identities import Identities
from cooperator.leader.regroup import NEW_TASKS
from cooperator.leader.routes import LeaderRoutes
from cooperator.wire import Record
from tests.simulation import fleets
from tests.simulation.rest import Rest
from tests.simulation.run import Cuts, history, run
from tests.simulation.stock import StockProcess
from tests.simulation.topics import Topic


class Reader:
    def __init__(self, position: int) -> None:
        self.position = position


def topic(*keys: str, readers: tuple[int, ...] = ()) -> Topic:
    """One record per key; a key in capitals is a tombstone."""
    records = [
        (offset, Record(key.lower(), None if key.isupper() else b"{}")) for offset, key in enumerate(keys)
    ]
    topic_readers: list[object] = [Reader(position) for position in readers]
    return Topic(len(keys), records, topic_readers)  # type: ignore[arg-type]


def left(compacted: Topic) -> list[int]:
    return [offset for offset, _ in compacted.records]


def test_compaction_leaves_the_newest_of_each_key_up_to_a_point() -> None:
    compacted = topic("a", "b", "a", "a", "b", "a")
    compacted.compact(4)
    assert left(compacted) == [1, 3, 4, 5]


def test_the_last_record_stays_whatever_it_is() -> None:
    compacted = topic("a", "b", "A")
    compacted.compact(3)
    assert left(compacted) == [0, 1, 2]


def test_a_tombstone_goes_when_all_who_read_have_passed_it() -> None:
    compacted = topic("a", "A", "b", "c", readers=(1, 4))
    compacted.compact(3)
    assert left(compacted) == [1, 2, 3]
    compacted = topic("a", "A", "b", "c", readers=(2, 4))
    compacted.compact(3)
    assert left(compacted) == [2, 3]


def test_a_reader_continues_with_the_remaining_records() -> None:
    compacted = topic("a", "b", "a", "c")
    compacted.compact(3)
    assert [offset for offset, _ in compacted.after(-1)] == [1, 2, 3]
    assert [offset for offset, _ in compacted.after(2)] == [2, 3]


def first_seed(fleet: type[fleets.Fleet]) -> int:
    return next(seed for seed in range(1_000) if history(seed)[0].fleet is fleet)


def test_there_are_fleets_of_agents_of_stock_workers_and_of_both() -> None:
    for _, fleet in fleets.ALL:
        outcome = run(first_seed(fleet))
        assert outcome.broken is None, f"{fleet.__name__}: {outcome.broken}"
        kinds = {member.is_stock for member in outcome.simulation.everybody}
        assert kinds == ({False, True} if fleet is fleets.Mixed else {fleet.has_stock})


def test_workers_that_share_a_client_id_and_are_taken_for_one_are_noticed() -> None:
    with patch.object(Identities, "tell", lambda self, members: members):
        seeds = [seed for seed in range(200) if history(seed)[0].fleet is fleets.SharedClientId]
        found = [str(run(seed).broken) for seed in seeds[:3]]
    assert any("as Superseded" in how for how in found), found


def test_a_stock_worker_that_would_join_while_it_stops_is_noticed() -> None:
    with patch.object(StockProcess, "before_join", lambda self: None):
        seeds = [seed for seed in range(200) if history(seed)[0].fleet is fleets.StockWorkers]
        # The first seed that finds it ends the search.
        assert any("joins while it stops" in str(run(seed).broken) for seed in seeds[:20]), seeds[:20]


def stock_seeds(count: int) -> list[int]:
    return [seed for seed in range(200) if history(seed)[0].fleet is fleets.StockWorkers][:count]


def test_a_route_that_waits_for_a_round_to_end_is_answered_when_it_has() -> None:
    """Stock workers ask for their tasks' configurations in mid-round, as soon as an instance has started."""
    codes: list[tuple[int, int]] = []
    take = LeaderRoutes.take_tasks

    async def taken(self: LeaderRoutes, *asked: Any) -> tuple[int, str]:
        code, message = await take(self, *asked)
        codes.append((int(time.monotonic() * 1000), code))
        return code, message

    with patch.object(LeaderRoutes, "take_tasks", taken):
        assert run(stock_seeds(1)[0], Cuts(until_ms=1)).broken is None
    first_ms = codes[0][0]
    assert codes[0][1] == PostOutcome.AGAIN
    assert any(code == PostOutcome.WRITTEN and at_ms < first_ms + 3_000 for at_ms, code in codes), codes


def test_a_route_that_fails_is_noticed() -> None:
    with patch.object(LeaderRoutes, "take_tasks", side_effect=ValueError("a bug")):
        broken = run(stock_seeds(1)[0], Cuts(until_ms=1)).broken
    assert "a bug" in str(broken)


def test_a_machine_that_runs_is_not_booted_again() -> None:
    """Two faults may have taken its power; a second boot would run all of its processes twice."""
    simulation = run(first_seed(fleets.Agents), Cuts(until_ms=1)).simulation
    machines = simulation.cluster.machines
    before = {node: [*machine.containers.values()] for node, machine in machines.items()}
    assert any(container.process is not None for each in before.values() for container in each)
    for node in machines:
        simulation.cluster.regain_power(node)
    assert {node: [*machine.containers.values()] for node, machine in machines.items()} == before


def test_a_world_is_not_at_rest_while_its_leader_is_about_to_ask_for_a_round() -> None:
    """The change that causes the round is committed by then, so nothing else announces the round."""
    simulation = run(stock_seeds(1)[0], Cuts(until_ms=1)).simulation
    rest = Rest(simulation)
    assert rest.lacks() == ""
    lead = next(operator.lead for operator in simulation.operators if operator.lead is not None)
    lead.machine._requests.want(NEW_TASKS, simulation.now_ms)
    assert rest.lacks() == "the leader is about to ask for a round"
