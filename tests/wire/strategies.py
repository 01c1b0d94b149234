"""Hypothesis strategies of every value that has a wire format."""

from hypothesis import strategies as st

from cooperator.model import (
    Epoch,
    Fencing,
    Hold,
    HoldReason,
    Kip415Memory,
    Memory,
    Policy,
    PolicyName,
    SessionKey,
    TargetState,
    TaskId,
    TaskState,
    TaskStatus,
    Unstopped,
    Warmth,
    Warmup,
)
from cooperator.wire import (
    AgentAssignment,
    AgentReport,
    CommitRecord,
    ConnectorRecord,
    ExtendedAssignment,
    FencingRecord,
    LoggerRecord,
    Metadata,
    Owner,
    RestartRecord,
    Role,
    SessionKeyRecord,
    TargetStateRecord,
    TaskRecord,
)

INT32_MAX = 2**31 - 1
INT64 = st.integers(-(2**63), 2**63 - 1)
COUNT = st.integers(0, INT32_MAX)
TIME_MS = st.integers(0, 2**53)
# Text that UTF-8 can express: everything but lone surrogates.
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
NAMES = st.one_of(
    st.sampled_from(["a", "b", "x.y-z", "x-1", "grüße", "中文", "😀", "lake-0"]), TEXT.filter(bool)
)
TASK_IDS = st.builds(TaskId, NAMES, st.one_of(st.integers(-1, 20), st.just(INT32_MAX)))
TASK_SETS = st.frozensets(TASK_IDS, max_size=12)
ITEMS = st.lists(TASK_IDS, max_size=20, unique=True).map(tuple)
EPOCHS = st.builds(Epoch, INT64, st.integers(-1, INT32_MAX))
CONFIGS = st.dictionaries(TEXT, TEXT, max_size=4)

AGENT_ASSIGNMENTS = st.builds(AgentAssignment, EPOCHS, TIME_MS, TEXT, st.booleans())
ASSIGNMENTS = st.builds(
    ExtendedAssignment,
    error=st.integers(-1, 2),
    leader=TEXT,
    leader_url=TEXT,
    config_offset=INT64,
    assigned=ITEMS,
    revoked=ITEMS,
    delay_ms=st.integers(0, INT32_MAX),
    agent=st.none() | AGENT_ASSIGNMENTS,
)
REPORTS = st.builds(
    AgentReport,
    role=st.sampled_from(Role),
    identity=TEXT,
    incarnation=TEXT,
    stopping=TASK_SETS,
    draining=st.booleans(),
    applied=st.none() | EPOCHS,
    capacity=st.floats(0, 1e6),
    zone=TEXT,
    nonce=INT64,
    warmth=st.sampled_from(Warmth),
    learns=st.booleans(),
    reconciles=st.booleans(),
)
METADATA = st.builds(
    Metadata,
    url=TEXT,
    config_offset=INT64,
    allocation=st.none() | ASSIGNMENTS,
    agent=st.none() | REPORTS,
)

TASKS = st.builds(TaskId, NAMES, st.one_of(st.integers(0, 20), st.just(INT32_MAX)))
CONFIG_RECORDS = st.one_of(
    st.builds(ConnectorRecord, NAMES, st.none() | CONFIGS),
    st.builds(TaskRecord, TASKS, CONFIGS),
    st.builds(CommitRecord, NAMES, COUNT),
    st.builds(TargetStateRecord, NAMES, st.none() | st.sampled_from(TargetState)),
    st.builds(SessionKeyRecord, st.builds(SessionKey, st.binary(max_size=64), TEXT, INT64)),
    st.builds(RestartRecord, NAMES, st.booleans(), st.booleans(), st.none() | st.integers(-1, 20)),
    st.builds(FencingRecord, NAMES, COUNT),
    st.builds(LoggerRecord, NAMES, TEXT),
)

STATUSES = st.builds(
    TaskStatus,
    task=TASK_IDS,
    state=st.sampled_from(TaskState),
    worker=TEXT,
    epoch=st.none() | EPOCHS,
    at_ms=TIME_MS,
    trace=TEXT,
    progress=TEXT,
    reason=TEXT,
    next_attempt_ms=TIME_MS,
)

OWNERS = st.builds(Owner, TEXT, TEXT, TEXT, TEXT)
POLICIES = st.builds(
    Policy,
    name=st.sampled_from(PolicyName),
    assignor=TEXT,
    scheduled_rebalance_max_delay_ms=TIME_MS,
    lease_ms=TIME_MS,
    lease_margin_ms=TIME_MS,
    join_wait_ms=TIME_MS,
    max_returns=COUNT,
    return_window_ms=TIME_MS,
    strict_spread=st.booleans(),
    fencing=st.sampled_from(Fencing),
    hung_after_ms=TIME_MS,
    depart_warm_ms=TIME_MS,
    reconciles=st.booleans(),
)
HOLDS = st.builds(
    Hold,
    tasks=TASK_SETS,
    since_ms=TIME_MS,
    deadline_ms=TIME_MS,
    not_before_ms=TIME_MS,
    incarnation=TEXT,
    reason=st.sampled_from(HoldReason),
    cause=TEXT,
    blanket=st.booleans(),
)
UNSTOPPED = st.builds(Unstopped, TEXT, TEXT, TASK_SETS, st.none() | TIME_MS, st.booleans())
KIP415 = st.builds(
    Kip415Memory,
    previous_generation=st.integers(-1, INT32_MAX),
    previous_members=st.lists(TEXT, max_size=3).map(tuple),
    previous_assignment=TASK_SETS,
    previous_revocation=TASK_SETS,
    scheduled_rebalance_ms=TIME_MS,
    delay_ms=TIME_MS,
    candidates=st.lists(TEXT, max_size=3).map(tuple),
    revoked_in_previous=st.booleans(),
    successive_revoking_rebalances=COUNT,
)
MEMORIES = st.builds(
    Memory,
    term=TIME_MS,
    generation=st.integers(-1, INT32_MAX),
    given=st.dictionaries(TEXT, TASK_SETS, max_size=4),
    incarnations=st.dictionaries(TEXT, TEXT, max_size=4),
    holds=st.dictionaries(TEXT, HOLDS, max_size=3),
    returns=st.dictionaries(TEXT, st.lists(TIME_MS, max_size=4).map(tuple), max_size=3),
    former=st.dictionaries(TEXT, st.lists(TEXT, max_size=3).map(tuple), max_size=3),
    joins=st.dictionaries(TEXT, TIME_MS, max_size=3),
    unstopped=st.lists(UNSTOPPED, max_size=3).map(tuple),
    moving=st.dictionaries(TEXT, TASK_SETS, max_size=3),
    stock=st.booleans(),
    leaseless=st.lists(TEXT, max_size=3).map(tuple),
    managed=st.lists(TEXT, max_size=3).map(tuple),
    orphans=st.lists(TEXT, max_size=3).map(tuple),
    addresses=st.dictionaries(TEXT, TEXT, max_size=3),
    kip415=st.none() | KIP415,
    warmups=st.lists(st.builds(Warmup, TEXT, COUNT, TEXT, TIME_MS), max_size=3).map(tuple),
    standbys=st.dictionaries(TEXT, TASK_SETS, max_size=3),
    departing=st.dictionaries(TEXT, TIME_MS, max_size=3),
)
