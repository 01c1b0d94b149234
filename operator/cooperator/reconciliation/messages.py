"""Reports and answers as bodies of HTTP requests and responses: JSON, with tasks as runs of numbers."""

from typing import Any, Final

from cooperator.model import Warmth
from cooperator.reconciliation.codec import read_tasks_by_epoch, tasks_by_epoch
from cooperator.reconciliation.current import MemberState
from cooperator.reconciliation.reports import Answer, Rejection, Report
from cooperator.wire import DecodeError
from cooperator.wire.fields import Fields, typed
from cooperator.wire.records import dump_json, parse_json
from cooperator.wire.taskset import TaskSetReader, TaskSetWriter

_VERSION: Final = 1


def encode_report(report: Report) -> bytes:
    """Return the body of a report. Raises EncodeError."""
    sets = TaskSetWriter()
    owned, stopping = sets.write(report.owned), sets.write(report.stopping)
    return dump_json(
        {
            "v": _VERSION,
            "identity": report.identity,
            "incarnation": report.incarnation,
            "term": report.term,
            "sequence": report.sequence,
            "epoch": report.member_epoch,
            "owned": owned,
            "stopping": stopping,
            "draining": report.draining,
            "warmth": report.warmth.value,
            "connectors": sets.names,
        },
        "report",
    )


def decode_report(body: bytes) -> Report:
    """Read a body. Raises DecodeError, also for a body of a newer version."""
    values, sets = _read(body, "report")
    return Report(
        values.text("identity"),
        values.text("incarnation"),
        values.integer("term"),
        values.integer("sequence"),
        values.integer("epoch"),
        sets.read(typed(values.value("owned"), list, "report.owned"), "report.owned"),
        sets.read(typed(values.value("stopping"), list, "report.stopping"), "report.stopping"),
        values.flag("draining"),
        values.choice("warmth", Warmth),
    )


def encode_answer(answer: Answer | Rejection) -> bytes:
    """Return the body of an answer. Raises EncodeError."""
    plain: dict[str, Any] = {"v": _VERSION}
    match answer:
        case Rejection():
            plain["rejection"] = answer.value
        case Answer():
            sets = TaskSetWriter()
            plain |= {
                "sequence": answer.sequence,
                "epoch": answer.member_epoch,
                "state": answer.state.value,
                "group_epoch": answer.group_epoch,
                "config_offset": answer.config_offset,
                "assigned": tasks_by_epoch(answer.assigned, sets),
                "connectors": sets.names,
            }
    return dump_json(plain, "answer")


def decode_answer(body: bytes) -> Answer | Rejection:
    """Read a body. Raises DecodeError, also for a rejection of a later release: the member waits and reports
    again.
    """
    values, sets = _read(body, "answer")
    if "rejection" in values:
        return values.choice("rejection", Rejection)
    return Answer(
        values.integer("sequence"),
        values.integer("epoch"),
        values.choice("state", MemberState),
        read_tasks_by_epoch(values.object("assigned"), sets),
        values.integer("group_epoch"),
        values.integer("config_offset"),
    )


def _read(body: bytes, what: str) -> tuple[Fields, TaskSetReader]:
    values = Fields(parse_json(body, what), what)
    version = values.integer("v")
    if version != _VERSION:
        raise DecodeError(f"{what}.v: version {version} cannot be read, only {_VERSION}: update this process")
    return values, TaskSetReader(values.array_of("connectors", str))
