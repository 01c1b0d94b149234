"""The leader log: the state that the next leader needs."""

import threading
from dataclasses import dataclass

from cooperator.logs.errors import LogUnreadable
from cooperator.logs.transport import Batch, Transport
from cooperator.model import Memory, Policy
from cooperator.wire import DecodeError, Owner, Record, Unknown, decode_leader


@dataclass(frozen=True, slots=True)
class LeaderRecords:
    """The newest record of each kind; None where there is none. ``others``: those with other keys."""

    owner: Owner | None = None
    policy: Policy | None = None
    memory: Memory | None = None
    others: tuple[Record, ...] = ()


class LeaderLog:
    """Follows the leader topic continuously, so that a member can read it to its end at once.

    Records are only stored; they are decoded when the process is about to lead.
    """

    def __init__(self, transport: Transport, topic: str) -> None:
        self._topic = topic
        self._newest: dict[str, Record] = {}
        self._lock = threading.Lock()
        self._topic_reader = transport.topic_reader(topic, self)

    def read_to_end(self, timeout_ms: int) -> LeaderRecords:
        """Return the state with everything that was in the log at the time of the call.

        Raises LogTimeout, LogUnavailable, and LogUnreadable when a record cannot be decoded; in that case
        this process must not lead.
        """
        self._topic_reader.read_to_end(timeout_ms)
        return self.known()

    def known(self) -> LeaderRecords:
        """Return the state as far as the log has been read. Raises LogUnreadable."""
        with self._lock:
            records = tuple(self._newest.values())
        owner: Owner | None = None
        policy: Policy | None = None
        memory: Memory | None = None
        others: list[Record] = []
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
                case Unknown():
                    others.append(record)
        return LeaderRecords(owner, policy, memory, tuple(others))

    def policy(self) -> Policy | None:
        """The policy, as far as the log has been read; None if there is none that this process can read."""
        with self._lock:
            record = self._newest.get("policy")
        try:
            policy = None if record is None else decode_leader(record)
        except DecodeError:
            return None
        return policy if isinstance(policy, Policy) else None

    def close(self) -> None:
        self._topic_reader.close()

    # The topic reader calls these.

    def take(self, batch: Batch) -> None:
        with self._lock:
            self._newest.update((record.key, record) for _, record in batch)

    def caught_up(self) -> None:
        """Do nothing: the state is used only after the topic was read to its end."""

    def start_over(self) -> None:
        with self._lock:
            self._newest.clear()
