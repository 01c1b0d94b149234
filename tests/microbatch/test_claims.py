"""Names of attempts, and the records of claims and positions."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cooperator.connectors.microbatch.claims import (
    MAX_SLOTS,
    Claim,
    ClaimKey,
    InvalidName,
    NoteKey,
    Position,
    PositionKey,
    RawKey,
    TransactionalIds,
    UnitKey,
    UnreadableRecord,
    decode_position,
    decode_slots,
    split_key,
)
from cooperator.connectors.microbatch.positions import Ledger
from cooperator.model import Epoch

names = st.from_regex(r"[A-Za-z0-9._-]{1,30}", fullmatch=True)
numbers = st.integers(0, 10**12)
epochs = st.builds(Epoch, numbers, numbers)
claims = st.builds(Claim, epochs, numbers, names)
units = st.builds(UnitKey, names, names)
slots = st.builds(TransactionalIds, st.text(min_size=1), st.integers(1, MAX_SLOTS))
positions = st.builds(Position, st.integers(0, 2**63 - 1), claims, st.text())

CLAIM = Claim(Epoch(3, 17), 2, "lake-0_incarnation-1")
UNIT = UnitKey("copy", "lines-0")


def test_records_look_like_this() -> None:
    assert ClaimKey(UNIT, CLAIM).encode() == b"c/copy/lines-0/3-17-2-lake-0_incarnation-1"
    assert (
        TransactionalIds("lake-tasks/copy/0", 4).encode()
        == b'{"version":1,"prefix":"lake-tasks/copy/0","slots":4}'
    )
    assert PositionKey(UNIT).encode() == b"p/copy/lines-0"
    assert Position(12, CLAIM).encode() == b'{"version":1,"next":12,"claim":"3-17-2-lake-0_incarnation-1"}'
    assert TransactionalIds("lake-tasks/copy/0", 2).ids == ("lake-tasks/copy/0/0", "lake-tasks/copy/0/1")


@given(units, claims, slots, positions)
def test_a_written_claim_is_read_back(
    unit: UnitKey, claim: Claim, own: TransactionalIds, position: Position
) -> None:
    assert Claim.parse(str(claim)) == claim
    ledger = Ledger()
    ledger.apply(ClaimKey(unit, claim).encode(), own.encode())
    ledger.apply(PositionKey(unit).encode(), position.encode())
    assert ledger.claims([unit]) == {unit: {claim: own}}
    assert ledger.positions([unit]) == {unit: position}
    ledger.apply(ClaimKey(unit, claim).encode(), None)
    ledger.apply(PositionKey(unit).encode(), None)
    assert ledger.claims([unit]) == {unit: {}}
    assert ledger.positions([unit]) == {}


@given(st.tuples(units, claims), st.tuples(units, claims))
def test_keys_are_unambiguous(one: tuple[UnitKey, Claim], other: tuple[UnitKey, Claim]) -> None:
    assert (ClaimKey(*one).encode() == ClaimKey(*other).encode()) == (one == other)
    assert (PositionKey(one[0]).encode() == PositionKey(other[0]).encode()) == (one[0] == other[0])
    assert ClaimKey(*one).encode() != PositionKey(other[0]).encode()
    assert split_key(PositionKey(one[0]).encode()) == RawKey(one[0])
    assert split_key(NoteKey(*one[0]).encode()) == RawKey(one[0], is_note=True)


@given(claims, claims)
def test_claims_compare_by_term_generation_and_attempt(one: Claim, other: Claim) -> None:
    order = (one.epoch, one.attempt, one.owner), (other.epoch, other.attempt, other.owner)
    assert (one < other) == (order[0] < order[1])


@given(st.integers(-5, 5), st.integers(-5, 5), numbers, st.text(min_size=1))
def test_any_owner_makes_a_claim_that_can_be_a_key(
    term: int, generation: int, attempt: int, owner: str
) -> None:
    claim = Claim.of(Epoch(term, generation), attempt, owner)
    assert Claim.parse(str(claim)) == claim
    assert split_key(ClaimKey(UNIT, claim).encode()) == RawKey(UNIT, str(claim))


@given(st.binary(), st.none() | st.binary())
def test_records_of_other_kinds_are_passed_over(key: bytes, value: bytes | None) -> None:
    ledger = Ledger()
    ledger.apply(key, value)
    ledger.apply(None, value)
    assert ledger.claims([UNIT]) == {UNIT: {}}


def test_fields_that_are_not_known_are_passed_over() -> None:
    value = {"version": 1, "next": 3, "claim": str(CLAIM), "epoch": [3, 17], "later": {}}
    assert decode_position(b"p/a/b", json.dumps(value).encode()) == Position(3, CLAIM)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (b"no json", "value = b'no json': it is not JSON"),
        (b"[1]", r"value = b'\[1\]': it is no JSON object"),
        (b'{"version":2}', "version = 2 is of another release, which knows 1; use the release that wrote it"),
        (b'{"prefix":"a","slots":1}', "version = None: it is no integer"),
        (b'{"version":1,"slots":1}', "prefix = None: it is no text"),
        (b'{"version":1,"prefix":"a","slots":true}', "slots = True: it is no integer"),
        (
            b'{"version":1,"prefix":"a","slots":100000}',
            "slots = 100000 is not a number of slots; use 1 to 1024",
        ),
        (b'{"version":1,"prefix":"","slots":1}', "prefix = '' is empty"),
    ],
)
def test_a_claim_that_cannot_be_read_is_refused(value: bytes, text: str) -> None:
    with pytest.raises(UnreadableRecord, match=f"record c/copy/u/1-1-1-a: .*{text}"):
        decode_slots(b"c/copy/u/1-1-1-a", value)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (b'{"version":1,"next":"7","claim":"1-1-1-a"}', "next = '7': it is no integer"),
        (b'{"version":1,"next":-1,"claim":"1-1-1-a"}', "next = -1 is no offset"),
        (
            b'{"version":1,"next":1,"claim":"01-1-1-a"}',
            "'01-1-1-a' is no claim; use TERM-GENERATION-ATTEMPT-OWNER",
        ),
        (b'{"version":1,"next":1,"claim":"1-1-a"}', "'1-1-a' is no claim"),
    ],
)
def test_a_position_that_cannot_be_read_is_refused(value: bytes, text: str) -> None:
    with pytest.raises(UnreadableRecord, match=f"record p/copy/u: .*{text}.*stop the connector"):
        decode_position(b"p/copy/u", value)


def test_an_unreadable_claim_stops_only_its_own_unit() -> None:
    ledger = Ledger()
    ledger.apply(b"c/copy/lines-0/nobody", b"{}")
    ledger.apply(ClaimKey(UnitKey("other", "u"), CLAIM).encode(), TransactionalIds("p", 1).encode())
    assert ledger.claims([UnitKey("other", "u")]) == {
        UnitKey("other", "u"): {CLAIM: TransactionalIds("p", 1)}
    }
    with pytest.raises(UnreadableRecord, match=r"record c/copy/lines-0/nobody: claim = 'nobody'"):
        ledger.claims([UNIT])


@pytest.mark.parametrize("name", ["a b", "ä", 'public."größe" $1, 50%', "ß" * 300])
def test_a_unit_may_have_the_name_of_any_table(name: str) -> None:
    unit = UnitKey("copy", name)
    assert split_key(PositionKey(unit).encode()) == (unit, "", False)
    assert split_key(ClaimKey(unit, CLAIM).encode()) == (unit, str(CLAIM), False)


@pytest.mark.parametrize("name", ["", "a/b", "a b", "ä", "a\n", "x" * 301])
def test_names_that_would_make_keys_ambiguous_are_refused(name: str) -> None:
    if name not in ("a b", "ä"):
        refused = rf"unit = {re.escape(repr(name))} .*use 1 to 300 printable characters"
        with pytest.raises(InvalidName, match=refused):
            PositionKey(UnitKey("copy", name)).encode()
    with pytest.raises(InvalidName, match="connector = "):
        ClaimKey(UnitKey(name, "u"), CLAIM).encode()
    with pytest.raises(InvalidName, match="owner = "):
        Claim(Epoch(1, 1), 1, name)


def test_attempts_share_transactional_ids_only_if_they_have_the_same_units() -> None:
    def prefix(*units: str) -> str:
        return TransactionalIds.of_units("lake", "copy", units, 2).prefix

    assert prefix("a-0", "a-1") == prefix("a-1", "a-0") == "lake-units/copy/0dc362cb823a3aab1efa"
    assert len({prefix("a-0"), prefix("a-1"), prefix("a-0", "a-1"), prefix("a-0-a-1")}) == 4


def test_a_position_keeps_the_id_of_its_topic_and_older_ones_have_none() -> None:
    position = Position(7, CLAIM, "uO4QT2-0SnWhhoe5fBgqBw")
    assert decode_position(b"p/copy/u", position.encode()) == position
    assert decode_position(b"p/copy/u", Position(7, CLAIM).encode()).topic_id == ""
    with pytest.raises(UnreadableRecord, match="topic_id = 7: it is no text"):
        decode_position(b"p/copy/u", f'{{"version":1,"next":7,"claim":"{CLAIM}","topic_id":7}}'.encode())


def test_notes_of_a_connector_are_kept_apart_from_its_positions() -> None:
    ledger = Ledger()
    note, unit = NoteKey("copy", "u"), UnitKey("copy", "u")
    ledger.apply(note.encode(), b"text")
    ledger.apply(NoteKey("other", "u").encode(), b"another")
    assert (ledger.note(note), ledger.positions([unit]), ledger.units("copy")) == (b"text", {}, frozenset())
    ledger.apply(PositionKey(unit).encode(), Position(7, CLAIM).encode())
    ledger.apply(note.encode(), None)
    assert (ledger.note(note), ledger.units("copy")) == (None, {unit})
    assert ledger.notes("other") == {NoteKey("other", "u")}
