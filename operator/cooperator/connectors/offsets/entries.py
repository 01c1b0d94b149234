"""Offsets in the form of Kafka Connect's REST API, and the changes that an operation makes; pure.

The document is ``{"offsets": [{"partition": {…}, "offset": {…}}, …]}``; the source defines the contents of
partitions and offsets. An offset of null forgets the partition's position.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Json = Mapping[str, Any]


class OffsetsError(ValueError):
    """Offsets cannot be listed or changed; the message names the reason and the remedy."""


@dataclass(frozen=True, slots=True)
class Entry:
    """The position in one partition of a source; ``offset`` None: it has none."""

    partition: Json
    offset: Json | None

    @property
    def key(self) -> str:
        """A key that is equal for equal partitions."""
        return json.dumps(self.partition, sort_keys=True)


@dataclass(frozen=True, slots=True)
class Change:
    """One position that an operation would change; None where there is no position."""

    partition: Json
    before: Json | None
    after: Json | None


def decode(text: str, source: str) -> list[Entry]:
    """Returns the entries of a document.

    Raises ``OffsetsError``, which names ``source`` (a file), the field and the expected form.
    """

    def refuse(where: str, what: str) -> OffsetsError:
        form = '{"offsets": [{"partition": {…}, "offset": {…}}, …]}'
        return OffsetsError(f"{source}: {where} {what}; write {form}, as `offsets list` prints it")

    try:
        document = json.loads(text)
    except ValueError as error:
        raise refuse("the document", f"is not valid JSON ({error})") from None
    except RecursionError:
        raise refuse("the document", "is nested too deep") from None
    if not isinstance(document, dict) or not isinstance(document.get("offsets"), list):
        raise refuse("offsets", "is not a list")
    if unknown := sorted(document.keys() - {"offsets"}):
        raise refuse(unknown[0], "is unknown")
    found: dict[str, Entry] = {}
    for number, item in enumerate(document["offsets"]):
        where = f"offsets[{number}]"
        if not isinstance(item, dict) or not isinstance(item.get("partition"), dict):
            raise refuse(f"{where}.partition", "is not an object")
        if not isinstance(item.get("offset"), dict | None) or "offset" not in item:
            raise refuse(f"{where}.offset", "is neither an object nor null")
        entry = Entry(item["partition"], item["offset"])
        if entry.key in found:
            raise refuse(where, f"names the partition {entry.key} twice")
        found[entry.key] = entry
    return list(found.values())


def encode(entries: Iterable[Entry]) -> dict[str, Any]:
    return {"offsets": [{"partition": dict(e.partition), "offset": e.offset} for e in entries]}


def altered(current: Sequence[Entry], wanted: Iterable[Entry]) -> list[Entry]:
    """Returns ``current`` with the positions of ``wanted``: replaced, added, or (null) removed."""
    merged = {entry.key: entry for entry in (*current, *wanted)}
    return [entry for entry in merged.values() if entry.offset is not None]


def changes(current: Iterable[Entry], after: Iterable[Entry]) -> list[Change]:
    """Returns the differences, in the order of ``current``, followed by new positions."""
    old = {entry.key: entry for entry in current}
    new = {entry.key: entry for entry in after}
    found: list[Change] = []
    for key, entry in {**old, **new}.items():
        before = old[key].offset if key in old else None
        later = new[key].offset if key in new else None
        if before != later:
            found.append(Change(entry.partition, before, later))
    return found
