"""Counts the reports: which tasks no member reports, which are not configured, which are reported twice.

    unreported = configured − ∪ reported(m)        unknown = ∪ reported(m) − configured

Most rounds change little. Then the last count is updated by what came and went:

    went = ∪ before(m) − now(m)    came = ∪ now(m) − before(m)
    unreported' = (unreported ∪ configured ∩ went) − came    unknown' = (unknown − went) ∪ (came − configured)

That holds while nothing is reported twice, before or now; otherwise everything is counted anew. The last
count is a cache of a pure function: it saves time and affects no decision.
"""

from collections.abc import Mapping
from typing import NamedTuple

from cooperator.model import TaskId
from cooperator.model.recent import missing

_NONE: frozenset[TaskId] = frozenset()

Reports = Mapping[str, frozenset[TaskId]]


class Tally(NamedTuple):
    """``reported``: number of items that members report. ``doubled``: items that several members report."""

    reported: int
    unreported: frozenset[TaskId]
    unknown: frozenset[TaskId]
    doubled: frozenset[TaskId] = _NONE


class _Counted(NamedTuple):
    reports: Reports
    configured: frozenset[TaskId]
    tally: Tally


_last: list[_Counted] = []


def tally(reports: Reports, configured: frozenset[TaskId]) -> Tally:
    """Count ``reports``, which maps member ids to what they report."""
    counted = _of_change(_last[0], reports, configured) if _last else None
    if counted is None:
        counted = count_anew(reports, configured)
    _last[:] = [_Counted(dict(reports), configured, counted)]
    return counted


def count_anew(reports: Reports, configured: frozenset[TaskId]) -> Tally:
    """Like ``tally``, without the previous count."""
    occupied = _NONE.union(*reports.values())
    if not occupied:
        return Tally(0, configured, _NONE)
    doubled: set[TaskId] = set()
    if sum(map(len, reports.values())) > len(occupied):
        seen: set[TaskId] = set()
        for items in reports.values():
            doubled |= seen & items
            seen |= items
    return Tally(len(occupied), configured - occupied, occupied - configured, frozenset(doubled))


def _of_change(last: _Counted, reports: Reports, configured: frozenset[TaskId]) -> Tally | None:
    """Derive the count from the last one; None if that is not possible."""
    before, (count, unreported, unknown, doubled) = last.reports, last.tally
    if configured is not last.configured or doubled:
        return None
    changed = [member for member, earlier in before.items() if reports.get(member, _NONE) is not earlier]
    if sum(len(before[member]) for member in changed) > 2 * sum(map(len, reports.values())):
        return None  # Far less is reported than before: counting anew is faster.
    went: list[frozenset[TaskId]] = []
    came: list[frozenset[TaskId]] = [reports[member] for member in reports.keys() - before.keys()]
    for member in changed:
        earlier, now = before[member], reports.get(member, _NONE)
        went.append(missing(earlier, now))
        if len(earlier) - len(went[-1]) < len(now):
            came.append(now - earlier)
    gone, new = _NONE.union(*went), _NONE.union(*came)
    if len(new) < sum(map(len, came)):
        return None
    if gone:
        unreported |= gone & configured
        unknown -= gone
    left = unreported - new if new else unreported
    strange = _NONE
    if len(left) > len(unreported) - len(new):
        strange = new - configured
        if len(left) > len(unreported) - len(new) + len(strange) or not strange.isdisjoint(unknown):
            return None
    return Tally(count - len(gone) + len(new), left, unknown | strange if strange else unknown)
