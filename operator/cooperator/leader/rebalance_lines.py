"""A log line for each rebalance of a group, in rounds and without them."""

import logging
from collections.abc import Sequence
from itertools import takewhile

from cooperator.leader.history import Rebalance
from cooperator.log_lines import within

log = logging.getLogger(__name__)


class RebalanceLines:
    """Used by one thread."""

    def __init__(self) -> None:
        self._last: Rebalance | None = None

    def say(self, done: Sequence[Rebalance]) -> None:
        """Log those of ``done``, the newest last, that were not there at the last call."""
        new = [*takewhile(lambda each: each is not self._last, reversed(done))]
        for each in reversed(new):
            number = each.epoch or each.generation
            with within(event=each.events, generation=f"{each.term}.{number}"):
                log.info(
                    "%s %d: %d assigned, %d revoked, %d held: %s",
                    *("epoch" if each.epoch else "generation", number),
                    *(each.assigned, each.revoked, each.held, each.cause),
                )
        if new:
            self._last = new[0]
