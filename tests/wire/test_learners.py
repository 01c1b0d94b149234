"""``POST /learners``: reports of members that learn, and the leader's answers."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cooperator.model import LearnerProgress, TaskId, ToLearn
from cooperator.wire import (
    DecodeError,
    LearnerAnswer,
    LearnerReport,
    decode_learner_answer,
    decode_learner_report,
    encode_learner_answer,
    encode_learner_report,
)
from tests.wire.strategies import TASKS

SIZES = st.integers(0, 2**53)
LEARNED = st.builds(LearnerProgress, st.none() | SIZES, SIZES, st.text(max_size=9))
TO_LEARN = st.builds(ToLearn, TASKS, st.sampled_from(["warmup", "standby", "shadow"]), SIZES)


@given(st.builds(LearnerReport, st.text(), st.dictionaries(TASKS, LEARNED, max_size=5)))
def test_reports_are_read_as_written(report: LearnerReport) -> None:
    assert decode_learner_report(encode_learner_report(report)) == report


@given(st.builds(LearnerAnswer, st.lists(TO_LEARN, max_size=5).map(tuple), SIZES))
def test_answers_are_read_as_written(answer: LearnerAnswer) -> None:
    assert decode_learner_answer(encode_learner_answer(answer)) == answer


def test_fields_of_a_later_release_are_skipped() -> None:
    learned = {"connector": "a", "task": 0, "bytes_behind": None, "state_bytes": 7, "files": 3}
    report = {"v": 1, "member_id": "m", "learned": [learned], "zone": "x"}
    read = decode_learner_report(json.dumps(report).encode())
    assert read == LearnerReport("m", {TaskId("a", 0): LearnerProgress(None, 7)})


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"v": 2, "member_id": "m"}, "version 2 cannot be read"),
        ({"v": 1}, "member_id: missing"),
        ({"v": 1, "member_id": "m", "learned": [{"task": 0}]}, r"learned\[0\].connector: missing"),
        (
            {"v": 1, "member_id": "m", "learned": [{"connector": "a", "task": 0, "bytes_behind": -1}]},
            "a-0 has a negative number of bytes",
        ),
        ([], "instead of an object"),
    ],
)
def test_an_unreadable_report_is_refused_by_name(body: object, message: str) -> None:
    with pytest.raises(DecodeError, match=message):
        decode_learner_report(json.dumps(body).encode())


@given(st.binary(max_size=60))
def test_garbage_is_a_decode_error_and_nothing_else(body: bytes) -> None:
    for decode in (decode_learner_report, decode_learner_answer):
        with pytest.raises(DecodeError):
            decode(body)
