"""When a task that has failed is started again, unasked."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

RESERVED: Final = "cooperator."
"""Settings of a connector that begin so are for members themselves; no connector gets to see them."""

RESTART_LIMIT: Final = "RestartLimit"
"""The reason of a task that stays FAILED since it has failed after every restart that it may have."""

_PREFIX: Final = f"{RESERVED}auto.restart."


@dataclass(frozen=True, slots=True)
class AutoRestart:
    """A failed task waits ``backoff_ms``, twice as long after each failure, at most ``backoff_max_ms``.

    After ``max_restarts`` it stays failed. A task that ran for ``reset_after_ms`` before it failed begins
    to count anew.
    """

    enabled: bool = True
    max_restarts: int = 7
    backoff_ms: int = 10_000
    backoff_max_ms: int = 300_000
    reset_after_ms: int = 600_000

    def delay_ms(self, restarts: int) -> int | None:
        """How long to wait after a failure that ``restarts`` restarts came before; None: for ever."""
        if not self.enabled or restarts >= self.max_restarts:
            return None
        # The exponent is bounded where the number would only be cut off again.
        return min(self.backoff_ms << min(restarts, 40), self.backoff_max_ms)

    def settings(self) -> dict[str, str]:
        """As it travels in a connector's configuration: what differs from the defaults."""
        written = _written(self)
        return {name: value for name, value in written.items() if value != _written(AutoRestart())[name]}

    @classmethod
    def of(cls, config: Mapping[str, str]) -> "AutoRestart":
        """As a connector's configuration says. A value that is no number from 0 on counts as not written:
        manifests are checked, and a task must not hang on what another writer left there."""
        default = cls()

        def number(name: str, otherwise: int) -> int:
            text = config.get(_PREFIX + name, "")
            return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else otherwise

        return cls(
            enabled=config.get(f"{_PREFIX}enabled", "true").lower() != "false",
            max_restarts=number("max", default.max_restarts),
            backoff_ms=number("backoff.ms", default.backoff_ms),
            backoff_max_ms=number("backoff.max.ms", default.backoff_max_ms),
            reset_after_ms=number("reset.after.ms", default.reset_after_ms),
        )


def _written(restart: AutoRestart) -> dict[str, str]:
    return {
        f"{_PREFIX}enabled": str(restart.enabled).lower(),
        f"{_PREFIX}max": str(restart.max_restarts),
        f"{_PREFIX}backoff.ms": str(restart.backoff_ms),
        f"{_PREFIX}backoff.max.ms": str(restart.backoff_max_ms),
        f"{_PREFIX}reset.after.ms": str(restart.reset_after_ms),
    }


def without_reserved(config: Mapping[str, str]) -> Mapping[str, str]:
    """What a connector gets to see; the same object when nothing is reserved."""
    if not any(name.startswith(RESERVED) for name in config):
        return config
    return {name: value for name, value in config.items() if not name.startswith(RESERVED)}
