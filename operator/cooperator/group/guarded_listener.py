"""The listener as the membership calls it: repeated reports are dropped, slow calls are logged."""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Final, ParamSpec, TypeVar

from cooperator.group.listener import DescribedMember, Joined, Listener, Round

log = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")

SLOW_MS: Final = 50
REPEAT_S: Final = 10.0


class ListenerFailed(Exception):
    """The listener raised in a call that needs an answer."""


class GuardedListener:
    """Calls a listener. Notifications never raise; questions raise ListenerFailed."""

    def __init__(self, listener: Listener, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._listener = listener
        self._clock_s = clock_s
        self._said: dict[str, float] = {}

    def protocols(self) -> list[tuple[str, bytes]]:
        return [(name, bytes(metadata)) for name, metadata in self._ask(self._listener.protocols)]

    def ready_to_join(self) -> "Future[None] | None":
        return self._ask(self._listener.ready_to_join)

    def plan(self, round_: Round) -> "Future[Mapping[str, bytes]]":
        return self._ask(self._listener.plan, round_)

    def refusal(self, members: Sequence[DescribedMember]) -> str | None:
        """Returns why the lead may not be taken; None when it may."""
        verdict = self._ask(self._listener.may_take_lead, members)
        if verdict is True:
            return None
        return verdict or "the lead may not be taken"

    def round_void(self, generation: int) -> None:
        self._tell(self._listener.round_void, generation)

    def joined(self, joined: Joined) -> None:
        self._tell(self._listener.joined, joined)

    def dropped(self, reason: str) -> None:
        self._tell(self._listener.dropped, reason)

    def fenced(self) -> None:
        self._tell(self._listener.fenced)

    def contact(self, sent_at: float) -> None:
        self._tell(self._listener.contact, sent_at)

    def coordinator_lost(self) -> None:
        self._tell(self._listener.coordinator_lost)

    def refused(self, reason: str) -> None:
        self._tell(self._listener.refused, reason)

    def lead_taken(self, evicted: Sequence[str]) -> None:
        self._tell(self._listener.lead_taken, evicted)

    def lead_lost(self) -> None:
        self._tell(self._listener.lead_lost)

    def trouble(self, message: str) -> None:
        """Report a problem; the same text at most once every ``REPEAT_S``."""
        now = self._clock_s()
        self._said = {text: at for text, at in self._said.items() if now - at < REPEAT_S}
        if message in self._said:
            return
        self._said[message] = now
        log.warning("%s", message)
        self._tell(self._listener.trouble, message)

    def _tell(self, method: Callable[P, None], *args: P.args, **kwargs: P.kwargs) -> None:
        try:
            self._timed(method, *args, **kwargs)
        except Exception as error:
            name = _name(method)
            log.exception("the listener's %s failed", name)
            if name != "trouble":
                self.trouble(f"the membership's listener failed in {name}: {error!r}")

    def _ask(self, method: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return self._timed(method, *args, **kwargs)
        except Exception as error:
            log.exception("the listener's %s failed", _name(method))
            raise ListenerFailed(f"the membership's listener failed in {_name(method)}: {error!r}") from error

    def _timed(self, method: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        started = self._clock_s()
        try:
            return method(*args, **kwargs)
        finally:
            took_ms = (self._clock_s() - started) * 1000
            if took_ms > SLOW_MS:
                log.warning(
                    "the listener's %s took %.0f ms: heartbeats wait behind it", _name(method), took_ms
                )


def _name(method: Callable[..., object]) -> str:
    return getattr(method, "__name__", repr(method))
