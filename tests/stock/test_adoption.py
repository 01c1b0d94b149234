"""A cluster that leads itself is taken over, left alone, taken over again and given back: nothing stops."""

from collections import Counter
from collections.abc import Mapping

import pytest
from typer.testing import CliRunner

from cooperator.cli.app import program
from cooperator.crd import Connector, Worker, compile_desired, parse
from cooperator.crd.worker import GroupPolicy
from cooperator.leader.service import LeaderService
from stock.scene import Scene, doubled, is_instance, missing
from support import at_a_desk, eventually

pytestmark = pytest.mark.real

WORKERS = ("w-1", "w-2")
EVERYTHING = (
    *("a-instance", "a-0", "a-1", "a-2"),
    *("b-instance", "b-0"),
    *("into-instance", "into-0"),
)


def led_by_themselves(scene: Scene) -> None:
    """Two sources and a sink of the first one's numbers, made by REST as users do."""
    first, _ = scene.cluster(*WORKERS)
    only_one = scene.source("b")
    del only_one["tasks.max"]
    connectors = {
        "a": scene.source("a", tasks=3),
        "b": only_one,
        "into": scene.sink("into", scene.make_topic("a")),
    }
    for name, config in connectors.items():
        first.ask("connectors", {"name": name, "config": config})
    scene.runs(*EVERYTHING)
    for worker in scene.workers.values():
        eventually(lambda worker=worker: len(worker.running()) == len(EVERYTHING), 60)


def imports(scene: Scene) -> str:
    """What ``cooperator import`` prints of the group."""
    words = ("--bootstrap-servers", scene.bootstrap_servers, "--group", scene.group_id, "--name", "adopted")
    result = CliRunner().invoke(program(), ["import", *words])
    assert result.exit_code == 0, result.output
    return result.stdout


def compiled(text: str) -> dict[str, dict[str, str]]:
    """What a leader is told of these manifests."""
    worker, *connectors = parse(text, "imported")
    assert isinstance(worker, Worker)
    assert (worker.spec.group_policy, worker.spec.replicas) == (GroupPolicy.ADOPT, 0)
    desired = compile_desired(worker, [c for c in connectors if isinstance(c, Connector)], revision=1)
    return {name: dict(connector.config) for name, connector in desired.connectors.items()}


def gone(scene: Scene, leader: LeaderService) -> str:
    """The member that leads when ``leader`` is out of the group: a worker."""
    scene.leaders.remove(leader)
    return scene.led_by_a_worker()


def test_no_task_stops_when_the_lead_is_taken_left_alone_and_given_back(scene: Scene) -> None:
    led_by_themselves(scene)
    text = imports(scene)
    assert imports(scene) == text
    connectors = compiled(text)
    layout, begun = scene.begun(*EVERYTHING)
    before = scene.written("a")

    # Taken.
    leader = scene.leader(connectors, WORKERS, adopt=True, session_timeout_ms=10_000)
    scene.leads(leader, 2)
    assert scene.journal.running() == layout
    before = scene.written("a", before)

    # The operator is killed, and away for longer than its session: a worker leads.
    leader.stop(leave=False)
    gone(scene, leader)
    assert scene.journal.running() == layout
    before = scene.written("a", before)

    # It is back.
    leader = scene.leader(connectors, WORKERS, adopt=True, session_timeout_ms=10_000)
    scene.leads(leader, 2)
    assert scene.journal.running() == layout
    before = scene.written("a", before)

    # Given back.
    leader.hand_back()
    gone(scene, leader)
    scene.written("a", before)
    assert scene.journal.running() == layout
    assert scene.starts() - begun == Counter()

    for name in ("a", "b"):
        numbers = scene.numbers(name)
        assert (missing(numbers), doubled(numbers)) == ({}, {})
    sunk = Counter(scene.told("into"))
    assert max(sunk.values()) == 1


def uneven(scene: Scene) -> tuple[LeaderService, tuple[str, ...]]:
    """One of two workers has nearly everything; and all items."""
    connectors = {
        "a": scene.source("a", tasks=5),
        "b": scene.source("b", tasks=1),
        "c": scene.source("c", tasks=1),
    }
    every = tuple(f"{name}-instance" for name in "abc") + tuple(f"a-{n}" for n in range(5)) + ("b-0", "c-0")
    leader = scene.leader(connectors, WORKERS, session_timeout_ms=10_000)
    for worker in WORKERS:
        scene.worker(worker)
    scene.runs(*every)
    scene.leads(leader, 2)
    scene.facts(leader, WORKERS, cordoned=frozenset({"w-2"}))
    connectors |= {"d": scene.source("d", tasks=6)}
    scene.want(leader, connectors)
    every += ("d-instance", *(f"d-{n}" for n in range(6)))
    scene.runs(*every)
    scene.leads(leader, 2)
    return leader, every


def spreads(layout: Mapping[str, str]) -> list[int]:
    """By how much the workers' numbers of instances, and of tasks, differ."""
    found = []
    for wanted in (True, False):
        loads = Counter(where for task, where in layout.items() if is_instance(task) is wanted)
        found.append(max(loads.values()) - min(loads[worker] for worker in WORKERS))
    return found


def test_what_is_uneven_is_made_even_before_it_is_given_back(scene: Scene) -> None:
    """A Java leader counts instances and tasks apart: whatever it would move is moved by us, once."""
    leader, every = uneven(scene)
    assert max(spreads(scene.runs(*every))) > 1
    scene.facts(leader, WORKERS)
    leader.hand_back()
    even = scene.runs(*every)
    begun = scene.starts()
    gone(scene, leader)
    for name in "abcd":
        scene.written(name)
    assert max(spreads(even)) <= 1
    assert scene.runs(*every) == even
    assert scene.starts() - begun == Counter()


@at_a_desk("env -u CI pytest tests/stock/test_adoption.py")
def test_what_is_uneven_when_the_operator_vanishes_is_moved_by_a_worker_and_nothing_else(
    scene: Scene,
) -> None:
    """Measured for the guarantees (docs/stock-connect.md)."""
    leader, every = uneven(scene)
    before, begun = scene.runs(*every), scene.starts()
    leader.stop(leave=False)
    gone(scene, leader)

    def even() -> dict[str, str]:
        layout = scene.runs(*every)
        assert max(spreads(layout)) <= 1, layout
        return layout

    after = eventually(even, 90)
    moved = {task for task in every if before[task] != after[task]}
    assert scene.starts() - begun == Counter(moved)
    print(f"{len(moved)} of {len(every)} moved")  # noqa: T201
