"""Asks a broker for its metadata: an answer means that clients can work.

A TCP port is open long before that, and this package has no Kafka client.
"""

import socket
import struct
from typing import Final

_METADATA: Final = 3
_VERSION: Final = 1
_CORRELATION: Final = 1
_CLIENT: Final = b"cooperator-probe"
_ALL_TOPICS: Final = -1


def answers_metadata(host: str, port: int, timeout_s: float) -> bool:
    """Whether the broker lists itself as alive in a Metadata answer (version 1) for all topics."""
    request = struct.pack(">hhih", _METADATA, _VERSION, _CORRELATION, len(_CLIENT)) + _CLIENT
    request += struct.pack(">i", _ALL_TOPICS)
    try:
        with socket.create_connection((host, port), timeout=timeout_s) as connection:
            connection.sendall(struct.pack(">i", len(request)) + request)
            answer: tuple[int, int, int] = struct.unpack(">iii", _read(connection, 12))
    except OSError:
        return False
    _, correlation, brokers = answer
    return correlation == _CORRELATION and brokers > 0


def _read(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        chunk = connection.recv(size - len(data))
        if not chunk:
            raise ConnectionError("closed before the answer was complete")
        data += chunk
    return data
