"""Operations on the positions of units: they are sessions, as attempts have them."""

import threading
import uuid
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, Protocol

from cooperator.connectors.exactly_once import Replaced
from cooperator.connectors.intents.machine import Append, Hold
from cooperator.connectors.intents.stores import UnitStore
from cooperator.connectors.intents.units import OwnedUnit
from cooperator.connectors.intents.values import RELEASED, Intent
from cooperator.connectors.microbatch.batches import Stand
from cooperator.connectors.microbatch.claims import Claim

_OWNER: Final = "offsets"
_AT_ONCE: Final = 8


class ReadableLogs(Protocol):
    """Logs of units, to read."""

    def newest(self, unit: str) -> tuple[int, Intent | None]: ...


def positions(store: ReadableLogs, units: Sequence[str]) -> dict[str, Stand]:
    """Returns the positions of units; those that have none are left out. It may raise ``OSError``."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        intents = [intent for _, intent in pool.map(store.newest, units)]
    return {
        unit: Stand(intent.next, intent.topic_id)
        for unit, intent in zip(units, intents, strict=True)
        if intent is not None and intent.next is not None
    }


def newest_claim(store: ReadableLogs, units: Sequence[str]) -> Claim:
    """Returns the newest claim in the logs of units. It may raise ``OSError``."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        intents = [intent for _, intent in pool.map(store.newest, units)]
    return max((each.session.claim for each in intents if each is not None), default=RELEASED.claim)


def move(
    store: UnitStore, offsets: Mapping[str, int | None], stopped: threading.Event, *, publishes: bool = True
) -> None:
    """Moves units to these offsets (None: no position), after it has finished their newest cuts.

    Without ``publishes`` the next attempts finish them. Attempts that still run stop before they write
    anything more, and every later one may begin. It may be repeated. Raises ``Replaced`` when an attempt has
    begun meanwhile, ``Cancelled``, and ``OSError``.
    """

    def one(unit: str) -> None:
        offset = offsets[unit]
        before = newest_claim(store, [unit])
        claim = Claim(before.epoch, before.attempt + 1, f"{_OWNER}-{uuid.uuid4().hex[:8]}")
        owned = OwnedUnit(unit, claim, store, stopped, publishes=publishes)
        owned.begin()
        held: Hold = owned.carry(Append(offset, releases=True, line=uuid.uuid4().hex))
        if held.last.next != offset:
            raise Replaced(f"unit {unit} was taken by another attempt: repeat the operation")

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        moves = [pool.submit(one, unit) for unit in offsets]
    for each in moves:
        each.result(0)
