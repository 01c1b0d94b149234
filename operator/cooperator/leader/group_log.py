"""Tracks the state of a reconciled group in the leader log, and the records that the log lacks. Pure."""

from collections.abc import Iterable

from cooperator.reconciliation import ReconciledGroup, Records, changes, decode_record, fold
from cooperator.reconciliation.records import RecordKey, RecordKind
from cooperator.wire import Record


def group_records(records: Iterable[Record]) -> Records:
    """Those of a reconciled group among the leader log's. Raises DecodeError."""
    return dict(decoded for record in records if (decoded := decode_record(record)) is not None)


class GroupLog:
    """The records of one group as they are known to be in the log.

    A write that failed may have happened. Its keys are in doubt, and are written again with the next one.
    """

    def __init__(self) -> None:
        self._saved = ReconciledGroup()
        self._in_doubt: set[RecordKey] = set()
        self._sent: tuple[int, ReconciledGroup, Records] | None = None
        self._number = 0

    def read(self, records: Records, term: int) -> ReconciledGroup | None:
        """Begin with what the log has. Returns the group, or None if there is none of the leader that wrote
        the memory of ``term``: others have led in rounds since.
        """
        self._saved = fold([{key: value for key, value in records.items() if value is not None}])
        self._in_doubt, self._sent = set(), None
        is_present = records.get(RecordKey(RecordKind.GROUP)) is not None
        return self._saved if is_present and self._saved.term == term else None

    def due(self, group: ReconciledGroup | None) -> Records:
        """The records that make the log say ``group``; None: that there is none."""
        if group is None:
            return dict.fromkeys(sorted({*changes(ReconciledGroup(), self._saved), *self._in_doubt}))
        due = changes(self._saved, group)
        if not self._in_doubt:
            return due
        present = changes(ReconciledGroup(), group)
        return {**{key: present.get(key) for key in sorted(self._in_doubt)}, **due}

    def sending(self, group: ReconciledGroup | None, records: Records) -> int:
        """The number of a write of ``records``, as returned by ``due``."""
        self._number += 1
        self._sent = self._number, group or ReconciledGroup(), records
        return self._number

    def saved(self, number: int) -> None:
        """The write of this number is durable."""
        if self._sent is not None and self._sent[0] == number:
            self._saved = self._sent[1]
            self._in_doubt, self._sent = set(), None

    def failed(self) -> None:
        """The last write may not have happened."""
        if self._sent is not None:
            self._in_doubt |= self._sent[2].keys()
            self._sent = None
