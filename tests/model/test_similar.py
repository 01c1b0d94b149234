"""Suggestions for unknown words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cooperator.model.text import choice, did_you_mean, hinted, otherwise, suggestion

FORMATS = ("parquet", "json", "csv")
OPTIONS = ("path", "max.files.per.trigger", "tasksMax")


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [
        ("parqet", "parquet"),
        ("Parquet", "parquet"),
        ("PARKET", "parquet"),
        ("jsno", "json"),
        ("cvs", ""),
        ("avro", ""),
        ("", ""),
    ],
)
def test_a_word_with_a_slip_is_known_again(wrong: str, meant: str) -> None:
    assert did_you_mean(wrong, FORMATS) == (f"did you mean {meant!r}?" if meant else "")


@pytest.mark.parametrize("wrong", ["max_files_per_trigger", "max-files-per-triger", "maxFilesPerTrigger"])
def test_case_and_separators_do_not_count(wrong: str) -> None:
    assert did_you_mean(wrong, OPTIONS) == "did you mean 'max.files.per.trigger'?"


def test_the_choices_are_listed_when_no_name_is_similar() -> None:
    assert suggestion("jsno", FORMATS) == "did you mean 'json'?"
    assert suggestion("avro", FORMATS) == "use one of parquet, json, csv"
    assert suggestion("avro", ()) == "remove it"
    assert choice("jsno", FORMATS) == "did you mean 'json'? use one of parquet, json, csv"
    assert hinted("jsno", FORMATS, "known: 3") == "did you mean 'json'? known: 3"
    assert hinted("avro", FORMATS, "known: 3") == "known: 3"
    assert otherwise("did you mean 'a'?", "install it") == "did you mean 'a'? Otherwise install it"
    assert otherwise("", "install it") == "install it"


@given(st.text(), st.lists(st.text(), max_size=5))
def test_only_what_is_known_is_suggested(wrong: str, known: list[str]) -> None:
    hint = did_you_mean(wrong, known)
    assert not hint or hint in {f"did you mean {name!r}?" for name in known}
