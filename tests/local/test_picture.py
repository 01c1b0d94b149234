"""Task history: written to in-memory logs, read back, and drawn."""

import re
import sys
from pathlib import Path

import pytest

from cooperator.local import history as local_history
from cooperator.local import picture
from cooperator.local.layout import write_json
from cooperator.local.picture import draw
from cooperator.logs import Logs, LogsConfig, MemoryBroker, MemoryTransport, ensure_topics_of, read_history
from cooperator.logs.history import LogHistory
from cooperator.model import Epoch, Hold, HoldReason, Memory, TaskId, TaskState, TaskStatus
from cooperator.model.extras import NotInstalled
from cooperator.terminal.timeline import Stretch, StretchKind, stretches

S = 1_000
NOON = 1_700_000_000_000
A0, A1 = TaskId("a", 0), TaskId("a", 1)


def at(seconds: int) -> int:
    return NOON + seconds * S


def history() -> LogHistory:
    """a-0 moves from w-0 to w-1; a-1 is held for w-1, which was killed and is back, and then fails once."""
    script: list[tuple[int, TaskId, TaskState, str, str]] = [
        (0, A0, TaskState.STARTING, "w-0", ""),
        (1, A0, TaskState.RUNNING, "w-0", ""),
        (1, A1, TaskState.RUNNING, "w-1", ""),
        (5, A0, TaskState.RUNNING, "w-0", ""),
        (10, A0, TaskState.STOPPING, "w-0", ""),
        (12, A0, TaskState.UNASSIGNED, "w-0", ""),
        (13, A0, TaskState.RUNNING, "w-1", ""),
        (30, A1, TaskState.STARTING, "w-1", ""),
        (31, A1, TaskState.RUNNING, "w-1", ""),
        (40, A1, TaskState.RESTARTING, "w-1", "no disk"),
        (50, A1, TaskState.STARTING, "w-1", ""),
        (51, A1, TaskState.RUNNING, "w-1", ""),
        (55, A1, TaskState.PAUSED, "w-1", ""),
    ]
    transport = MemoryTransport(MemoryBroker())
    config = LogsConfig("memory", "lake")
    ensure_topics_of(transport, config.topic_names, 1, 5_000)
    logs = Logs(transport, config)
    try:
        logs.writer.open()
        for seconds, task, state, worker, trace in script:
            status = TaskStatus(task, state, worker, Epoch(1, 1), at(seconds), trace)
            logs.status.put(status)
            logs.status.flush(5_000)
        hold = Hold(frozenset({A1}), since_ms=at(20), deadline_ms=at(80))
        for memory in (
            Memory(term=1),
            Memory(term=1, holds={"w-1": hold}),
            Memory(term=2, holds={"w-1": hold}),
        ):
            logs.writer.write_leader(memory=memory)
        return read_history(transport, config, 5_000)
    finally:
        logs.close()


def drawn(from_s: int, to_s: int) -> list[Stretch]:
    said = history()
    return stretches(said.statuses, said.memories, at(from_s), at(to_s))


def test_the_history_of_tasks_by_member() -> None:
    assert drawn(0, 60) == [
        Stretch(A0, StretchKind.RUNNING, "w-0", at(1), at(12)),
        Stretch(A0, StretchKind.RUNNING, "w-1", at(13), at(60)),
        Stretch(A1, StretchKind.RUNNING, "w-1", at(1), at(20)),
        Stretch(A1, StretchKind.HELD, "w-1", at(20), at(30)),
        Stretch(A1, StretchKind.RUNNING, "w-1", at(31), at(40)),
        Stretch(A1, StretchKind.FAILED, "w-1", at(40), at(50)),
        Stretch(A1, StretchKind.RUNNING, "w-1", at(51), at(55)),
        Stretch(A1, StretchKind.PAUSED, "w-1", at(55), at(60)),
    ]


