"""``POST /learners``: a member's report of the tasks that it learns, and the leader's answer.

    {"v": 1, "member_id": "…", "learned": [{"connector", "task", "bytes_behind", "state_bytes", "problem"}]}
    {"v": 1, "learn": [{"connector", "task", "role", "acceptable_lag_bytes"}], "again_ms": 5000}

New fields keep the version, and readers skip fields that they do not know; a reader refuses another version.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from cooperator.model import LearnerProgress, TaskId, ToLearn
from cooperator.wire.fields import Fields
from cooperator.wire.primitives import DecodeError
from cooperator.wire.records import dump_json, parse_json

_VERSION: Final = 1
_MOST_PROBLEM: Final = 1_000
"""The limit of a problem's text, in characters."""


class LearnerReport(NamedTuple):
    """A member's report, by the member id that it has in the group."""

    member_id: str
    learned: Mapping[TaskId, LearnerProgress]


class LearnerAnswer(NamedTuple):
    """All that the member is to learn now, and when (ms) it asks again."""

    learn: tuple[ToLearn, ...]
    again_ms: int


def encode_learner_report(report: LearnerReport) -> bytes:
    learned = [
        {
            "connector": task.connector,
            "task": task.task,
            "bytes_behind": each.behind_bytes,
            "state_bytes": each.state_bytes,
            "problem": each.problem,
        }
        for task, each in sorted(report.learned.items())
    ]
    value = {"v": _VERSION, "member_id": report.member_id, "learned": learned}
    return dump_json(value, "learners")


def decode_learner_report(body: bytes) -> LearnerReport:
    """Raises DecodeError."""
    fields = _fields(body)
    learned: dict[TaskId, LearnerProgress] = {}
    for task, each in _tasks(fields, "learned"):
        behind_bytes = each.integer("bytes_behind") if "bytes_behind" in each else None
        state_bytes = each.integer("state_bytes", 0)
        if state_bytes < 0 or (behind_bytes or 0) < 0:
            raise DecodeError(f"learners.learned: {task} has a negative number of bytes")
        learned[task] = LearnerProgress(behind_bytes, state_bytes, each.text("problem", "")[:_MOST_PROBLEM])
    return LearnerReport(fields.text("member_id"), learned)


def encode_learner_answer(answer: LearnerAnswer) -> bytes:
    learn = [
        {
            "connector": each.task.connector,
            "task": each.task.task,
            "role": each.role,
            "acceptable_lag_bytes": each.acceptable_lag_bytes,
        }
        for each in answer.learn
    ]
    return dump_json({"v": _VERSION, "learn": learn, "again_ms": answer.again_ms}, "learners")


def decode_learner_answer(body: bytes) -> LearnerAnswer:
    """Raises DecodeError."""
    fields = _fields(body)
    learn = [
        ToLearn(task, each.text("role", ""), each.integer("acceptable_lag_bytes", 0))
        for task, each in _tasks(fields, "learn")
    ]
    return LearnerAnswer(tuple(learn), fields.integer("again_ms"))


def _fields(body: bytes) -> Fields:
    fields = Fields(parse_json(body, "learners"), "learners")
    version = fields.integer("v")
    if version != _VERSION:
        raise DecodeError(f"learners.v: version {version} cannot be read, only {_VERSION}")
    return fields


def _tasks(fields: Fields, name: str) -> list[tuple[TaskId, Fields]]:
    values: list[dict[str, Any]] = fields.array_of(name, dict)
    each = [Fields(value, f"learners.{name}[{number}]") for number, value in enumerate(values)]
    return [(TaskId(one.text("connector"), one.integer("task")), one) for one in each]
