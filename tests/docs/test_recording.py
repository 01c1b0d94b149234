"""The recording of the demo: what the command draws, and the picture that the README shows."""

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import pytest

from tests.docs.project import ROOT

PICTURE = ROOT / "docs" / "pictures" / "demo.svg"
SVG = "{http://www.w3.org/2000/svg}"
MACHINE_PATH = re.compile(r"(?<![\w.])/(?:tmp|home|root|usr|var|work|opt)\b")
PROGRAM = r"""
import os, sys
print("\x1b[1mmembers\x1b[0m   \x1b[32m3 run\x1b[0m  <all>")
sys.stdout.flush()
while not os.path.exists("seen"): pass
print("\x1b[1A\x1b[2Kmembers   \x1b[33mheld\x1b[0m")
print("the lake: " + sys.argv[1])
"""


@pytest.fixture(scope="module")
def recording() -> ModuleType:
    spec = importlib.util.spec_from_file_location("recording", ROOT / "docs" / "recording.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["recording"] = module
    spec.loader.exec_module(module)
    return module


def shown(picture: str) -> list[list[str]]:
    """The text of each line of each shot."""
    root = ElementTree.fromstring(picture)
    texts = {f"#{text.get('id')}": text.text for text in root.iter(f"{SVG}text")}
    lines = {
        f"#{group.get('id')}": " ".join(texts[use.get("href")] for use in group)
        for group in root.find(f"{SVG}defs").iter(f"{SVG}g")
    }
    [film] = [each for each in root.iter(f"{SVG}g") if each.get("id") == "film"]
    return [[lines[use.get("href")] for use in shot] for shot in film]


def test_a_recording_shows_what_the_terminal_showed(recording: ModuleType, tmp_path: Path) -> None:
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "lake")]
    output = []
    for part in recording.output_of(command, {}, tmp_path):
        output.append(part)
        if b"<all>" in part[1]:
            (tmp_path / "seen").touch()
    shots = recording.chosen(recording.shots_of(output, {re.escape(str(tmp_path)): ".cooperator"}), 0.0)
    picture = recording.svg(shots, "hash")
    assert shown(picture)[0] == ["members 3 run <all>"]
    assert shown(picture)[-1] == ["members held", "the lake: .cooperator/lake"]
    assert 'class="green"' in picture
    assert 'class="default b"' in picture
    assert str(tmp_path) not in picture


def test_fewer_shots_are_kept_until_the_picture_fits(recording: ModuleType) -> None:
    def shots(number: int) -> list:
        return [
            recording.Shot(0.5 * at, ((recording.Words(0, f"{at} {'x' * 90}", "default", False),),) * 40)
            for at in range(number)
        ]

    assert len(shown(recording.drawn(shots(20), "hash"))) == 20
    picture = recording.drawn(shots(400), "hash")
    assert len(picture) <= recording.MOST_BYTES
    assert len(shown(picture)) < 400
    assert shown(picture)[-1][0].startswith("399 "), "the end is always shown"


def test_a_program_that_fails_is_not_recorded(recording: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(Exception, match="exit status 3"):
        list(recording.output_of([sys.executable, "-c", "raise SystemExit(3)"], {}, tmp_path))


def test_the_readme_shows_a_recording_of_a_run_that_was_right(recording: ModuleType) -> None:
    assert "(docs/pictures/demo.svg)" in (ROOT / "README.md").read_text()
    picture = PICTURE.read_text()
    assert len(picture.encode()) <= recording.MOST_BYTES
    assert MACHINE_PATH.findall(picture) == []
    shots = shown(picture)
    assert any("missing, doubled 0, 0" in line for line in shots[-1])
    assert any(re.search(r"is back after \d+ s and has exactly its own tasks", line) for line in shots[-1])
    assert any(re.search(r"HELD for lake-\d", line) for shot in shots for line in shot)
