"""The leader's writes to the config log: never inside a round (see ``write_window``). Pure."""

from collections.abc import Container

from cooperator.leader import events as ev
from cooperator.leader.reconcile import connector_records, task_records
from cooperator.leader.regroup import Regroup
from cooperator.leader.state import LeaderSettings, LeaderState
from cooperator.leader.stock.write_window import WriteWindow
from cooperator.model import INSTANCE, TaskFencing
from cooperator.wire import (
    ConfigRecord,
    FencingRecord,
    Protocol,
    RestartRecord,
    TargetStateRecord,
    encode_config,
)

REPEAT_MS = 2_000
"""A write or a request that shows no effect is repeated after this time."""


class Repeats:
    """Recent requests whose effects may not be visible yet."""

    def __init__(self) -> None:
        self._emitted: dict[object, int] = {}

    def once(self, key: object, instruction: ev.Instruction, now_ms: int) -> list[ev.Instruction]:
        """``instruction``, unless the same was issued so recently that its effect may not be visible yet."""
        self._emitted = {k: at for k, at in self._emitted.items() if now_ms - at < REPEAT_MS}
        if key in self._emitted:
            return []
        self._emitted[key] = now_ms
        return [instruction]

    def next_ms(self) -> list[int]:
        return [at + REPEAT_MS for at in self._emitted.values()]

    def clear(self) -> None:
        self._emitted.clear()


class Writes:
    """The records that are due. Call ``due`` only where a record may be written."""

    def __init__(
        self, settings: LeaderSettings, state: LeaderState, repeats: Repeats, write_window: WriteWindow
    ) -> None:
        self._settings = settings
        self._state = state
        self._repeats = repeats
        self._write_window = write_window
        self._restarts: list[RestartRecord] = []

    def clear(self) -> None:
        self._restarts = []

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
            out += self._write(wanted, "desired connectors", now_ms)
        # In an adopted group only what is in its topic already may be passed over (see ``topic_refusal``).
        if self._write_window.is_behind:
            out += self._repeats.once("again", self._again(), now_ms)
        if self._restarts:
            out.append(ev.WriteConfig(tuple(self._restarts), "restarts that were asked for"))
            self._restarts = []
        for regroup in state.regroups.values():
            if not self._in_use(regroup, now_ms):
                records = task_records(regroup.connector, regroup.configs)
                out += self._write(records, f"tasks of {regroup.connector}", now_ms)
        return out

    def _again(self) -> ev.Instruction:
        """A record that repeats the present state.

        Stock workers read and count even the records of an aborted transaction, unless sources are
        exactly-once. Until there is a later record they are ahead of readers that do not.
        """
        for name, connector in sorted(self._state.config.connectors.items()):
            return ev.WriteConfig((TargetStateRecord(name, connector.target),), "members have read further")
        return ev.MakeSessionKey()

    def key_is_due(self, now_ms: int) -> bool:
        """Whether requests are signed and the key is missing or due for replacement (KIP-507)."""
        if self._state.protocol != Protocol.SESSIONED.value:
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

    def post_tasks(
        self, event: ev.TasksPosted, in_round: bool, now_ms: int
    ) -> tuple[int, list[ev.Instruction]]:
        """Take a connector's new task configurations; returns the HTTP code and the instructions.

        204: the config log has them, or they are being written. 202: running tasks change, so those are
        revoked first; the caller repeats the request until it gets 204, which also survives a change of
        leader. 503: an earlier write of the same configurations is not in the log yet, or all members are
        stock workers, which would take a 202 for done, and nothing may be written just now. 404 and 409 as in
        Kafka Connect (docs/protocol.md, 9).
        """
        state = self._state
        if not state.leading:
            return ev.PostOutcome.NOT_LEADING, []
        if state.topic_refusal:
            return ev.PostOutcome.AGAIN, []
        committed = state.config.connectors.get(event.connector)
        if committed is None:
            return ev.PostOutcome.UNKNOWN_CONNECTOR, []
        known = () if committed.inconsistent else committed.tasks
        stale = state.all_stock and committed.applied != committed.config
        if known == event.configs and not committed.inconsistent and not stale:
            state.regroups.pop(event.connector, None)
            return ev.PostOutcome.WRITTEN, []
        regroup = Regroup.between(event.connector, known, event.configs)
        blocked = in_round or not self._write_window.is_over(now_ms)
        if not blocked and not self._in_use(regroup, now_ms):
            state.regroups.pop(event.connector, None)
            records = task_records(event.connector, event.configs)
            writing = self._write(records, f"tasks of {event.connector}", now_ms)
            # Asked for a moment ago, and not in the log: that write may have failed.
            return (ev.PostOutcome.WRITTEN if writing else ev.PostOutcome.AGAIN), writing
        if state.all_stock:
            # They would take any 2xx for done, and they stop changed tasks themselves: nothing is to be
            # revoked.
            return ev.PostOutcome.AGAIN, []
        state.regroups[event.connector] = regroup
        return ev.PostOutcome.PENDING, []

    def restart(self, record: RestartRecord) -> int:
        """Ask the members to restart what ``record`` names: 202, or 404 and 409 as for ``post_tasks``."""
        if not self._state.leading:
            return ev.PostOutcome.NOT_LEADING
        if self._state.topic_refusal:
            return ev.PostOutcome.AGAIN
        known = self._state.config.connectors.get(record.connector)
        if known is None or not (record.task is None or INSTANCE <= record.task < known.task_count):
            return ev.PostOutcome.UNKNOWN_CONNECTOR
        self._restarts.append(record)
        return ev.PostOutcome.PENDING

    def fenced(
        self, record: FencingRecord, generation: int, in_round: bool, now_ms: int
    ) -> tuple[int, list[ev.Instruction]]:
        """Record that the producers of earlier tasks were fenced for the tasks of ``generation``.

        204: recorded. 503: ask again. 410: there is a later generation by now. 409: not leading.
        """
        state = self._state
        if not state.leading:
            return ev.PostOutcome.NOT_LEADING, []
        if state.topic_refusal:
            return ev.PostOutcome.AGAIN, []
        known = state.config.fencings.get(record.connector, TaskFencing())
        if known.generation != generation:
            return ev.PostOutcome.OUTDATED, []
        if not known.pending and known.recorded == record.task_count:
            return ev.PostOutcome.WRITTEN, []
        if in_round or not self._write_window.is_over(now_ms):
            return ev.PostOutcome.AGAIN, []
        return ev.PostOutcome.AGAIN, self._write((record,), f"fencing of {record.connector}", now_ms)

    def _in_use(self, regroup: Regroup, now_ms: int) -> bool:
        state = self._state
        ended: Container[tuple[str, str]] = state.facts.ended
        if not state.all_stock and regroup.is_reported(state.members):
            return True
        return regroup.may_run(state.members, state.memory, ended, state.policy, now_ms)

    def _write(self, records: tuple[ConfigRecord, ...], why: str, now_ms: int) -> list[ev.Instruction]:
        if not records:
            return []
        same = tuple(encode_config(record) for record in records)
        return self._repeats.once(same, ev.WriteConfig(records, why), now_ms)
