"""The planning state of one leader: the installed assignors, and results that are reused from round to round.

Most rounds change little. The configuration is the same as in the last round, and so are the reports of
most members. Both are kept as sets from one round to the next; nothing else is worth its room.
"""

from collections.abc import Iterable, Mapping

from cooperator.model import Member, TaskId
from cooperator.model.java import KnownNames
from cooperator.planner import itemsets
from cooperator.planner.assignors import BUILT_IN
from cooperator.planner.itemsets import Configured, Items
from cooperator.planner.problem import Assignor


class Workspace:
    """Belongs to one leader, and to one thread at a time. But for ``assignors`` it affects no decision.

    ``assignors``: those that a policy may choose, by name.
    """

    def __init__(self, assignors: Mapping[str, Assignor] = BUILT_IN) -> None:
        self.assignors = assignors
        self._configured: tuple[Mapping[str, int], Configured] = {}, itemsets.configured({})
        self._reports: dict[str, tuple[tuple[TaskId, ...], Items]] = {}

    def configured(self, task_counts: Mapping[str, int]) -> Configured:
        """Return the items of ``task_counts``, as ``itemsets.configured``."""
        if self._configured[0] != task_counts:
            self._configured = dict(task_counts), itemsets.configured(task_counts)
        return self._configured[1]

    @property
    def known_names(self) -> KnownNames | None:
        """The names of connectors that were configured last; None if no policy has asked for these."""
        known = self._configured[1]
        return known.names if known.connectors else None

    def reported(self, members: Iterable[Member]) -> dict[str, Items]:
        """Return what each of ``members`` reports, by member id. Other members' reports are dropped.

        Equal reports of one member are the same sets, so that whatever is made of them is compared at once.
        """
        before, self._reports = self._reports, {}
        for member in members:
            known = before.get(member.member_id)
            if known is None or known[0] is not member.owned:
                items = itemsets.reported(member.owned)
                known = member.owned, known[1] if known is not None and known[1].all == items.all else items
            self._reports[member.member_id] = known
        return {member_id: items for member_id, (_, items) in self._reports.items()}
