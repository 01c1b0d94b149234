"""When a failed task is restarted automatically."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

RESERVED: Final = "cooperator."
"""Prefix of connector settings that are for the member itself; connectors never see them."""

RESTART_LIMIT: Final = "RestartLimit"
"""The reason of a task that stays FAILED because it has used up its restarts."""

_PREFIX: Final = f"{RESERVED}auto.restart."


@dataclass(frozen=True, slots=True)
class AutoRestart:
    """A failed task waits ``backoff_ms``, twice as long after each failure, at most ``backoff_max_ms``.

    After ``max_restarts`` it stays failed. If a task ran for ``reset_after_ms`` before it failed, its count
    starts over.
    """

    enabled: bool = True
    max_restarts: int = 7
    backoff_ms: int = 10_000
    backoff_max_ms: int = 300_000
    reset_after_ms: int = 600_000

    def delay_ms(self, restarts: int) -> int | None:
        """Return the delay after a failure that follows ``restarts`` restarts; None: never restart."""
        if not self.enabled or restarts >= self.max_restarts:
            return None
        # The exponent is bounded because the limit applies long before.
        return min(self.backoff_ms << min(restarts, 40), self.backoff_max_ms)

    def settings(self) -> dict[str, str]:
        """Return the settings that differ from the defaults, as in a connector's configuration."""
        written = _written(self)
        return {name: value for name, value in written.items() if value != _written(AutoRestart())[name]}

    @classmethod
    def of(cls, config: Mapping[str, str]) -> "AutoRestart":
        """Read a connector's configuration. A value that is not a non-negative number counts as absent:
        manifests are validated, and what other writers left there must not affect a task."""
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
    """Return the settings that a connector sees; the same object when nothing is reserved."""
    if not any(name.startswith(RESERVED) for name in config):
        return config
    return {name: value for name, value in config.items() if not name.startswith(RESERVED)}
