"""What surrounds the project's code in the simulation behaves as the real thing does."""

from unittest.mock import patch

from cooperator.wire import Record
from simulation import fleets
from simulation.run import history, run
from simulation.stock import StockProcess
from simulation.topics import Topic


class Reader:
    def __init__(self, position: int) -> None:
        self.position = position


def topic(*keys: str, readers: tuple[int, ...] = ()) -> Topic:
    """One record a key; a key in capitals is a tombstone."""
    records = [
        (offset, Record(key.lower(), None if key.isupper() else b"{}")) for offset, key in enumerate(keys)
    ]
    tails: list[object] = [Reader(position) for position in readers]
    return Topic(len(keys), records, tails)  # type: ignore[arg-type]


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


def test_who_reads_on_gets_what_is_left_from_there_on() -> None:
    compacted = topic("a", "b", "a", "c")
    compacted.compact(3)
    assert [offset for offset, _ in compacted.after(-1)] == [1, 2, 3]
    assert [offset for offset, _ in compacted.after(2)] == [2, 3]


def first_seed(fleet: type[fleets.Fleet]) -> int:
    return next(seed for seed in range(1_000) if history(seed)[0].fleet is fleet)


def test_there_are_worlds_of_agents_of_stock_workers_and_of_both() -> None:
    for _, fleet in fleets.ALL:
        outcome = run(first_seed(fleet))
        assert outcome.broken is None, f"{fleet.__name__}: {outcome.broken}"
        kinds = {member.is_stock for member in outcome.world.everybody}
        assert kinds == ({False, True} if fleet is fleets.Mixed else {fleet.has_stock})


def test_a_stock_worker_that_would_join_while_it_stops_is_noticed() -> None:
    with patch.object(StockProcess, "before_join", lambda self: None):
        seeds = [seed for seed in range(200) if history(seed)[0].fleet is fleets.StockWorkers]
        found = [str(run(seed).broken) for seed in seeds[:6]]
    assert any("joins while it stops" in how for how in found), found
