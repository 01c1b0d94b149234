"""The leader log: what whoever leads next must know."""

import threading
from dataclasses import dataclass

from cooperator.logs.errors import LogUnreadable
from cooperator.logs.transport import Batch, Transport
from cooperator.model import Memory, Policy
from cooperator.wire import DecodeError, Owner, Record, decode_leader


@dataclass(frozen=True, slots=True)
class LeaderState:
    """The newest record of each kind; None where there is none."""

    owner: Owner | None = None
    policy: Policy | None = None
    memory: Memory | None = None


class LeaderLog:
    """Follows the leader topic all the time, so that a member can read it to its end at once.

    Records are only kept; they are decoded when somebody wants to lead.
    """

    def __init__(self, transport: Transport, topic: str) -> None:
        self._topic = topic
        self._newest: dict[str, Record] = {}
        self._lock = threading.Lock()
        self._tail = transport.tail(topic, self)

    def read_to_end(self, timeout_ms: int) -> LeaderState:
        """The state with all that was in the log at the time of the call.

        Raises LogTimeout, LogUnavailable, and LogUnreadable when a record cannot be understood: then this
        process must not lead.
        """
        self._tail.read_to_end(timeout_ms)
        with self._lock:
            records = tuple(self._newest.values())
        owner: Owner | None = None
        policy: Policy | None = None
        memory: Memory | None = None
        for record in records:
            try:
                decoded = decode_leader(record)
            except DecodeError as error:
                raise LogUnreadable(f"topic {self._topic}: {error}") from error
            match decoded:
                case Owner():
                    owner = decoded
                case Policy():
                    policy = decoded
                case Memory():
                    memory = decoded
        return LeaderState(owner, policy, memory)

    def close(self) -> None:
        self._tail.close()

    # What follows is called by the tail.

    def take(self, batch: Batch) -> None:
        with self._lock:
            self._newest.update((record.key, record) for _, record in batch)

    def caught_up(self) -> None:
        """Nothing to do: nobody sees the state before it has been read to its end."""

    def start_over(self) -> None:
        with self._lock:
            self._newest.clear()
