"""Where a stopped connector's source stands: list, alter and reset, as Kafka Connect's REST API has them.

What may live here: the pure part (``entries``: documents, and what would change), Spark's checkpoints as
files (``unit_log``), what a source has to bring (``sources``), and the operations themselves (``operate``),
which whoever serves users calls: the command line, an operator. May import what the runtime may; no Spark
is started.
"""

from cooperator.runtime.offsets.entries import Change, Entry, OffsetsError, decode, encode
from cooperator.runtime.offsets.operate import Subject, alter, listed, reset
from cooperator.runtime.offsets.sources import Where

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
