"""Lists, alters and resets the offsets of a stopped connector, as Kafka Connect's REST API does.

This package holds the pure part (``entries``: documents and their changes), Spark's checkpoints as files
(``unit_log``), the interface for sources (``sources``), and the operations themselves (``operate``), which
the command line and the operator call. It may import what the runtime may; it starts no Spark.
"""

from cooperator.connectors.offsets.entries import Change, Entry, OffsetsError, decode, encode
from cooperator.connectors.offsets.operate import Subject, alter, listed, reset
from cooperator.connectors.offsets.sources import Where

__all__ = [
    "Change",
    "Entry",
    "OffsetsError",
    "Subject",
    "Where",
    "alter",
    "decode",
    "encode",
    "listed",
    "reset",
]
