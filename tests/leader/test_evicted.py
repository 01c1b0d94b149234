"""Knowledge of members that were evicted to take the lead."""

from cooperator.group import DescribedMember
from cooperator.leader.evicted import Evicted, as_last_heard
from cooperator.model import Member, TaskId
from cooperator.wire import AgentReport, ExtendedAssignment, Metadata, Protocol, Role, encode_metadata

ALLOCATION = ExtendedAssignment(0, "", "", 7, assigned=(TaskId("a", 0),))


def described(member_id: str, client_id: str, metadata: bytes = b"") -> DescribedMember:
    return DescribedMember(member_id, None, client_id, "/127.0.0.1", metadata)


def metadata(report: AgentReport | None) -> bytes:
    return encode_metadata(Metadata("http://w:8083/", 7, ALLOCATION, report), Protocol.SESSIONED)


def test_the_reports_of_a_stable_group_are_known() -> None:
    agent = AgentReport(Role.WORKER, "lake-0", "uid-1.2")
    found = as_last_heard(
        [
            described("lake-0-uid-1.2-x", "lake-0-uid-1.2", metadata(agent)),
            described("stock-x", "stock", metadata(None)),
            described("operator-x", "operator", metadata(AgentReport(Role.LEADER, "operator", "operator"))),
            described("strange-x", "strange", b"\xff"),
        ],
        "lake",
    )
    assert [(m.identity, m.incarnation, m.owned, m.is_agent) for m in found.reported] == [
        ("lake-0", "uid-1.2", (TaskId("a", 0),), True),
        ("stock", "stock-x", (TaskId("a", 0),), False),
    ]
    assert not found.unread


def test_in_mid_round_members_are_told_apart_by_their_ids() -> None:
    members = [
        described("lake-10-uid-1.2-x", "lake-10-uid-1.2"),
        described("lake-1-x", "lake-1"),
        described("connect-1-x", "connect-1"),
    ]
    assert as_last_heard(members, "lake") == Evicted(
        unread=(
            Member("lake-10-uid-1.2-x", "lake-10", "uid-1.2"),
            Member("lake-1-x", "lake-1", "lake-1-x", is_agent=False),
            Member("connect-1-x", "connect-1", "connect-1-x", is_agent=False),
        )
    )
