"""Operations on the positions of units: they are sessions, as attempts have them."""

import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from cooperator.connectors.exactly_once import Replaced
from cooperator.connectors.intents.machine import Append, Hold
from cooperator.connectors.intents.stores import FileStore
from cooperator.connectors.intents.units import OwnedUnit
from cooperator.connectors.intents.values import RELEASED
from cooperator.connectors.microbatch.batches import Stand
from cooperator.connectors.microbatch.claims import Claim

_OWNER: Final = "offsets"


def positions(store: FileStore, units: Sequence[str]) -> dict[str, Stand]:
    """Returns the positions of units; those that have none are left out. It may raise ``OSError``."""
    found: dict[str, Stand] = {}
    for unit in units:
        _, intent = store.newest(unit)
        if intent is not None and intent.next is not None:
            found[unit] = Stand(intent.next, intent.topic_id)
    return found


def move(
    store_of: Callable[[str], FileStore], offsets: Mapping[str, int | None], stopped: threading.Event
) -> None:
    """Moves units to these offsets (None: no position), after it has finished their newest cuts.

    Attempts that still run stop before they write anything more, and every later one may begin. It may be
    repeated. Raises ``Replaced`` when an attempt has begun meanwhile, ``Cancelled``, and ``OSError``.
    """
    for unit, offset in offsets.items():
        store = store_of(unit)
        _, intent = store.newest(unit)
        before = intent.session.claim if intent is not None else RELEASED.claim
        claim = Claim(before.epoch, before.attempt + 1, f"{_OWNER}-{uuid.uuid4().hex[:8]}")
        owned = OwnedUnit(unit, claim, store, stopped)
        owned.begin()
        held: Hold = owned.carry(Append(offset, releases=True))
        if held.last.next != offset:
            raise Replaced(f"unit {unit} was taken by another attempt: repeat the operation")
