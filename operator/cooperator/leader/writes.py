"""The leader's writes to the config log: never inside a round (see ``write_window``). Pure."""

from collections.abc import Callable, Container
from dataclasses import dataclass

from cooperator.leader import events as ev
from cooperator.leader.reconcile import connector_records, grouped, task_records
from cooperator.leader.regroup import Regroup
from cooperator.leader.repeats import Repeats
from cooperator.leader.state import LeaderSettings, LeaderState, RefusedRecords
from cooperator.leader.stock.write_window import WriteWindow
from cooperator.model import INSTANCE, TaskFencing
from cooperator.wire import (
    ConfigRecord,
    TargetStateRecord,
    encode_config,
    signs_requests,
)

REFUSED_AGAIN_MS = 60_000
"""After this time records that the broker has refused are tried again."""


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A request that gets ``code`` once ``records`` are in the log.

    ``until_ms``: until then a failed write is repeated; None: it is not, and the request fails with it.
    """

    records: tuple[ConfigRecord, ...]
    code: int
    until_ms: int | None = None


class Writes:
    """The records that are due, and the requests that wait for them to be durable.

    Call ``due`` only where a record may be written.
    """

    def __init__(
        self, settings: LeaderSettings, state: LeaderState, repeats: Repeats, write_window: WriteWindow
    ) -> None:
        self._settings = settings
        self._state = state
        self._repeats = repeats
        self._write_window = write_window
        self._waiting: dict[int, _Waiting] = {}
        self._unread: dict[str, int] = {}
        """Offsets after own records of connectors. Until the log is read so far, their state is not known."""

    # --- requests -----------------------------------------------------------------------------------

    def written(self, event: ev.ConfigWritten) -> list[ev.Instruction]:
        """The replies to the requests that have waited for this write."""
        self._write_window.wrote(len(event.records), event.offset)
        self._state.unwritten = ""
        self._unread = {n: offset for n, offset in self._unread.items() if not self._is_known(n)}
        for name, records in grouped(event.records).items():
            self._unread[name] = event.offset
            if name in self._state.refused and self._state.refused[name].records == records:
                del self._state.refused[name]
        return self._reply(lambda request, waiting: request in event.requests)

    def failed(self) -> list[ev.Instruction]:
        """The replies to the requests whose write failed and is not repeated."""
        return self._reply(lambda _, waiting: waiting.until_ms is None, ev.PostOutcome.AGAIN)

    def expired(self, now_ms: int) -> list[ev.Instruction]:
        """The replies to the requests for which nobody waits any longer; their records are dropped."""
        return self._reply(
            lambda _, waiting: waiting.until_ms is not None and waiting.until_ms <= now_ms,
            ev.PostOutcome.AGAIN,
        )

    def lead_lost(self) -> list[ev.Instruction]:
        self._unread.clear()
        self._state.refused.clear()
        self._state.unwritten = ""
        return self._reply(lambda _, waiting: True, ev.PostOutcome.NOT_LEADING)

    def waiting_until_ms(self) -> list[int]:
        """The times (ms) at which requests expire."""
        return [waiting.until_ms for waiting in self._waiting.values() if waiting.until_ms is not None]

    def _reply(self, whom: Callable[[int, _Waiting], bool], code: int | None = None) -> list[ev.Instruction]:
        found = {request: waiting for request, waiting in self._waiting.items() if whom(request, waiting)}
        for request in found:
            del self._waiting[request]
        return [
            ev.Reply(request, waiting.code if code is None else code) for request, waiting in found.items()
        ]

    # --- what is due --------------------------------------------------------------------------------

    def due(self, now_ms: int) -> list[ev.Instruction]:
        """All writes that are due now."""
        state, settings = self._state, self._settings
        out: list[ev.Instruction] = []
        if self.key_is_due(now_ms):
            out += self._repeats.once("session key", ev.MakeSessionKey(), now_ms)
        if state.desired is not None:
            # Stock workers recompute their tasks themselves.
            wanted = connector_records(
                state.desired,
                state.config,
                settings.owns_config,
                not state.all_stock,
                state.memory.managed,
                state.memory.orphans,
            )
            out += self._write(self._writable(wanted, now_ms), "desired connectors", now_ms)
        # In an adopted group only what is in its topic already may be passed over (see ``topic_refusal``).
        if self._write_window.is_behind:
            out += self._repeats.once("again", self._again(), now_ms)
        restarts = {request: each for request, each in self._waiting.items() if each.until_ms is not None}
        if restarts:
            records = tuple(record for each in restarts.values() for record in each.records)
            write = ev.WriteConfig(records, "restarts were requested", tuple(restarts))
            out += self._repeats.once(("restarts", *restarts), write, now_ms)
        for regroup in state.regroups.values():
            if self._is_known(regroup.connector) and not self._in_use(regroup, now_ms):
                records = task_records(regroup.connector, regroup.configs)
                out += self._write(records, f"tasks of {regroup.connector}", now_ms)
        if not out and self._repeats.is_quiet(now_ms):
            state.unwritten = ""
        return out

    def refused(self, event: ev.ConfigRefused, now_ms: int) -> list[ev.Instruction]:
        """Go on without these records: the connector keeps what it has, and its tasks are not suspended."""
        refused = RefusedRecords(event.records, event.reason, now_ms + REFUSED_AGAIN_MS)
        self._state.refused[event.connector] = refused
        self._state.regroups.pop(event.connector, None)
        return self._reply(lambda request, waiting: request in event.requests, ev.PostOutcome.AGAIN)

    def _writable(self, records: tuple[ConfigRecord, ...], now_ms: int) -> tuple[ConfigRecord, ...]:
        """The records without those of connectors whose state is not known, and without those that were
        refused, for now: the broker's limit may be raised.
        """
        state, wanted = self._state, grouped(records)
        for name, refused in [*state.refused.items()]:
            known = name in state.config.connectors or name in wanted
            if not known or wanted.get(name, refused.records) != refused.records:
                del state.refused[name]
        parts = (
            part
            for name, part in wanted.items()
            # Computed from an older state, it would lack what was written meanwhile, such as tasks, which a
            # new reader of the log then finds before their connector, and drops.
            if self._is_known(name) and self._may_try(name, part, now_ms)
        )
        return tuple(record for part in parts for record in part)

    def _may_try(self, connector: str, records: tuple[ConfigRecord, ...], now_ms: int) -> bool:
        refused = self._state.refused.get(connector)
        return refused is None or refused.records != records or refused.again_ms <= now_ms

    def again_ms(self, now_ms: int) -> list[int]:
        """The times (ms) at which refused records are tried again."""
        return [each.again_ms for each in self._state.refused.values() if each.again_ms > now_ms]

    def _again(self) -> ev.Instruction:
        """A record that repeats the present state.

        Stock workers read and count even the records of an aborted transaction, unless sources are
        exactly-once. Until there is a later record they are ahead of readers that do not.
        """
        connectors = self._state.config.connectors
        for name in filter(self._is_known, sorted(connectors)):
            target = connectors[name].target
            return ev.WriteConfig((TargetStateRecord(name, target),), "members have read further")
        return ev.MakeSessionKey()

    def key_is_due(self, now_ms: int) -> bool:
        """Whether requests are signed and the key is missing or due for replacement (KIP-507)."""
        if not signs_requests(self._state.protocol):
            return False
        key, settings = self._state.config.session_key, self._settings
        return (
            key is None
            or now_ms - key.created_ms >= settings.session_key_ttl_ms
            or key.algorithm != settings.session_key_algorithm
            or len(key.key) != settings.session_key_bytes
        )

    def key_due_ms(self, now_ms: int) -> int:
        key = self._state.config.session_key
        return (key.created_ms if key else now_ms) + self._settings.session_key_ttl_ms

    def post_tasks(self, event: ev.TasksPosted, now_ms: int) -> list[ev.Instruction]:
        """Take a connector's new task configurations.

        204: the config log has them. 202: running tasks change, so those are revoked first; the caller
        repeats the request until it gets 204, which also survives a change of leader. 503: the write failed,
        or an earlier one of the connector is not in the log yet or not read, or the caller may be a stock
        worker, which would take a 202 for done and ask no later leader. 404 and 409 as in Kafka Connect
        (docs/protocol.md, 9).
        """
        state = self._state
        if refused := self._refusal(event.request):
            return refused
        if not self._is_known(event.connector):
            # Members will run something else than what was read last.
            return [ev.Reply(event.request, ev.PostOutcome.AGAIN)]
        committed = state.config.connectors.get(event.connector)
        if committed is None:
            return [ev.Reply(event.request, ev.PostOutcome.UNKNOWN_CONNECTOR)]
        known = () if committed.inconsistent else committed.tasks
        stale = state.all_stock and committed.applied != committed.config
        if known == event.configs and not committed.inconsistent and not stale:
            state.regroups.pop(event.connector, None)
            return [ev.Reply(event.request, ev.PostOutcome.WRITTEN)]
        if not self._may_try(event.connector, task_records(event.connector, event.configs), now_ms):
            return [ev.Reply(event.request, ev.PostOutcome.AGAIN)]
        regroup = Regroup.between(event.connector, known, event.configs)
        if self._may_write(now_ms) and not self._in_use(regroup, now_ms):
            state.regroups.pop(event.connector, None)
            records = task_records(event.connector, event.configs)
            waiting = _Waiting(records, ev.PostOutcome.WRITTEN)
            return self._write_for(event.request, waiting, f"tasks of {event.connector}", now_ms)
        if state.all_stock:
            # They would take any 2xx for done, and they stop changed tasks themselves: nothing is to be
            # revoked.
            return [ev.Reply(event.request, ev.PostOutcome.AGAIN)]
        state.regroups[event.connector] = regroup
        outcome = ev.PostOutcome.AGAIN if state.memory.stock else ev.PostOutcome.PENDING
        return [ev.Reply(event.request, outcome)]

    def restart(self, event: ev.RestartRequested) -> list[ev.Instruction]:
        """Have the members restart what the record names.

        202: the config log has the record. 503: it could not be written in time. 404 and 409 as for
        ``post_tasks``.
        """
        if refused := self._refusal(event.request):
            return refused
        record = event.record
        known = self._state.config.connectors.get(record.connector)
        if known is None or not (record.task is None or INSTANCE <= record.task < known.task_count):
            return [ev.Reply(event.request, ev.PostOutcome.UNKNOWN_CONNECTOR)]
        self._waiting[event.request] = _Waiting((record,), ev.PostOutcome.PENDING, event.until_ms)
        return []

    def fenced(self, event: ev.ProducersFenced, now_ms: int) -> list[ev.Instruction]:
        """Record that the producers of earlier tasks were fenced for the tasks of ``generation``.

        204: recorded. 503: ask again. 410: a later generation exists. 409: not leading.
        """
        request, record = event.request, event.record
        if refused := self._refusal(request):
            return refused
        known = self._state.config.fencings.get(record.connector, TaskFencing())
        if known.generation != event.generation:
            return [ev.Reply(request, ev.PostOutcome.OUTDATED)]
        if not known.pending and known.recorded == record.task_count:
            return [ev.Reply(request, ev.PostOutcome.WRITTEN)]
        if not self._may_write(now_ms):
            return [ev.Reply(request, ev.PostOutcome.AGAIN)]
        # Once it is in the log, tasks may have been committed before it: the next question finds out.
        waiting = _Waiting((record,), ev.PostOutcome.AGAIN)
        return self._write_for(request, waiting, f"fencing of {record.connector}", now_ms)

    def _refusal(self, request: int) -> list[ev.Instruction]:
        if not self._state.leading:
            return [ev.Reply(request, ev.PostOutcome.NOT_LEADING)]
        if self._state.topic_refusal:
            return [ev.Reply(request, ev.PostOutcome.AGAIN)]
        return []

    def _is_known(self, connector: str) -> bool:
        """Whether everything of the connector that was written here has been read back."""
        return self._state.config.offset >= self._unread.get(connector, -1)

    def _may_write(self, now_ms: int) -> bool:
        state = self._state
        return not state.in_round and not state.is_blind and self._write_window.is_over(now_ms)

    def _in_use(self, regroup: Regroup, now_ms: int) -> bool:
        state = self._state
        if state.group is not None:
            return regroup.is_occupied(state.group.occupants)
        ended: Container[tuple[str, str]] = state.facts.ended
        if not state.all_stock and regroup.is_reported(state.members):
            return True
        return regroup.may_run(state.members, state.memory, ended, state.policy, now_ms)

    def _write_for(self, request: int, waiting: _Waiting, why: str, now_ms: int) -> list[ev.Instruction]:
        writing = self._write(waiting.records, why, now_ms, (request,))
        if not writing:
            # Asked for a moment ago, and not in the log: that write may have failed.
            return [ev.Reply(request, ev.PostOutcome.AGAIN)]
        self._waiting[request] = waiting
        return writing

    def _write(
        self, records: tuple[ConfigRecord, ...], why: str, now_ms: int, requests: tuple[int, ...] = ()
    ) -> list[ev.Instruction]:
        if not records:
            return []
        same = tuple(encode_config(record) for record in records)
        return self._repeats.once(same, ev.WriteConfig(records, why, requests), now_ms)
