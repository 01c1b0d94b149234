"""Offsets that users give as a document, and changes of them as text: each position before and after, and how
many records that concerns."""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from cooperator.connectors.offsets import Change, Entry, OffsetsError, decode
from cooperator.model.text import counted
from cooperator.model.visible import to_visible_json

_RECORDS: Final = "kafka_offset"


def read_entries(source: str) -> list[Entry]:
    """Returns the entries of a file, or of standard input (-). Raises ``OffsetsError``."""
    if source == "-":
        return decode(sys.stdin.read(), "standard input")
    try:
        return decode(Path(source).read_text(), source)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise OffsetsError(f"{source} cannot be read: {reason}; give a file, earliest or latest") from None


def changes_text(changes: Sequence[Change], *, dry_run: bool) -> Iterator[str]:
    """Yields a line for each change, and at last a summary."""
    again = skipped = 0
    for change in changes:
        moved = _moved(change)
        again, skipped = again + max(0, -moved), skipped + max(0, moved)
        effect = f"  ({_effect(moved)})" if moved else ""
        yield f"{_shown(change.partition)}: {_shown(change.before)} -> {_shown(change.after)}{effect}"
    if not changes:
        yield "nothing to change"
        return
    made = "would change" if dry_run else "changed"
    totals = [_effect(each) for each in (-again, skipped) if each]
    yield f"{counted(len(changes), 'position')} {made}{'; ' if totals else ''}{', '.join(totals)}"


def _moved(change: Change) -> int:
    """The records by which a position in a Kafka partition moves, negative for back. Markers of transactions
    and compacted records count, too, so that it is an upper limit."""
    before, after = (change.before or {}).get(_RECORDS), (change.after or {}).get(_RECORDS)
    return after - before if isinstance(before, int) and isinstance(after, int) else 0


def _effect(moved: int) -> str:
    return f"up to {counted(abs(moved), 'record')} {'skipped' if moved > 0 else 'read again'}"


def _shown(value: object) -> str:
    return "none" if value is None else to_visible_json(value)
