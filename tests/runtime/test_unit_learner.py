"""One unit is learned: it is followed over commits, removals and failures, and never written to."""

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from cooperator.connectors.learned_state import NotLearnable, StoreFiles, StoreKey, files_of, versions_in
from cooperator.connectors.offsets.unit_log import content_of, record_setting, recorded_settings
from cooperator.runtime.unit_learner import SKIPPED, Behind, Disk, NoRoom
from tests.runtime.learned_unit import CHANGELOG, SNAPSHOT, Stores, Unit


@pytest.fixture
def unit(tmp_path: Path) -> Unit:
    return Unit(tmp_path / "checkpoint")


class Learning(RuleBasedStateMachine):
    """An owner that commits, uploads, cleans up and is reset; a learner that looks; a storage that fails."""

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp())
        self.unit = Unit(self.root / "checkpoint")
        self.stores = Stores(self.unit)
        self.learner = self.stores.learner(self.root / "local")
        self.kept = 3

    @rule()
    def commits(self) -> None:
        self.unit.commit()

    @precondition(lambda self: self.unit.batch >= 0)
    @rule()
    def uploads_a_snapshot(self) -> None:
        self.unit.upload()

    @precondition(lambda self: self.unit.batch >= 0)
    @rule()
    def removes_old_files(self) -> None:
        self.unit.maintain(self.kept)

    @precondition(lambda self: self.unit.checkpoint.exists())
    @rule()
    def is_reset(self) -> None:
        self.unit.reset()

    @rule(is_broken=st.booleans())
    def the_storage_changes(self, is_broken: bool) -> None:
        self.stores.is_broken = is_broken
        for store in self.stores.values():
            store.is_broken = is_broken

    @rule()
    def looks(self) -> None:
        before = self.unit.digest()
        try:
            behind = self.learner.look()
        except OSError:
            assert self.stores.is_broken, "a whole checkpoint can be read"
            return
        finally:
            assert self.unit.digest() == before, "a learner has written to the checkpoint"
        assert behind.bytes == 0
        if self.unit.batch >= 0:
            newest = (self.unit.batch + 1, self.unit.id_of(self.unit.batch))
            assert {key: self.stores[key].at for key in self.unit.keys} == dict.fromkeys(
                self.unit.keys, newest
            )

    @rule()
    def begins_anew(self) -> None:
        self.learner.close()
        assert not (self.root / "local").exists(), "files are left"

    @invariant()
    def only_the_newest_stores_are_open(self) -> None:
        opened = [store for store in self.stores.opened if store.is_open]
        assert len(opened) <= len(self.unit.keys)

    def teardown(self) -> None:
        self.learner.close()
        assert not any(store.is_open for store in self.stores.opened)
        shutil.rmtree(self.root)


TestLearning = Learning.TestCase
TestLearning.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)


def test_a_learner_tells_how_much_it_has_to_read(unit: Unit, tmp_path: Path) -> None:
    told: list[Behind] = []
    stores = Stores(unit)
    learner = stores.learner(tmp_path / "local", told.append, skipped=SKIPPED)
    assert learner.look() == Behind(0, 0), "a unit without a commit"
    for _ in range(3):
        unit.commit()
    unit.upload()
    unit.commit()
    whole = SNAPSHOT + 1 + CHANGELOG
    assert learner.look() == Behind(0, 2 * whole)
    assert told == [Behind(2 * whole, 2 * whole, unread=2), Behind(whole, 2 * whole, unread=1)]
    unit.commit()
    told.clear()
    learner.look()
    assert told[0].bytes == 2 * CHANGELOG


def test_a_store_is_asked_once_for_each_commit_and_each_snapshot(unit: Unit, tmp_path: Path) -> None:
    stores = Stores(unit)
    learner = stores.learner(tmp_path / "local")
    unit.commit()
    for _ in range(3):
        learner.look()
    assert [store.follows for store in stores.opened] == [1, 1]
    unit.upload()
    for _ in range(3):
        learner.look()
    assert [store.follows for store in stores.opened] == [2, 2], "a snapshot without a commit"


