"""Metadata and assignments: every value comes back, and trailing bytes disturb nobody."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cooperator.model import INSTANCE, Epoch, TaskId, Warmth, group_tasks
from cooperator.model.java import hash_set_order
from cooperator.wire import (
    ALL_PROTOCOLS,
    AgentAssignment,
    AgentReport,
    DecodeError,
    EncodeError,
    ExtendedAssignment,
    KnownMetadata,
    Metadata,
    Protocol,
    Role,
    decode_assignment,
    decode_metadata,
    encode_assignment,
    encode_metadata,
    member_of,
)
from cooperator.wire import metadata as metadata_module
from tests.wire.strategies import AGENT_ASSIGNMENTS, ASSIGNMENTS, EPOCHS, METADATA, REPORTS, TEXT

PROTOCOLS = st.sampled_from(ALL_PROTOCOLS)
TASKS = st.builds(TaskId, st.sampled_from(["a", "b", "orders"]), st.integers(INSTANCE, 6))
UUID = "0b6c1c1e-7a3d-4f3a-9d7e-2f3a4b5c6d7e"


def without_order(assignment: ExtendedAssignment) -> ExtendedAssignment:
    return assignment._replace(
        assigned=tuple(sorted(assignment.assigned)), revoked=tuple(sorted(assignment.revoked))
    )


def as_sent(assignment: ExtendedAssignment, protocol: Protocol) -> ExtendedAssignment:
    """Returns what of an assignment the protocol can carry."""
    if protocol is Protocol.DEFAULT:
        return assignment._replace(revoked=(), delay_ms=0)
    return assignment


@given(ASSIGNMENTS, PROTOCOLS)
def test_an_assignment_comes_back(assignment: ExtendedAssignment, protocol: Protocol) -> None:
    encoded = encode_assignment(assignment, protocol)

    decoded = decode_assignment(encoded)

    assert without_order(decoded) == without_order(as_sent(assignment, protocol))
    assert encode_assignment(decoded, protocol) == encoded


@given(ASSIGNMENTS)
def test_the_order_of_a_connectors_tasks_is_kept(assignment: ExtendedAssignment) -> None:
    decoded = decode_assignment(encode_assignment(assignment, Protocol.SESSIONED))

    for connector in group_tasks(assignment.assigned):
        given_order = [t for t in assignment.assigned if t.connector == connector and not t.is_instance]
        assert [t for t in decoded.assigned if t.connector == connector and not t.is_instance] == given_order


@given(METADATA, PROTOCOLS)
def test_metadata_comes_back(metadata: Metadata, protocol: Protocol) -> None:
    encoded = encode_metadata(metadata, protocol)

    decoded = decode_metadata(encoded)

    assert (decoded.url, decoded.config_offset, decoded.agent) == (
        metadata.url,
        metadata.config_offset,
        metadata.agent,
    )
    if protocol is Protocol.DEFAULT or metadata.allocation is None:
        assert decoded.allocation is None
    else:
        assert decoded.allocation is not None
        assert without_order(decoded.allocation) == without_order(metadata.allocation)
    assert encode_metadata(decoded, protocol) == encoded


@given(ASSIGNMENTS, AGENT_ASSIGNMENTS, PROTOCOLS)
def test_an_assignment_only_adds_bytes_after_what_stock_workers_read(
    assignment: ExtendedAssignment, agent_assignment: AgentAssignment, protocol: Protocol
) -> None:
    stock = encode_assignment(assignment._replace(agent=None), protocol)
    ours = encode_assignment(assignment._replace(agent=agent_assignment), protocol)

    assert ours.startswith(stock)
    assert len(ours) > len(stock)


@given(METADATA, REPORTS, PROTOCOLS)
def test_a_report_only_adds_bytes_after_what_stock_leaders_read(
    metadata: Metadata, report: AgentReport, protocol: Protocol
) -> None:
    stock = encode_metadata(metadata._replace(agent=None), protocol)

    assert encode_metadata(metadata._replace(agent=report), protocol).startswith(stock)


@given(st.binary(max_size=40).filter(lambda b: not b.startswith((b"CoSh", b"CoRe"))), PROTOCOLS)
def test_foreign_trailing_bytes_are_no_agent_data(trailing: bytes, protocol: Protocol) -> None:
    assignment = ExtendedAssignment(0, "m", "u", 1, (TaskId("a", 0),))
    metadata = Metadata("u", 1, assignment)
    sent = as_sent(assignment, protocol)

    assert decode_assignment(encode_assignment(assignment, protocol) + trailing) == sent
    assert decode_metadata(encode_metadata(metadata, protocol) + trailing).agent is None


def test_a_trailer_of_a_future_version_is_no_agent_data() -> None:
    stock = encode_metadata(Metadata("u", 1), Protocol.SESSIONED)
    future = b"CoRe" + struct.pack(">hi", 2, 3) + b"???"

    assert decode_metadata(stock + future) == Metadata("u", 1)


def test_fields_that_a_newer_member_appends_to_a_trailer_are_passed_over() -> None:
    report = AgentReport(Role.WORKER, "lake-0", "uid/1")
    stock = encode_metadata(Metadata("u", 1), Protocol.SESSIONED)
    ours = encode_metadata(Metadata("u", 1, agent=report), Protocol.SESSIONED)
    payload = ours[len(stock) + 10 :] + b"a new field"

    newer = stock + b"CoRe" + struct.pack(">hi", 1, len(payload)) + payload

    assert decode_metadata(newer).agent == report


def test_a_trailer_of_ours_that_is_cut_short_is_an_error() -> None:
    encoded = encode_assignment(
        ExtendedAssignment(0, "m", "u", 1, agent=AgentAssignment(Epoch(3, 7), 40_000)), Protocol.SESSIONED
    )

    with pytest.raises(DecodeError, match="trailer: needs 23 bytes, but 22 are left"):
        decode_assignment(encoded[:-1])


def test_a_task_number_below_the_instances_is_an_error() -> None:
    encoded = encode_assignment(ExtendedAssignment(0, "m", "u", 1, (TaskId("x", -2),)), Protocol.SESSIONED)

    with pytest.raises(DecodeError, match=r"assignment\.assigned: 'x' has a task number -2"):
        decode_assignment(encoded)


def test_instances_are_assigned_in_javas_order_and_revoked_in_the_one_given() -> None:
    names = ["sources", "lake", "grüße", "x.y-z", "a", "b"]
    instances = tuple(TaskId(name, INSTANCE) for name in names)

    decoded = decode_assignment(
        encode_assignment(ExtendedAssignment(0, "m", "u", 1, instances, instances), Protocol.SESSIONED)
    )

    assert [task.connector for task in decoded.assigned] == hash_set_order(names)
    assert [task.connector for task in decoded.assigned] != names
    assert [task.connector for task in decoded.revoked] == names


def test_the_nonce_alone_changes_the_bytes() -> None:
    """A follower that rejoins with the same bytes makes no round."""
    report = AgentReport(Role.WORKER, "lake-0", "uid/1")
    encoded = [
        encode_metadata(Metadata("u", 1, agent=report._replace(nonce=nonce)), Protocol.SESSIONED)
        for nonce in (0, 1)
    ]

    assert encoded[0] != encoded[1]


def test_equal_reports_are_equal_bytes_whatever_the_order_of_a_set() -> None:
    tasks = [TaskId(f"c{n % 7}", n) for n in range(100)]
    one = AgentReport(Role.WORKER, "lake-0", "uid/1", frozenset(tasks))
    other = AgentReport(Role.WORKER, "lake-0", "uid/1", frozenset(reversed(tasks)))

    assert encode_metadata(Metadata("u", 1, agent=one), Protocol.SESSIONED) == encode_metadata(
        Metadata("u", 1, agent=other), Protocol.SESSIONED
    )


@given(METADATA)
def test_under_reconciled_a_member_reports_itself_and_no_tasks(metadata: Metadata) -> None:
    encoded = encode_metadata(metadata, Protocol.RECONCILED)

    decoded = decode_metadata(encoded)

    agent = metadata.agent and metadata.agent._replace(stopping=frozenset())
    assert decoded == Metadata(metadata.url, metadata.config_offset, None, agent, names_tasks=False)
    assert encode_metadata(decoded, Protocol.RECONCILED) == encoded


@given(ASSIGNMENTS, AGENT_ASSIGNMENTS)
def test_under_reconciled_an_assignment_names_the_term_and_the_leader(
    assignment: ExtendedAssignment, agent: AgentAssignment
) -> None:
    empty = assignment._replace(assigned=(), revoked=(), agent=agent)

    assert decode_assignment(encode_assignment(empty, Protocol.RECONCILED)) == empty


def test_a_round_under_reconciled_cannot_assign_tasks() -> None:
    assignment = ExtendedAssignment(0, "m", "u", 1, (TaskId("a", 0),))

    with pytest.raises(EncodeError, match=r"assignment\.assigned: a round under reconciled assigns nothing"):
        encode_assignment(assignment, Protocol.RECONCILED)


def test_a_member_tells_under_every_protocol_whether_it_reconciles() -> None:
    report = AgentReport(Role.WORKER, "lake-0", "uid/1", reconciles=True)

    for protocol in Protocol:
        metadata = decode_metadata(encode_metadata(Metadata("u", 1, agent=report), protocol))
        assert metadata.agent == report
        assert member_of("m-1", "c", metadata).reconciles


def test_protocols_are_offered_newest_first() -> None:
    assert [protocol.value for protocol in ALL_PROTOCOLS] == ["sessioned", "compatible", "default"]
    assert [protocol.version for protocol in ALL_PROTOCOLS] == [2, 1, 0]


@given(st.integers(3, 0x7FFF), ASSIGNMENTS)
def test_future_versions_are_read_as_the_newest_we_know(version: int, assignment: ExtendedAssignment) -> None:
    encoded = encode_assignment(assignment, Protocol.SESSIONED)

    assert decode_assignment(struct.pack(">h", version) + encoded[2:]) == decode_assignment(encoded)


def test_missing_trailing_fields_have_javas_defaults() -> None:
    metadata = encode_metadata(Metadata("u", 9), Protocol.COMPATIBLE)
    assignment = encode_assignment(
        ExtendedAssignment(0, "m", "u", 9, (TaskId("a", 0),), (TaskId("b", 1),), 5), Protocol.COMPATIBLE
    )

    assert decode_metadata(metadata[:-4]) == Metadata("u", 9)
    assert decode_assignment(assignment[:-4]).delay_ms == 0
    assert decode_assignment(assignment[: -4 - 15]).revoked == ()
    assert decode_assignment(assignment[: -4 - 15 - 15]).assigned == ()


def test_null_lists_are_empty_from_v1_on() -> None:
    encoded = encode_assignment(ExtendedAssignment(0, "m", "u", 9), Protocol.SESSIONED)
    nulls = encoded[:-12] + b"\xff" * 8 + b"\x00" * 4

    assert decode_assignment(nulls) == ExtendedAssignment(0, "m", "u", 9)

    eager = encode_assignment(ExtendedAssignment(0, "m", "u", 9), Protocol.DEFAULT)
    with pytest.raises(DecodeError, match=r"assignment\.assigned: the array is null"):
        decode_assignment(eager[:-4] + b"\xff" * 4)


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        (ExtendedAssignment(0, "m", "u", 2**63), r"config_offset: 9223372036854775808 does not fit 8 bytes"),
        (ExtendedAssignment(0, "m" * 32768, "u", 0), r"leader: 32768 bytes; a string holds at most 32767"),
        (ExtendedAssignment(0, "m", "\ud800", 0), r"leader_url: '\\ud800' is not valid Unicode"),
        (
            ExtendedAssignment(0, "m", "u", 0, (TaskId("a", 2**31),)),
            r"assigned: 2147483648 is beyond 32 bits",
        ),
        (ExtendedAssignment(0, "m", "u", 0, (), (), 2**31), r"delay_ms: 2147483648 does not fit 4 bytes"),
    ],
)
def test_a_value_that_does_not_fit_is_named_by_the_error(
    assignment: ExtendedAssignment, message: str
) -> None:
    with pytest.raises(EncodeError, match=message):
        encode_assignment(assignment, Protocol.SESSIONED)


@pytest.mark.parametrize("capacity", [float("nan"), float("inf")])
def test_a_capacity_is_a_finite_number(capacity: float) -> None:
    report = AgentReport(Role.WORKER, "lake-0", "1", capacity=capacity)

    with pytest.raises(EncodeError, match=r"agent\.capacity: (nan|inf) is not finite"):
        encode_metadata(Metadata("u", 1, agent=report), Protocol.SESSIONED)


def test_an_agent_is_known_by_what_it_reports() -> None:
    running = (TaskId("a", INSTANCE), TaskId("a", 0))
    report = AgentReport(
        Role.WORKER,
        "lake-0",
        "uid/2",
        stopping=frozenset({TaskId("a", 1)}),
        draining=True,
        applied=Epoch(3, 7),
        capacity=2.0,
        zone="z1",
        warmth=Warmth.WARMING,
    )

    member = member_of("m-1", "c", Metadata("u", 5, ExtendedAssignment(0, "l", "u", 5, running), report))

    assert (member.member_id, member.identity, member.incarnation) == ("m-1", "lake-0", "uid/2")
    assert member.owned == (*running, TaskId("a", 1)), "what is stopping still occupies its slot"
    assert member.stopping == {TaskId("a", 1)}
    assert member.draining
    assert member.is_agent
    assert (member.applied, member.capacity, member.zone) == (Epoch(3, 7), 2.0, "z1")
    assert member.warmth is Warmth.WARMING


@given(st.lists(st.tuples(st.lists(TASKS, max_size=4, unique=True), st.integers(0, 2))))
def test_items_that_are_known_are_the_same_object_and_mean_the_same(
    joins: list[tuple[list[TaskId], int]],
) -> None:
    known = KnownMetadata()
    before: tuple[TaskId, ...] | None = None

    for tasks, offset in joins:
        data = encode_metadata(
            Metadata("u", offset, ExtendedAssignment(0, "l", "u", offset, tuple(tasks))), Protocol.SESSIONED
        )
        allocation = decode_metadata(data, known).allocation

        assert allocation is not None
        assert allocation == decode_assignment(encode_assignment(allocation, Protocol.SESSIONED))
        assert sorted(allocation.assigned) == sorted(tasks)
        if before is not None and before == allocation.assigned:
            assert allocation.assigned is before
        before = allocation.assigned


@given(
    st.lists(REPORTS, min_size=1, max_size=3),
    st.lists(
        st.tuples(st.integers(0, 2), st.none() | EPOCHS, st.sampled_from([b"", b"", b"more"]), st.booleans()),
        max_size=6,
    ),
)
def test_a_report_after_another_one_is_read_as_alone(
    reports: list[AgentReport], joins: list[tuple[int, Epoch | None, bytes, bool]]
) -> None:
    known = KnownMetadata()
    for number, applied, more, foreseen in joins:
        if foreseen:
            known.foresee()
        report = reports[number % len(reports)]._replace(applied=applied)
        data = encode_metadata(Metadata("u", 1, None, report), Protocol.SESSIONED) + more
        assert decode_metadata(data, known) == decode_metadata(data) == Metadata("u", 1, None, report)


def test_a_report_that_differs_in_its_epoch_alone_is_not_decoded_anew() -> None:
    known = KnownMetadata()
    report = AgentReport(Role.WORKER, "pod-1", "first", applied=Epoch(1, 1), zone="z")
    decode_metadata(encode_metadata(Metadata("u", 1, None, report), Protocol.SESSIONED), known)
    later = encode_metadata(Metadata("u", 2, None, report._replace(applied=Epoch(1, 2))), Protocol.SESSIONED)
    with pytest.MonkeyPatch.context() as patched:
        patched.delattr(metadata_module, "read_trailer")
        assert decode_metadata(later, known).agent == report._replace(applied=Epoch(1, 2))


def test_the_first_epoch_that_a_member_reports_is_foreseen() -> None:
    known = KnownMetadata()
    report = AgentReport(Role.WORKER, "pod-1", "first", zone="z")
    decode_metadata(encode_metadata(Metadata("u", 1, None, report), Protocol.SESSIONED), known)
    known.foresee()
    later = encode_metadata(Metadata("u", 2, None, report._replace(applied=Epoch(1, 2))), Protocol.SESSIONED)
    with pytest.MonkeyPatch.context() as patched:
        patched.delattr(metadata_module, "read_trailer")
        assert decode_metadata(later, known).agent == report._replace(applied=Epoch(1, 2))


@pytest.mark.parametrize(
    ("member_id", "client_id", "identity"),
    [
        (f"connect-1-{UUID}", "connect-1", "connect-1"),
        (f"connect-1-{UUID}", "", "connect-1"),
        ("no uuid", "", "no uuid"),
    ],
)
def test_a_stock_worker_is_known_by_its_ids(member_id: str, client_id: str, identity: str) -> None:
    twice = Metadata("u", 5, ExtendedAssignment(0, "l", "u", 5, (TaskId("a", 0), TaskId("a", 0))))
    metadata = decode_metadata(encode_metadata(twice, Protocol.SESSIONED))

    member = member_of(member_id, client_id, metadata)

    assert (member.identity, member.incarnation, member.is_agent) == (identity, member_id, False)
    assert member.owned == (TaskId("a", 0),)
    assert member_of(member_id, client_id, Metadata("u", 5)).owned == ()


@given(TEXT, TEXT)
def test_a_member_without_uuid_keeps_its_whole_id(prefix: str, client_id: str) -> None:
    assert member_of(f"{prefix}-{UUID}", "", Metadata("u", 0)).identity == prefix
