"""Processes that are killed, or frozen and woken, at any point of their cuts: each row is visible once."""

import multiprocessing
import os
import random
import signal
import time
from contextlib import suppress
from multiprocessing.process import BaseProcess
from pathlib import Path

from cooperator.connectors.exactly_once import Replaced
from cooperator.connectors.microbatch.ranges import OffsetRange
from tests.harness.support import eventually
from tests.intents.lines import A, B, Writer, offsets
from tests.simulation.seeds import first_fresh

KILLS = 15
FROZEN = 6


def write(root: Path, attempt: int) -> None:
    """Writes small cuts of both units until it is replaced."""
    writer = Writer(root, attempt)
    with suppress(Replaced):
        at = {A: 0, B: 0} | writer.begin()
        while True:
            ranges = [OffsetRange(unit, at[unit], at[unit] + 3) for unit in (A, B)]
            if writer.run(*ranges).failures:
                writer.owned = writer.units.recover()
                at |= {unit: stand.next for unit, stand in writer.owned.positions.items()}
            else:
                at = {each.partition: each.end for each in ranges}


def start(root: Path, attempt: int) -> BaseProcess:
    process = multiprocessing.get_context("fork").Process(target=write, args=[root, attempt], daemon=True)
    process.start()
    return process


def ended(process: BaseProcess) -> None:
    process.join(60)
    assert process.exitcode is not None


def check(root: Path) -> int:
    """Returns how many rows are visible; each unit's are its first, once."""
    found = [offsets(root, unit) for unit in (A, B)]
    for of_unit in found:
        assert of_unit == list(range(len(of_unit)))
    return sum(map(len, found))


def test_processes_killed_at_any_point_leave_each_row_once(tmp_path: Path) -> None:
    chance = random.Random(first_fresh())
    for attempt in range(1, KILLS + 1):
        before = len(list(tmp_path.glob("*.csv")))
        process = start(tmp_path, attempt)
        grown = before + chance.randrange(1, 6)
        eventually(lambda grown=grown: len(list(tmp_path.glob("*.csv"))) >= grown, 60)
        time.sleep(chance.random() / 100)  # any point of a cut
        process.kill()
        ended(process)
    at = Writer(tmp_path, KILLS + 1).begin()
    assert check(tmp_path) == sum(at.values()) > 3 * KILLS
    assert not list(tmp_path.rglob("*.staged"))
    assert not list(tmp_path.glob("_cooperator/units/*/log/.*"))


def test_processes_that_were_frozen_at_any_point_wake_and_change_nothing(tmp_path: Path) -> None:
    chance = random.Random(first_fresh())
    frozen: list[BaseProcess] = []
    try:
        for attempt in range(1, FROZEN + 1):
            frozen.append(start(tmp_path, attempt))
            grown = len(list(tmp_path.glob("*.csv"))) + chance.randrange(1, 12)
            eventually(lambda grown=grown: len(list(tmp_path.glob("*.csv"))) >= grown, 60)
            time.sleep(chance.random() / 100)  # any point of a cut
            os.kill(frozen[-1].pid, signal.SIGSTOP)
        last = Writer(tmp_path, FROZEN + 1)
        at = last.begin()
        rows = check(tmp_path)
        assert rows == sum(at.values())
        for process in frozen:
            os.kill(process.pid, signal.SIGCONT)
        for process in frozen:
            ended(process)
            assert process.exitcode == 0, "it was replaced, and ended by itself"
        assert check(tmp_path) == rows
        last.run(*(OffsetRange(unit, at[unit], at[unit] + 5) for unit in (A, B)))
        assert check(tmp_path) == rows + 10
    finally:
        for process in frozen:
            process.kill()
