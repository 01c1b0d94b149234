"""A member's names of its starts in a pod, and what the kubelet passes on of them."""

from pathlib import Path

import pytest

from cooperator.agent import pod
from cooperator.model import PodIncarnation, ended_by, termination_message


@pytest.fixture
def last_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "termination-log"
    file.touch()
    monkeypatch.setenv(pod.LAST_WORDS, str(file))
    return file


def test_a_message_names_every_start_up_to_its_own_without_a_clock(last_words: Path, tmp_path: Path) -> None:
    names = []
    for _ in range(3):
        last_words.write_text("")  # The kubelet makes a new file for each container.
        names.append(PodIncarnation.parse(pod.begin_incarnation("u-1", tmp_path / "state")))
        assert ended_by(last_words.read_text()) == set(names)
    assert len(set(names)) == 3


def test_starts_of_another_pod_in_the_same_directory_are_none_of_this_one(
    last_words: Path, tmp_path: Path
) -> None:
    pod.begin_incarnation("u-1", tmp_path)
    last_words.write_text("")
    own = pod.begin_incarnation("u-2", tmp_path)
    assert {str(each) for each in ended_by(last_words.read_text())} == {own}


def test_a_directory_that_cannot_be_written_costs_only_the_names_of_earlier_starts(
    last_words: Path, tmp_path: Path
) -> None:
    (tmp_path / "state").write_text("a file")
    own = pod.begin_incarnation("u-1", tmp_path / "state")
    assert {str(each) for each in ended_by(last_words.read_text())} == {own}


@pytest.mark.parametrize("text", ["", "a traceback", "u-1.1795822403000", "\nafter 0123456789abcdef"])
def test_a_message_without_a_name_proves_nothing(text: str) -> None:
    assert ended_by(text) == frozenset()


def test_the_line_of_a_watchdog_changes_no_name_and_the_kubelet_takes_all() -> None:
    starts = tuple(PodIncarnation("0" * 36, f"{number:016x}") for number in range(100))
    message = termination_message(starts[-1], starts[:-1]) + "frozen-by 0123456ab\n"
    assert len(message) < 2_048
    assert {starts[-1], starts[-2]} <= ended_by(message) <= set(starts)