def lone(reason: HoldReason, *memories: bool) -> list[Stretch]:
    """a-0 runs at w-0, nothing more is said of it, and so it goes through memories with or without a hold."""
    hold = Hold(frozenset({A0}), since_ms=at(10), deadline_ms=at(30), reason=reason)
    runs = TaskStatus(A0, TaskState.RUNNING, "w-0", Epoch(1, 1), at(0))
    said = [Memory(holds={"w-0": hold} if held else {}) for held in memories]
    return stretches([runs], said, at(0), at(60))


def test_a_hold_that_lasts_ends_at_its_end() -> None:
    assert lone(HoldReason.DEPARTED, False, True) == [
        Stretch(A0, StretchKind.RUNNING, "w-0", at(0), at(10)),
        Stretch(A0, StretchKind.HELD, "w-0", at(10), at(30)),
    ]


@pytest.mark.parametrize(
    ("reason", "memories"),
    [
        (HoldReason.DEPARTED, (True, False)),
        (HoldReason.UNPROVEN, (True, False)),
        (HoldReason.EVICTED, (True,)),
    ],
)
def test_a_member_that_was_only_out_of_touch_ran_on(reason: HoldReason, memories: tuple[bool, ...]) -> None:
    assert lone(reason, *memories) == [Stretch(A0, StretchKind.RUNNING, "w-0", at(0), at(60))]


def test_any_period_is_cut_out() -> None:
    assert drawn(25, 35) == [
        Stretch(A0, StretchKind.RUNNING, "w-1", at(25), at(35)),
        Stretch(A1, StretchKind.HELD, "w-1", at(25), at(30)),
        Stretch(A1, StretchKind.RUNNING, "w-1", at(31), at(35)),
    ]
    assert drawn(-60, 0) == []


def test_each_stretch_is_a_bar_of_the_file_whose_bytes_are_always_the_same(tmp_path: Path) -> None:
    found = drawn(0, 60)
    files = [tmp_path / "one.svg", tmp_path / "two.svg"]
    for file in files:
        draw(found, at(0), at(60), file)
    text = files[0].read_text()
    bars = re.findall(r'<g id="(a-\d \w+ w-\d \d+ \d+)">', text)
    assert bars == [f"{o.task} {o.kind.value} {o.member} {o.since_ms} {o.until_ms}" for o in found]
    assert all(f">{word}<" in text for word in ("w-0", "w-1", "failed", "held for it", "a-0", "a-1"))
    assert text == files[1].read_text()
    assert ">time (UTC)<" in text
    assert "seconds since" not in text
    # 1,700,000,000 s after the epoch are 22:13:20 on 2023-11-14.
    clock = re.findall(r">(22:1\d(?::\d\d)?|:?\d\ds?)<", text)
    assert clock, "ticks are times of day"


def test_a_picture_begins_when_something_ran(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    group = {"namespace": "default", "worker": "lake", "group_id": "lake"}
    view = {"groups": [group], "workers": [], "bootstrap_servers": "memory"}
    monkeypatch.setattr(picture, "ask_host", lambda state: view)
    monkeypatch.setattr(local_history, "read_history", lambda transport, config: history())
    write_json(tmp_path / "cluster.json", {"id": "x"})
    picture.picture(
        "lake", tmp_path / "a.svg", minutes=60, until=at(61) / 1000, state=tmp_path, namespace="default"
    )
    assert "a.svg: 2 tasks, 1.0 minutes" in capsys.readouterr().out
    picture.picture(
        "lake", tmp_path / "b.svg", minutes=0.5, until=at(61) / 1000, state=tmp_path, namespace="default"
    )
    assert "b.svg: 2 tasks, 0.5 minutes" in capsys.readouterr().out


def test_without_the_library_the_remedy_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(NotInstalled, match=r"pip install 'cooperator\[pictures\]'"):
        draw(drawn(0, 60), at(0), at(60), tmp_path / "none.svg")
    assert list(tmp_path.iterdir()) == []
