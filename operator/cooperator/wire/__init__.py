"""Codecs for everything that members, leaders and logs exchange.

This package holds the codecs of the Connect sub-protocols v0, v1 and v2 (metadata, assignment, and the
trailers of our own members), the codecs of the config, status and leader log records, the fold that gives the
config log its meaning, and the signature of requests between members. Pure: no I/O, no clock, no randomness,
no logging. May import ``model`` only.

Decoding anything but what a codec expects raises DecodeError and nothing else; values that a format cannot
represent raise EncodeError.
"""

from cooperator.wire.assignment import (
    CONFIG_MISMATCH,
    NO_ERROR,
    AgentAssignment,
    AssignmentEncoder,
    ExtendedAssignment,
    KnownHead,
    decode_assignment,
    encode_assignment,
)
from cooperator.wire.config import (
    CommitRecord,
    ConfigRecord,
    ConnectorRecord,
    FencingRecord,
    LoggerRecord,
    RestartRecord,
    SessionKeyRecord,
    TargetStateRecord,
    TaskRecord,
    decode_config,
    encode_config,
)
from cooperator.wire.fold import ConfigFold
from cooperator.wire.items import KnownItems
from cooperator.wire.leader import LeaderRecord, Owner, decode_leader, encode_leader
from cooperator.wire.learners import (
    LearnerAnswer,
    LearnerReport,
    decode_learner_answer,
    decode_learner_report,
    encode_learner_answer,
    encode_learner_report,
)
from cooperator.wire.metadata import (
    AgentReport,
    KnownMetadata,
    Metadata,
    Role,
    decode_metadata,
    encode_metadata,
    member_of,
)
from cooperator.wire.primitives import DecodeError, EncodeError
from cooperator.wire.protocol import ALL_PROTOCOLS, Protocol, signs_requests
from cooperator.wire.records import Record, Unknown
from cooperator.wire.signature import (
    ALLOWED_ALGORITHMS,
    AlgorithmNotAllowed,
    SignatureError,
    SignatureMissing,
    SignatureWrong,
    sign,
    verify,
)
from cooperator.wire.status import (
    StatusTombstone,
    apply_status,
    decode_status,
    encode_status,
    encode_status_tombstone,
)

__all__ = [
    "ALLOWED_ALGORITHMS",
    "ALL_PROTOCOLS",
    "CONFIG_MISMATCH",
    "NO_ERROR",
    "AgentAssignment",
    "AgentReport",
    "AlgorithmNotAllowed",
    "AssignmentEncoder",
    "CommitRecord",
    "ConfigFold",
    "ConfigRecord",
    "ConnectorRecord",
    "DecodeError",
    "EncodeError",
    "ExtendedAssignment",
    "FencingRecord",
    "KnownHead",
    "KnownItems",
    "KnownMetadata",
    "LeaderRecord",
    "LearnerAnswer",
    "LearnerReport",
    "LoggerRecord",
    "Metadata",
    "Owner",
    "Protocol",
    "Record",
    "RestartRecord",
    "Role",
    "SessionKeyRecord",
    "SignatureError",
    "SignatureMissing",
    "SignatureWrong",
    "StatusTombstone",
    "TargetStateRecord",
    "TaskRecord",
    "Unknown",
    "apply_status",
    "decode_assignment",
    "decode_config",
    "decode_leader",
    "decode_learner_answer",
    "decode_learner_report",
    "decode_metadata",
    "decode_status",
    "encode_assignment",
    "encode_config",
    "encode_leader",
    "encode_learner_answer",
    "encode_learner_report",
    "encode_metadata",
    "encode_status",
    "encode_status_tombstone",
    "member_of",
    "sign",
    "signs_requests",
    "verify",
]
