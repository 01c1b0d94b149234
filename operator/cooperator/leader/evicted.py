"""Members that were evicted to take the lead, as the broker described them.

The broker returns their reports only while the group is stable. If the lead is taken in mid-round, as after a
crash of the broker, only their ids are known. Such members run on, and are awaited like the others.
"""

import re
from collections.abc import Iterable
from typing import NamedTuple

from cooperator.group import DescribedMember
from cooperator.model import Member
from cooperator.wire import DecodeError, Role, decode_metadata, member_of


class Evicted(NamedTuple):
    """``reported``: those whose last report is known. ``unread``: those that are known by their ids alone."""

    reported: tuple[Member, ...] = ()
    unread: tuple[Member, ...] = ()


class LastHeard:
    """The members of a group as the broker described them last, with their reports if it ever returned them.

    ``worker``: as in ``as_last_heard``.
    """

    def __init__(self, worker: str) -> None:
        self._worker = worker
        self._known: dict[str, DescribedMember] = {}

    def note(self, members: Iterable[DescribedMember]) -> None:
        for member in members:
            if member.metadata or member.member_id not in self._known:
                self._known[member.member_id] = member

    def evicted(self, member_ids: Iterable[str]) -> Evicted:
        """Those of them that were evicted to take the lead; all are forgotten."""
        found = [self._known[member_id] for member_id in member_ids if member_id in self._known]
        self._known.clear()
        return as_last_heard(found, self._worker)


def as_last_heard(members: Iterable[DescribedMember], worker: str) -> Evicted:
    """``members``, evicted, as the broker last described them.

    ``worker``: the name of the Worker, by which its agents' client ids begin: WORKER-NUMBER-INCARNATION. Any
    other client id is the identity of a stock worker. Leaders, and reports that cannot be read, are left out.
    """
    reported: list[Member] = []
    unread: list[Member] = []
    for described in members:
        if not described.metadata:
            unread.append(_by_ids(described, worker))
            continue
        try:
            metadata = decode_metadata(described.metadata)
        except DecodeError:
            continue
        if metadata.agent is None or metadata.agent.role is not Role.LEADER:
            found = reported if metadata.names_tasks else unread
            found.append(member_of(described.member_id, described.client_id, metadata))
    return Evicted(tuple(reported), tuple(unread))


def _by_ids(described: DescribedMember, worker: str) -> Member:
    member_id, client_id = described.member_id, described.client_id
    agent = re.fullmatch(rf"({re.escape(worker)}-[0-9]+)-(.+)", client_id)
    if agent is None:
        return Member(member_id, client_id, member_id, is_agent=False)
    return Member(member_id, agent[1], agent[2])
