"""The only writer of a group's config and leader logs, used by the leader."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext

from cooperator.logs.transport import Topics, Transport
from cooperator.model import Memory, Policy
from cooperator.wire import Owner, Record, encode_leader

Gate = Callable[[str], AbstractContextManager[None]]
"""Returns the context in which a write runs, given a short description of it."""


def open_gate(what: str) -> AbstractContextManager[None]:
    return nullcontext()


class LeadWriter:
    """Writes for one tenure of the leader, from ``open`` on.

    Each method blocks for at most the transport's time-out. WriterFenced is final for the tenure: call
    ``open`` again only when the broker has given the lead again. After LogUnavailable the same write may be
    tried again: it is unknown whether the first one happened, and it is settled either way before anything
    later is written.
    """

    def __init__(
        self,
        transport: Transport,
        topics: Topics,
        transactional_id: str,
        timeout_ms: int,
        gate: Gate = open_gate,
    ) -> None:
        self._topics = topics
        self._transactor = transport.transactor(transactional_id, timeout_ms)
        self._gate = gate

    def open(self) -> None:
        """Begin a tenure: once this returns, no earlier writer, including this one, can write any more.

        Raises LogUnavailable; then call it again.
        """
        self._transactor.open()

    def write_config(self, records: Sequence[Record]) -> int:
        """Write the records in one transaction. Returns the config offset after them (``ConfigLog.read_to``).

        Raises ValueError for no records, WriterFenced, RecordTooLarge, LogUnavailable.
        """
        if not records:
            raise ValueError("write_config: no records; an empty transaction has no offset")
        with self._gate(f"write {len(records)} config records"):
            return self._transactor.write(self._topics.config, records)

    def write_leader(
        self,
        *,
        owner: Owner | None = None,
        policy: Policy | None = None,
        memory: Memory | None = None,
        others: Sequence[Record] = (),
    ) -> None:
        """Write the given values and records in one transaction; None leaves a record unchanged.

        Raises EncodeError, WriterFenced, RecordTooLarge, LogUnavailable.
        """
        records = [encode_leader(value) for value in (owner, policy, memory) if value is not None]
        records += others
        if records:
            with self._gate(f"write {len(records)} leader records"):
                self._transactor.write(self._topics.leader, records)

    def close(self) -> None:
        """End the tenure; closing again does nothing."""
        self._transactor.close()
