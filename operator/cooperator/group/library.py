"""A thin typed interface to the parts of kafka-python used here, and its settings."""

import time
from collections.abc import Callable, Coroutine
from typing import Any, Final

from kafka import errors as errors
from kafka.future import Future as LoopFuture
from kafka.net.compat import KafkaNetClient
from kafka.net.manager import KafkaConnectionManager
from kafka.net.sasl.oauth import AbstractTokenProvider
from kafka.net.selector import NetworkSelector
from kafka.net.wakeup_notifier import WakeupNotifier

from cooperator.group.config import GroupConfig
from cooperator.oauthbearer import Tokens, TokenUnavailable

BOOTSTRAP_MS: Final = 5_000
_MAX_REQUEST_MS: Final = 5_000
_RECEIVE_MAX_BYTES: Final = 100 * 1024 * 1024


def request_timeout_ms(config: GroupConfig) -> int:
    """For requests that the broker answers at once: a dead broker is noticed well within a session."""
    return min(_MAX_REQUEST_MS, config.session_timeout_ms // 2)


def parked_timeout_ms(config: GroupConfig) -> int:
    """For JoinGroup and SyncGroup, which the broker holds until the others, or the leader, are there."""
    return config.rebalance_timeout_ms + 5_000


class Connections:
    """Connections to one cluster on an event loop, which the caller drives."""

    def __init__(self, loop: NetworkSelector, config: GroupConfig) -> None:
        settings = _settings(config)
        self.manager = KafkaConnectionManager(loop, **settings)
        self.client = KafkaNetClient(net=loop, manager=self.manager, **settings)

    @property
    def broker_version(self) -> tuple[int, ...]:
        return tuple(self.manager.broker_version)

    async def bootstrap(self) -> None:
        """Fetch the cluster metadata from any bootstrap server; does nothing the next time.

        Raises KafkaError after BOOTSTRAP_MS; these connections are then unusable.
        """
        await self.manager.bootstrap_async(BOOTSTRAP_MS, refresh=False)

    async def send(self, request: Any, node_id: Any, timeout_ms: int | None = None) -> Any:
        return await self.manager.send(request, node_id=node_id, request_timeout_ms=timeout_ms)

    def close(self) -> None:
        self.manager.close()


class Task:
    """A coroutine that runs beside others on the loop."""

    def __init__(
        self,
        loop: NetworkSelector,
        coroutine: Callable[[], Coroutine[Any, Any, Any]],
        then: Callable[[], None] = lambda: None,
    ) -> None:
        self._loop = loop
        self._future = loop.call_soon_with_future(coroutine)
        self._future.add_both(lambda _: then())

    @property
    def done(self) -> bool:
        return bool(self._future.is_done)

    async def wait(self, timeout_ms: float | None = None) -> bool:
        """Wait until the coroutine has ended or the time-out has passed; returns whether it has ended."""
        await wait_for(self._loop, self._future, timeout_ms)
        return self.done

    def result(self) -> Any:
        """Return the coroutine's result, or raise its exception. Call it only when done."""
        if self._future.exception is not None:
            raise self._future.exception
        return self._future.value


async def wait_for(loop: NetworkSelector, future: LoopFuture, timeout_ms: float | None) -> None:
    """Wait until ``future`` is resolved or has failed, or until the time-out. Never raises its exception."""
    woken = LoopFuture()

    def wake(_: object = None) -> None:
        if not woken.is_done:
            woken.success(None)

    future.add_both(wake)
    timer = None if timeout_ms is None else loop.call_later(timeout_ms / 1000, lambda: wake())
    try:
        await woken
    finally:
        if timer is not None:
            loop.cancel(timer)


def resolve(loop: NetworkSelector, future: LoopFuture) -> None:
    """Any thread: resolve ``future`` on the loop, once. Does nothing when the loop has ended."""

    def on_loop() -> None:
        if not future.is_done:
            future.success(None)

    try:
        loop.call_soon_threadsafe(on_loop)
    except RuntimeError:
        return


def wake(notifier: WakeupNotifier) -> None:
    """Any thread: wake the waiter of ``notifier``. Does nothing when its loop has ended."""
    try:
        notifier.notify()
    except RuntimeError:
        return


async def sleep_ms(loop: NetworkSelector, duration_ms: float) -> None:
    await loop.sleep(duration_ms / 1000)


def new_loop(config: GroupConfig) -> NetworkSelector:
    return NetworkSelector(client_id=config.client_id)


def now_s() -> float:
    return time.monotonic()


class _TokenProvider(AbstractTokenProvider):  # type: ignore[misc]
    """Tokens for the library. A missing token is a failed connection, which is tried again; the library
    would keep a failed login for good."""

    def __init__(self, tokens: Tokens) -> None:
        super().__init__()
        self._tokens = tokens

    def token(self) -> str:
        try:
            return self._tokens.token()
        except TokenUnavailable as error:
            raise errors.KafkaConnectionError(str(error)) from None


def _settings(config: GroupConfig) -> dict[str, Any]:
    security = {
        name: _TokenProvider(value) if isinstance(value, Tokens) else value
        for name, value in config.security.items()
    }
    return {
        **security,
        "bootstrap_servers": config.bootstrap_servers,
        "client_id": config.client_id,
        "request_timeout_ms": request_timeout_ms(config),
        # A broker that is back must be noticed within a session time-out; the default backs off to 30 s.
        "reconnect_backoff_ms": 50,
        "reconnect_backoff_max_ms": 1_000,
        "socket_connection_setup_timeout_ms": 3_000,
        "socket_connection_setup_timeout_max_ms": 5_000,
        # A JoinGroup response holds the metadata of the whole group; the default is 1 MB.
        "receive_message_max_bytes": _RECEIVE_MAX_BYTES,
    }
