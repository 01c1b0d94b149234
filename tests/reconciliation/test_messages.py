"""Bodies of reports and answers: read as they were written, or refused."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cooperator.model import TaskId, Warmth
from cooperator.reconciliation import Answer, MemberState, Rejection, Report
from cooperator.reconciliation.messages import decode_answer, decode_report, encode_answer, encode_report
from cooperator.wire import DecodeError
from tests.reconciliation.test_current import TASKS, tasks

NUMBERS = st.integers(0, 2**45)
NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
REPORTS = st.builds(
    Report,
    *(NAMES, NAMES, NUMBERS, NUMBERS, NUMBERS),
    *(tasks, tasks, st.booleans(), st.sampled_from(Warmth)),
)
ANSWERS = st.sampled_from(Rejection) | st.builds(
    Answer,
    NUMBERS,
    NUMBERS,
    st.sampled_from(MemberState),
    st.dictionaries(st.sampled_from(TASKS), NUMBERS),
    NUMBERS,
    NUMBERS,
)


@given(REPORTS, ANSWERS)
def test_bodies_are_read_as_they_were_written(report, answer):
    assert decode_report(encode_report(report)) == report
    assert decode_answer(encode_answer(answer)) == answer


@given(REPORTS, ANSWERS, st.data())
def test_damaged_bodies_are_read_or_refused(report, answer, data):
    for body, decode in ((encode_report(report), decode_report), (encode_answer(answer), decode_answer)):
        damaged = bytearray(body)
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
        with suppress(DecodeError):
            decode(bytes(damaged))


@pytest.mark.parametrize(
    ("decode", "body", "error"),
    [
        (decode_report, b"[]", "report: list instead of an object"),
        (decode_report, b'{"v":2}', "report.v: version 2 cannot be read, only 1: update this process"),
        (decode_report, b'{"v":1,"identity":"a"}', "report.incarnation: missing"),
        (decode_answer, b'{"v":1,"rejection":"LATER"}', "answer.rejection: 'LATER' is none of"),
        (decode_answer, b'{"v":1}', "answer.sequence: missing"),
    ],
)
def test_errors_name_the_field_and_the_value(decode, body, error):
    with pytest.raises(DecodeError, match=error.replace(".", r"\.")):
        decode(body)


def test_a_report_of_a_member_with_forty_tasks_is_small() -> None:
    owned = frozenset(TaskId("orders", number) for number in range(40))
    assert len(encode_report(Report("worker-7", "5f3a.1764115200000", 12, 345, 67, owned))) < 260
