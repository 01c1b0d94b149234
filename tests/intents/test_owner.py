"""A directory has one owner, and directories of Spark's file sink are no plain ones."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from cooperator.connectors.intents.owner import DirectoryOwner, settle_owner
from cooperator.connectors.options import OptionError


def test_the_first_connector_owns_a_directory_and_others_are_refused(tmp_path: Path) -> None:
    owners = [DirectoryOwner("lake", f"c{number}") for number in range(6)]
    barrier = threading.Barrier(len(owners))

    def refusal(owner: DirectoryOwner) -> str:
        barrier.wait()
        try:
            settle_owner(tmp_path, owner)
        except OptionError as error:
            return str(error)
        return ""

    with ThreadPoolExecutor(len(owners)) as pool:
        refusals = list(pool.map(refusal, owners))
    [winner] = [owner for owner, text in zip(owners, refusals, strict=True) if not text]
    for text in filter(None, refusals):
        assert f"is the directory of {winner}" in text
        assert "set another directory" in text
    settle_owner(tmp_path, winner)


def test_a_directory_inside_one_of_a_connector_is_refused(tmp_path: Path) -> None:
    settle_owner(tmp_path / "a", DirectoryOwner("lake", "c"))
    with pytest.raises(
        OptionError, match=r"'path'.*is inside .*/a, the directory of Connector c of the group lake"
    ):
        settle_owner(tmp_path / "a" / "b" / "c", DirectoryOwner("lake", "d"))
    assert not (tmp_path / "a" / "b").exists()
    settle_owner(tmp_path / "ab", DirectoryOwner("lake", "d"))


@pytest.mark.parametrize("unit", ["", "orders-0"], ids=["itself", "a unit's"])
def test_a_directory_of_sparks_file_sink_is_refused_with_the_way_out(tmp_path: Path, unit: str) -> None:
    (tmp_path / unit / "_spark_metadata").mkdir(parents=True)
    with pytest.raises(
        OptionError, match=r"'path'.*_spark_metadata.*set another directory.*migrate its offsets"
    ):
        settle_owner(tmp_path, DirectoryOwner("lake", "c"))
    assert not (tmp_path / "_cooperator").exists()
