"""A Connector names Python Data Sources that installed packages declare, and no module."""

import sys
from pathlib import Path

import pytest

from cooperator.connectors import data_sources
from cooperator.connectors.options import OptionError


def declare(site: Path, monkeypatch: pytest.MonkeyPatch, lines: str, package: str = "sources") -> None:
    """Install a package with these entry points in ``site``."""
    about = site / f"{package}-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text(f"Name: {package}\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[{data_sources.GROUP}]\n{lines}\n")
    monkeypatch.syspath_prepend(str(site))


@pytest.fixture
def trap(tmp_path: Path) -> Path:
    """The file that appears when the module ``trap`` is imported."""
    sprung = tmp_path / "sprung"
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "trap.py").write_text(f"open({str(sprung)!r}, 'w')\nclass Trap: ...\n")
    return sprung


def refused(name: str) -> str:
    with pytest.raises(OptionError) as error:
        data_sources.load(name)
    return str(error.value)


def test_a_declared_class_is_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    declare(tmp_path, monkeypatch, "numbers = fractions:Fraction")
    assert data_sources.load("numbers").__name__ == "Fraction"


@pytest.mark.parametrize("name", ["trap", "trap:Trap", "trap.Trap", "os:system", "noop", "spark"])
def test_what_is_not_declared_is_not_imported(
    name: str, tmp_path: Path, trap: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    declare(tmp_path / "site", monkeypatch, "numbers = fractions:Fraction")
    assert "is declared by no installed package" in refused(name)
    assert not trap.exists()
    assert "trap" not in sys.modules


def test_a_wrong_name_is_corrected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    declare(tmp_path, monkeypatch, "numbers = fractions:Fraction")
    assert "did you mean 'numbers'" in refused("nubmers")


def test_a_name_that_two_packages_declare_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    declare(tmp_path, monkeypatch, "numbers = fractions:Fraction", "one")
    declare(tmp_path, monkeypatch, "numbers = decimal:Decimal", "two")
    assert "is declared more than once, as decimal:Decimal and fractions:Fraction" in refused("numbers")


def test_a_declared_class_that_is_missing_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    declare(tmp_path, monkeypatch, "numbers = fractions:Missing")
    assert "fractions:Missing cannot be loaded: AttributeError" in refused("numbers")
