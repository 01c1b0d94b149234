"""Evicts members on behalf of the leader, as soon as that is safe."""

import random
import threading
from collections.abc import Iterable
from typing import Final

from kafka.net.selector import NetworkSelector
from kafka.net.wakeup_notifier import WakeupNotifier

from cooperator.group.admin import GroupAdmin
from cooperator.group.config import GroupConfig
from cooperator.group.coordinator import Coordinator
from cooperator.group.failures import delay_ms, explain
from cooperator.group.guarded_listener import GuardedListener
from cooperator.group.library import errors, sleep_ms, wake
from cooperator.model.text import counted

_REASON: Final = "the leader has proof of its end"
_LOOK_AGAIN_MS: Final = 100


class Evictor:
    """A queue of member ids, and the coroutine that empties it."""

    def __init__(
        self,
        loop: NetworkSelector,
        config: GroupConfig,
        listener: GuardedListener,
        admin: GroupAdmin,
        coordinator: Coordinator,
    ) -> None:
        self._loop = loop
        self._admin = admin
        self._coordinator = coordinator
        self._listener = listener
        self._group = config
        self._wake = WakeupNotifier(loop)
        self._lock = threading.Lock()
        self._due: set[str] = set()

    def resume(self, earlier: "Evictor") -> None:
        """Take over the evictions that ``earlier`` has not carried out."""
        self.ask(earlier._due)

    def ask(self, member_ids: Iterable[str]) -> None:
        """Any thread."""
        with self._lock:
            self._due |= set(member_ids)
        wake(self._wake)

    async def run(self) -> None:
        """Evict due members; never returns."""
        attempts = 0
        while True:
            batch = self._batch()
            if not batch:
                await self._wake()
            elif self._coordinator.round_in_hand:
                # Members that await our plan have a pending SyncGroup, which the broker would never answer
                # once it removes them.
                await sleep_ms(self._loop, _LOOK_AGAIN_MS)
            else:
                try:
                    await self._remove(batch)
                    attempts = 0
                except errors.KafkaError as error:
                    attempts += 1
                    self._listener.trouble(
                        f"cannot evict {', '.join(batch)} yet: {explain(error, self._group)}"
                    )
                    await sleep_ms(self._loop, delay_ms(error, attempts, random.random()))

    def _batch(self) -> list[str]:
        with self._lock:
            if not self._coordinator.leading:
                self._due.clear()
            return sorted(self._due - {self._coordinator.member_id})

    async def _remove(self, batch: list[str]) -> None:
        instance_ids = self._coordinator.instance_ids
        await self._admin.remove([(member, instance_ids.get(member)) for member in batch], _REASON)
        with self._lock:
            self._due -= set(batch)
        # The round that this triggers waits for us, too; a heartbeat would tell us later.
        self._coordinator.ask_rejoin(f"has evicted {counted(len(batch), 'member')}")
