"""Requests that are repeated until they show an effect. Pure."""

from cooperator.leader import events as ev

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

    def is_quiet(self, now_ms: int) -> bool:
        """Whether no instruction was issued recently."""
        return all(now_ms - at >= REPEAT_MS for at in self._emitted.values())

    def next_ms(self) -> list[int]:
        return [at + REPEAT_MS for at in self._emitted.values()]

    def clear(self) -> None:
        self._emitted.clear()


class RoundRequests:
    """The leader's own requests for rounds: changes within ``coalesce_ms`` share one."""

    def __init__(self, coalesce_ms: int) -> None:
        self._coalesce_ms = coalesce_ms
        self._reason = ""
        self._since_ms: int | None = None
        self._sent_ms: int | None = None
        self._not_before_ms = 0

    @property
    def pending(self) -> bool:
        """Whether a round is wanted that has not begun."""
        return self._since_ms is not None

    @property
    def due_ms(self) -> int | None:
        """When the next request is due; None: no round is wanted."""
        if self._since_ms is None:
            return None
        sent_ms = self._sent_ms
        at_ms = self._since_ms + self._coalesce_ms if sent_ms is None else sent_ms + REPEAT_MS
        return max(at_ms, self._not_before_ms)

    def want(self, reason: str, now_ms: int) -> None:
        """The first of several reasons, and the earliest of several times, count."""
        if self._since_ms is None or now_ms < self._since_ms:
            self._since_ms = now_ms
            self._reason = self._reason or reason

    def hold_off(self, until_ms: int) -> None:
        """Request no round before ``until_ms``."""
        self._not_before_ms = until_ms

    def due(self, now_ms: int) -> list[ev.Instruction]:
        """The request, if one is due."""
        due_ms = self.due_ms
        if due_ms is None or now_ms < due_ms:
            return []
        self._sent_ms = now_ms
        return [ev.RequestRejoin(self._reason)]

    def begun(self) -> str:
        """A round has begun. Returns the reason for which it was requested; empty if it was not."""
        reason = self._reason
        self.clear()
        return reason

    def clear(self) -> None:
        self._reason = ""
        self._since_ms = self._sent_ms = None
