"""The size of a group's record at the broker, in this round and in the next one. Pure.

The broker stores a group in one record. It has, of each member, its ids, the metadata with which it joined,
and its assignment of the round. The metadata lists all that a member owns, and again what of it is stopping;
the assignment lists only changes. So what a round assigns counts in its own record and in the next one.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from operator import itemgetter
from typing import Final

from cooperator.model import Member, TaskId

OVERHEAD_BYTES: Final = 700
"""Upper limit of a record's bytes outside of its members: the batch, the group's id, protocol and leader."""
NUMBER_BYTES: Final = 4
_ENTRY_BYTES: Final = 6
"""A connector's entry in a list, without its name and numbers: two lengths."""
_MEMBER_BYTES: Final = 70
"""A member's time-outs, host, and the lengths of its texts."""
_SUFFIX_BYTES: Final = 37
"""A dash and a UUID: the end of a member id, which begins with the client id or the instance id."""


@dataclass(frozen=True, slots=True)
class GroupRecord:
    """A round's record as far as the members' reports and empty assignments make it up.

    * ``members``: as they reported; ``metadata_bytes``: their metadata and that of idle members.
    * ``frame_bytes``: ids, time-outs, and empty assignments of all members.
    * ``empty_bytes``: one empty assignment. By at most as much, beside its tasks, a member's metadata grows
      when it has its first assignment.
    """

    members: tuple[Member, ...] = ()
    metadata_bytes: int = 0
    frame_bytes: int = 0
    empty_bytes: int = 0

    @property
    def least_bytes(self) -> int:
        """The size of this round's record if nothing changes."""
        return self.metadata_bytes + self.frame_bytes

    @property
    def fixed_bytes(self) -> int:
        """The part of ``least_bytes`` that does not depend on tasks."""
        return self.least_bytes - sum(map(reported_bytes, self.members))

    def bytes_of(self, members: tuple[Member, ...]) -> int:
        """The size of a record in which ``members`` report, and nothing changes."""
        if members is self.members:
            return self.least_bytes
        new = {member.member_id for member in self.members if not member.owned}
        first = sum(self.empty_bytes for member in members if member.owned and member.member_id in new)
        return self.fixed_bytes + first + sum(map(reported_bytes, members))


def record_of(
    members: tuple[Member, ...], idle_ids: Collection[str], metadata_bytes: int, empty_bytes: int
) -> GroupRecord:
    """The record of a round; see ``GroupRecord``."""
    ids = (*idle_ids, *(member.member_id for member in members))
    frame_bytes = sum(_ids_bytes(each) + _MEMBER_BYTES + empty_bytes for each in ids)
    return GroupRecord(members, metadata_bytes, frame_bytes, empty_bytes)


def _ids_bytes(member_id: str) -> int:
    """The bytes of a member's ids: member id, client id, and its instance id if it is a static member."""
    length = len(member_id.encode())
    return length + 2 * max(0, length - _SUFFIX_BYTES)


def usable_bytes(record_bytes: int) -> int:
    """The room for the members in a record of ``record_bytes``, the broker's limit."""
    return record_bytes - OVERHEAD_BYTES


def entry_bytes(connector: str) -> int:
    """The bytes of a connector's entry in a list, without its numbers."""
    return _ENTRY_BYTES + len(connector.encode())


def longest_entry_bytes(connectors: Iterable[str]) -> int:
    """The largest ``entry_bytes`` of ``connectors``."""
    return _ENTRY_BYTES + max(map(len, map(str.encode, connectors)), default=0)


def listed_bytes(tasks: Collection[TaskId]) -> int:
    """The bytes of a list of ``tasks``; an empty list counts as nothing."""
    return NUMBER_BYTES * len(tasks) + _entries_bytes(set(map(itemgetter(0), tasks)))


def alone_bytes(tasks: Collection[TaskId]) -> int:
    """An upper limit of the bytes of ``tasks``, however they are spread over lists."""
    return NUMBER_BYTES * len(tasks) + _entries_bytes(list(map(itemgetter(0), tasks)))


def _entries_bytes(connectors: Collection[str]) -> int:
    """As the sum of ``entry_bytes``: 100,000 names are encoded at once in a fraction of the time."""
    return _ENTRY_BYTES * len(connectors) + len("".join(connectors).encode())


def reported_bytes(member: Member) -> int:
    """The bytes of the tasks in a member's metadata; stock workers do not report what is stopping."""
    return listed_bytes(member.owned) + listed_bytes(member.stopping)
