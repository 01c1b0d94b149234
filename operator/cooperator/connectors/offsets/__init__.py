"""Positions of a stopped connector's source, as in Kafka Connect's REST API.

This package holds the pure part (``entries``: documents and their changes), Spark's checkpoints as files
(``unit_log``), and the interface for sources (``sources``) with what these know of sinks (``sinks``). The
operations on them are in ``connectors.offset_operations``. It may import what the runtime may; it starts no
Spark.
"""

from cooperator.connectors.offsets.entries import Change, Entry, OffsetsError, decode, encode
from cooperator.connectors.offsets.sources import Where

__all__ = ["Change", "Entry", "OffsetsError", "Where", "decode", "encode"]
