"""A member of a group, for as long as it is wanted: one thread that drives kafka-python's event loop."""

from collections.abc import Iterable

from cooperator.group.config import GroupConfig
from cooperator.group.listener import DescribedGroup, Listener


class GroupUnavailable(Exception):
    """The group's coordinator did not answer in time; the message says what was tried."""


class Membership:
    """Joins the group, stays in it and comes back to it until it is stopped or fenced.

    All methods may be called from any thread but the membership's own (that is, not by the listener),
    except ``rejoin`` and ``evict``, which may be called from there too. Nothing here raises because of the
    broker's state, except ``describe``.
    """

    def __init__(self, config: GroupConfig, listener: Listener) -> None:
        raise NotImplementedError

    @property
    def member_id(self) -> str:
        """The id under which the broker knows this member; empty when it does not."""
        raise NotImplementedError

    @property
    def generation(self) -> int:
        """The last generation joined; -1 when this is no member."""
        raise NotImplementedError

    @property
    def alive(self) -> bool:
        """True from ``start`` until ``stop`` or until fenced."""
        raise NotImplementedError

    def start(self) -> None:
        """Begin to join; returns at once. Once per membership."""
        raise NotImplementedError

    def rejoin(self, reason: str) -> None:
        """Ask for another round. A leader always gets one; a follower when its metadata has changed.
        Requests made while a JoinGroup is being prepared are one; none is lost."""
        raise NotImplementedError

    def evict(self, member_ids: Iterable[str]) -> None:
        """Remove other members, by one LeaveGroup. Repeated until the broker has answered or this member no
        longer leads; ignored by a member that does not lead, and of ids that are gone."""
        raise NotImplementedError

    def describe(self, timeout_s: float = 10) -> DescribedGroup:
        """The group as its coordinator sees it. Raises GroupUnavailable."""
        raise NotImplementedError

    def stop(self, leave: bool, timeout_s: float = 10) -> None:
        """End the membership and its thread within ``timeout_s``.

        ``leave``: tell the broker, which starts a round for the others at once; else it notices when the
        session time-out has passed, which is what a leader that will be back wants.
        """
        raise NotImplementedError
