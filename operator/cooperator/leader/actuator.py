"""Carries out a leader's instructions: writes the logs, answers rounds and requests, calls the membership.

It reports durable writes to the machine as events. Nothing is decided here.
"""

import logging
import secrets
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Final, Protocol

from cooperator.leader import events as ev
from cooperator.leader.reconcile import deleted_connectors, grouped
from cooperator.leader.state import LeaderSettings
from cooperator.logs import LeadWriter, Logs, LogUnavailable, RecordTooLarge, WriterFenced
from cooperator.model import SessionKey, TaskId
from cooperator.reconciliation import Answer, Rejection, encode_records
from cooperator.wire import ConfigRecord, EncodeError, SessionKeyRecord, encode_config

log = logging.getLogger(__name__)

CATCH_UP_MS: Final = 3_000
"""Time that a round waits for the config log to reach the members' offsets (worker.sync.timeout.ms)."""


class GroupHandle(Protocol):
    """The part of the group membership that the leader uses; all calls return at once."""

    def rejoin(self, reason: str) -> None: ...
    def evict(self, member_ids: Sequence[str]) -> None: ...


class Actuator:
    """Belongs to one leader's thread.

    * ``tell``: takes the events that follow from an instruction, before the next one is carried out.
    * ``later``: takes those that may wait.
    * ``is_silent``: see ``LeaderThread``.
    """

    def __init__(
        self,
        settings: LeaderSettings,
        group: GroupHandle,
        logs: Logs,
        tell: Callable[[ev.Event], None],
        later: Callable[[ev.Event], None],
        is_silent: Callable[[], bool],
        clock_ms: Callable[[], int],
    ) -> None:
        self._settings = settings
        self._group = group
        self._logs = logs
        self._tell = tell
        self._later = later
        self._is_silent = is_silent
        self._clock_ms = clock_ms
        self._tenure = False
        self._round: tuple[int, Future[Mapping[str, bytes]]] | None = None
        self._replies: dict[int, Future[int]] = {}
        self._report_replies: dict[int, Future[Answer | Rejection | None]] = {}
        self._requests = 0
        self.wake_at_ms: int | None = None
        """When a ``Tick`` is due."""
        self.written_offset = -1
        """The config log has own records up to this offset."""

    # --- the lead -----------------------------------------------------------------------------------

    def begin(self) -> LeadWriter:
        """A tenure begins: fence the writers before it."""
        self._tenure = True
        self._logs.writer.open()
        return self._logs.writer

    def end(self) -> None:
        """End the tenure: nothing more is written under it."""
        self._tenure = False
        self._logs.writer.close()

    @property
    def _writer(self) -> LeadWriter:
        if not self._tenure:
            raise WriterFenced("the lead was lost before this could be written")
        return self._logs.writer

    @property
    def _config_writer(self) -> LeadWriter:
        if self._is_silent():
            raise LogUnavailable("not written: the broker has not confirmed for a session that we still lead")
        return self._writer

    # --- whom to answer -----------------------------------------------------------------------------

    def answer_round(self, generation: int, future: "Future[Mapping[str, bytes]]") -> None:
        """The answer of round ``generation`` goes to ``future``."""
        self._round = (generation, future)

    def forget_round(self) -> None:
        self._round = None

    def expect_reply(self, future: "Future[int]") -> int:
        """The number of a request whose reply goes to ``future``."""
        self._requests += 1
        self._replies[self._requests] = future
        return self._requests

    def expect_report_reply(self, future: "Future[Answer | Rejection | None]") -> int:
        """The number of a report whose answer goes to ``future``."""
        self._requests += 1
        self._report_replies[self._requests] = future
        return self._requests

    def fail_reply(self, request: int, error: Exception) -> None:
        """No reply will come."""
        future = self._replies.pop(request)
        if future.set_running_or_notify_cancel():
            future.set_exception(error)

    # --- instructions -------------------------------------------------------------------------------

    def carry_out(self, instruction: ev.Instruction) -> None:
        """Raises WriterFenced and LogUnavailable."""
        match instruction:
            case ev.SaveMemory(memory, records, number):
                self._writer.write_leader(memory=memory, others=encode_records(records))
                self._tell(ev.MemorySaved(memory, number))
            case ev.SaveGroup(number, records, memory):
                self._writer.write_leader(memory=memory, others=encode_records(records))
                self._tell(ev.GroupSaved(number))
            case ev.AnswerReport(request, answer):
                future = self._report_replies.pop(request)
                # Its client may have given up.
                if future.set_running_or_notify_cancel():
                    future.set_result(answer)
            case ev.SavePolicy(policy):
                self._writer.write_leader(policy=policy)
            case ev.Answer(generation, assignments):
                if self._round is not None and self._round[0] == generation:
                    self._round[1].set_result(assignments)
            case ev.RequestRejoin(reason):
                log.info("requesting a round: %s", reason)
                self._group.rejoin(reason)
            case ev.WriteConfig(records, why, requests):
                if deleted := deleted_connectors(records):
                    log.warning("deleting connectors that are no longer desired: %s", ", ".join(deleted))
                log.info("writing %d config records: %s", len(records), why)
                self._write_config(records, requests)
            case ev.MakeSessionKey():
                data = secrets.token_bytes(self._settings.session_key_bytes)
                key = SessionKey(data, self._settings.session_key_algorithm, self._clock_ms())
                self._write_config((SessionKeyRecord(key),))
            case ev.Evict(member_ids, reason):
                log.info("evicting %s: %s", ", ".join(member_ids), reason)
                self._group.evict(member_ids)
            case ev.ReadStatuses():
                self._read_statuses(instruction)
            case ev.ReadGroupLimit():
                self._later(ev.GroupLimitRead(self._logs.group_record_bytes(CATCH_UP_MS)))
            case ev.ForgetStatuses(items):
                self._forget_statuses(items)
            case ev.Reply(request, code):
                reply = self._replies.pop(request)
                if reply.set_running_or_notify_cancel():
                    reply.set_result(code)
            case ev.WakeAt(at_ms):
                self.wake_at_ms = at_ms

    def _write_config(self, records: tuple[ConfigRecord, ...], requests: tuple[int, ...] = ()) -> None:
        try:
            offset = self._config_writer.write_config([encode_config(record) for record in records])
        except (EncodeError, RecordTooLarge) as error:
            by_connector = grouped(records)
            if len(by_connector) > 1:
                for part in by_connector.values():
                    self._write_config(part, requests)
                return
            [connector] = by_connector
            if not connector:
                raise
            log.error("configuration of connector %s was not written: %s", connector, error)
            self._tell(ev.ConfigRefused(connector, records, str(error), requests))
            return
        self.written_offset = max(offset, self.written_offset)
        self._tell(ev.ConfigWritten(records, offset, requests))

    def _read_statuses(self, wanted: ev.ReadStatuses) -> None:
        try:
            statuses = self._logs.status.read_to_end(CATCH_UP_MS)
        except LogUnavailable as error:
            log.debug("the statuses cannot be read now: %s", error)
            return
        self._later(ev.StatusesRead(statuses, wanted.incarnations, wanted.leftovers))

    def _forget_statuses(self, items: Sequence[TaskId]) -> None:
        if self._tenure:
            log.info(
                "removing the statuses of %d items that no longer exist, such as %s", len(items), items[0]
            )
            for item in items:
                self._logs.status.tombstone(item)
