"""The pictures of the documentation are up to date."""

import importlib.util
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    spec = importlib.util.spec_from_file_location("pictures", DOCS / "pictures.py")
    assert spec is not None
    assert spec.loader is not None
    pictures = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(pictures)
    folder = tmp_path_factory.mktemp("pictures")
    pictures.main(folder)
    return folder


@pytest.mark.parametrize("name", ["returns", "joins", "departs", "sums"])
def test_a_picture_is_up_to_date(drawn: Path, name: str) -> None:
    committed = (DOCS / "pictures" / f"{name}.svg").read_bytes()
    assert committed == (drawn / f"{name}.svg").read_bytes(), "out of date: python docs/pictures.py"
