"""Producers of a source connector's earlier tasks: which to fence before new ones start (KIP-618).

Pure, except for its last part. The rules are those of Kafka's own leader:

    pending   = tasks were committed since the last fencing was recorded
    to fence  = the tasks of that record; none if there is no record, or if it was one task and is one again,
                since that one fences its own predecessor
    recorded  = the tasks committed now, if these are still the newest once all are fenced
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Protocol

from cooperator.leader import events as ev
from cooperator.leader.stock.posts import NOT_NOW, PostRefused, outcome_of
from cooperator.logs import Logs, LogUnavailable
from cooperator.model import ClusterConfig, TaskFencing
from cooperator.wire import FencingRecord

log = logging.getLogger(__name__)

READ_MS = 3_000
"""``worker.sync.timeout.ms`` of a stock worker."""
AGAIN_S = 0.1
_OVERRIDE = "admin.override."


@dataclass(frozen=True, slots=True)
class Zombies:
    """Producers to fence before a connector's tasks may produce.

    ``fence``: how many producers of earlier tasks there may be. ``tasks``: how many there are now, in
    ``generation``.
    """

    connector: str
    fence: int
    tasks: int
    generation: int

    def transactional_ids(self, group_id: str) -> tuple[str, ...]:
        """Transactional ids of the producers of tasks 0 to ``fence`` - 1, as stock workers name them."""
        return tuple(f"{group_id}-{self.connector}-{number}" for number in range(self.fence))


def zombies(config: ClusterConfig, connector: str) -> Zombies | None:
    """Returns the fencing and the record that must precede tasks of ``connector``; None if none is needed."""
    known = config.fencings.get(connector, TaskFencing())
    if not known.pending:
        return None
    tasks = len(config.connectors[connector].tasks)
    same_one = known.recorded == 1 and tasks == 1
    return Zombies(connector, 0 if same_one else known.recorded or 0, tasks, known.generation)


def overrides(config: Mapping[str, str]) -> dict[str, str]:
    """The connector's own settings for the fencing client (KIP-458), without their prefix."""
    return {
        name.removeprefix(_OVERRIDE): value for name, value in config.items() if name.startswith(_OVERRIDE)
    }


FenceProducers = Callable[[Sequence[str], Mapping[str, str]], None]
"""Fences the producers with these transactional ids, using a client with these settings (Java names).

Raises ValueError for a setting without a counterpart, LogUnavailable.
"""


class FencingLead(Protocol):
    """The part of the leader's thread that fencing uses."""

    def submit(self, event: ev.Event) -> None: ...
    def fenced(self, record: FencingRecord, generation: int) -> "Future[int]": ...


class Fencer:
    """Answers ``PUT /connectors/{name}/fence``. Concurrent requests for one connector share one fencing.

    Runs in one event loop.
    """

    def __init__(self, group_id: str, fence: FenceProducers, patience_s: float) -> None:
        self._group_id = group_id
        self._fence = fence
        self._patience_s = patience_s
        self._running: dict[str, asyncio.Task[None]] = {}

    async def fenced(self, lead: FencingLead, logs: Logs, connector: str) -> None:
        """Return when no producer of an earlier task can write any more. Raises PostRefused."""
        lead.submit(ev.FenceRequested(connector))
        running = self._running.get(connector)
        if running is None:
            running = asyncio.create_task(self._round(lead, logs, connector))
            self._running[connector] = running
            running.add_done_callback(lambda _: self._running.pop(connector, None))
        await asyncio.shield(running)

    async def _round(self, lead: FencingLead, logs: Logs, connector: str) -> None:
        config = await _read(logs)
        if connector not in config.connectors:
            raise PostRefused(404, f"connector {connector} is unknown")
        found = zombies(config, connector)
        if found is None:
            return
        ids = found.transactional_ids(self._group_id)
        if ids:
            log.info("fencing %d producers of earlier tasks of %s", len(ids), connector)
            settings = overrides(config.connectors[connector].config)
            try:
                await asyncio.to_thread(self._fence, ids, settings)
            except ValueError as error:
                raise PostRefused(400, f"{_OVERRIDE}*: {error}") from None
            except LogUnavailable as error:
                raise PostRefused(500, f"producers of {connector} could not be fenced: {error}") from None
        await self._record(lead, found)

    async def _record(self, lead: FencingLead, found: Zombies) -> None:
        record = FencingRecord(found.connector, found.tasks)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._patience_s
        while True:
            code = await outcome_of(asyncio.wrap_future(lead.fenced(record, found.generation)))
            if code == ev.PostOutcome.WRITTEN:
                return
            if code == ev.PostOutcome.OUTDATED:
                raise PostRefused(409, f"new tasks of {found.connector} were committed meanwhile; ask again")
            if code == ev.PostOutcome.NOT_LEADING:
                raise PostRefused(409, "this member does not lead")
            if loop.time() > deadline:
                raise PostRefused(503, NOT_NOW)
            await asyncio.sleep(AGAIN_S)


async def _read(logs: Logs) -> ClusterConfig:
    try:
        return await asyncio.to_thread(logs.config.read_to_end, READ_MS)
    except LogUnavailable as error:
        raise PostRefused(500, f"the config log cannot be read to its end: {error}") from None
