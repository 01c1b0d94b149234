"""The records that a group consists of in a compacted log, one per member and kind.

After Kafka's records of consumer groups: ``ConsumerGroupTargetAssignmentMember``,
``…TargetAssignmentMetadata``, ``…CurrentMemberAssignment``. ``TargetAssignmentBuilder`` writes the same
targets; a test compares both.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from enum import StrEnum
from typing import NamedTuple, TypeVar

from cooperator.reconciliation.group import (
    Fence,
    ReconciledGroup,
    ReconciledMember,
    TargetAssignment,
    occupants_of,
)

K = TypeVar("K", bound=str | tuple[str, str])
V = TypeVar("V")


class RecordKind(StrEnum):
    TARGET = "target"
    MEMBER = "member"
    FENCE = "fence"
    GROUP = "group"


class RecordKey(NamedTuple):
    kind: RecordKind
    identity: str = ""
    incarnation: str = ""


class Epochs(NamedTuple):
    term: int
    epoch: int
    assignment_epoch: int


Value = TargetAssignment | ReconciledMember | Fence | Epochs
Records = Mapping[RecordKey, Value | None]
"""The newest value of each key; None is a tombstone."""

_GROUP = RecordKey(RecordKind.GROUP)


def changes(before: ReconciledGroup, after: ReconciledGroup) -> Records:
    """Return the records that turn ``before`` into ``after``, for one transaction; the epochs come last.

    A report that changes nothing but its own number is not recorded: the number orders reports within a term.
    """
    records: dict[RecordKey, Value | None] = {}
    for identity in _differing(before.targets, after.targets):
        records[RecordKey(RecordKind.TARGET, identity)] = after.targets.get(identity)
    for identity in _differing(before.members, after.members):
        was, is_ = before.members.get(identity), after.members.get(identity)
        if was is None or is_ is None or replace(was, sequence=is_.sequence) != is_:
            records[RecordKey(RecordKind.MEMBER, identity)] = is_
    for identity, incarnation in _differing(before.fences, after.fences):
        key = RecordKey(RecordKind.FENCE, identity, incarnation)
        records[key] = after.fences.get((identity, incarnation))
    if _epochs(before) != _epochs(after):
        records[_GROUP] = _epochs(after)
    return records


def fold(batches: Iterable[Records]) -> ReconciledGroup:
    """Return the group that these records, oldest first, consist of."""
    epochs = Epochs(0, 0, 0)
    targets: dict[str, TargetAssignment] = {}
    members: dict[str, ReconciledMember] = {}
    fences: dict[tuple[str, str], Fence] = {}
    for records in batches:
        for key, value in records.items():
            match key.kind:
                case RecordKind.TARGET:
                    _put(targets, key.identity, value, TargetAssignment)
                case RecordKind.MEMBER:
                    _put(members, key.identity, value, ReconciledMember)
                case RecordKind.FENCE:
                    _put(fences, (key.identity, key.incarnation), value, Fence)
                case RecordKind.GROUP:
                    assert isinstance(value, Epochs)
                    epochs = value
    occupants = occupants_of(members.values(), fences.values())
    return ReconciledGroup(*epochs, targets, members, fences, occupants)


def _epochs(group: ReconciledGroup) -> Epochs:
    return Epochs(group.term, group.epoch, group.assignment_epoch)


def _put(values: dict[K, V], key: K, value: Value | None, kind: type[V]) -> None:
    if value is None:
        values.pop(key, None)
    else:
        assert isinstance(value, kind)
        values[key] = value


def _differing(before: Mapping[K, V], after: Mapping[K, V]) -> list[K]:
    """Return the keys whose value is another object, in order."""
    if before is after:
        return []
    keys: set[K] = {*before, *after}
    differing = [key for key in keys if before.get(key) is not after.get(key)]
    return sorted(differing, key=str)