def test_a_snapshot_without_a_commit_is_looked_for_now_and_then(unit: Unit, tmp_path: Path) -> None:
    stores = Stores(unit)
    learner = stores.learner(tmp_path / "local", skipped=3)
    unit.commit()
    learner.look()
    unit.upload()
    for follows in (1, 1, 1, 2):
        learner.look()
        assert stores.opened[0].follows == follows
    unit.commit()
    learner.look()
    assert stores.opened[0].follows == 3, "a commit is followed at once"


def test_a_full_disk_is_named(unit: Unit, tmp_path: Path) -> None:
    unit.commit()
    unit.upload()
    stores = Stores(unit)
    learner = stores.learner(tmp_path / "local", disk=lambda path: Disk(1000, 300))
    with pytest.raises(
        NoRoom, match=r"a state of 202 bytes is not learned, since .* has 300 bytes free, and"
    ):
        learner.look()
    assert not stores.opened
    roomy = stores.learner(tmp_path / "local", disk=lambda path: Disk(1000, 302))
    assert roomy.look().bytes == 0


def test_a_join_has_four_stores(tmp_path: Path) -> None:
    names = ("left-keyToNumValues", "left-keyWithIndexToValue")
    unit = Unit(tmp_path / "checkpoint", 1, (*names, "right-keyToNumValues", "right-keyWithIndexToValue"))
    unit.commit()
    stores = Stores(unit)
    assert stores.learner(tmp_path / "local").look() == Behind(0, 4 * CHANGELOG)
    assert stores.keys() == set(unit.keys)


def test_state_that_cannot_be_learned_is_named(unit: Unit, tmp_path: Path) -> None:
    learner = Stores(unit).learner(tmp_path / "local")
    unit.commit()
    (unit.checkpoint / "state" / "0" / "_metadata" / "v2").mkdir(parents=True)
    with pytest.raises(NotLearnable, match=r"operator 0 in .* has variables \(transformWithState\)"):
        learner.look()
    unit.entry(1, {}, version=1)
    with pytest.raises(NotLearnable, match=r"is of format 1, .*: create the connector under another name"):
        learner.look()
    with pytest.raises(NotLearnable, match="operator 3 has 2 stores"):
        versions_in('{"stateUniqueIds": {"3": [["a", "b"]]}}', 7)


def test_a_query_without_state_has_caught_up_at_once(unit: Unit, tmp_path: Path) -> None:
    unit.entry(0, {}, version=1)
    assert Stores(unit).learner(tmp_path / "local").look() == Behind(0, 0)


@pytest.mark.parametrize(
    ("learned", "version", "left"), [(None, 7, 230), (5, 7, 30), (7, 7, 0), (None, 5, 200), (4, 6, 20)]
)
def test_later_changelogs_are_left_to_read(learned: int | None, version: int, left: int) -> None:
    files = StoreFiles({5: 10, 6: 10, 7: 20}, 5, 200)
    assert files.behind(learned, version) == left


def test_files_of_other_kinds_do_not_count(unit: Unit) -> None:
    unit.commit()
    place = unit.place(StoreKey(0, 0))
    (place / ".1_id-0-0.changelog.crc").write_bytes(b"12345")
    (place / "_metadata").mkdir()
    assert files_of(unit.checkpoint, StoreKey(0, 0)) == StoreFiles({1: CHANGELOG}, 0, 0)


def test_a_setting_of_the_newest_batch_is_replaced_and_nothing_else(tmp_path: Path) -> None:
    offsets = tmp_path / "offsets"
    offsets.mkdir()
    for batch in (0, 1):
        metadata = '{"batchTimestampMs":7,"conf":{"a":"1","b":"2"}}'
        (offsets / f"{batch}").write_text(f'v1\n{metadata}\n{{"logOffset":{batch}}}')
    (offsets / ".1.crc").touch()
    before, content = (offsets / "0").read_text(), content_of(tmp_path, 1)
    record_setting(tmp_path, "a", "3")
    assert recorded_settings(tmp_path) == {"a": "3", "b": "2"}
    assert content_of(tmp_path, 1) == content, "the batch is the same"
    assert (offsets / "0").read_text() == before
    assert not (offsets / ".1.crc").exists(), "Spark would compare it"
