"""Decodes records that have types of their own (``json-schema``, ``avro``), and groups them by these types.

All rows of a batch with the same types form one table, wherever they are in the batch, so that a batch costs
one query for each of its types. A null has no type of its own: it takes the types of its neighbours, or those
that the unit remembers.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from cooperator.connectors.decoding import DecodingOptions, read_envelope
from cooperator.connectors.memory import UnitMemory
from cooperator.connectors.registry import AvroReader, Undecodable, reader_of

if TYPE_CHECKING:
    import pyarrow as pa

Decode = Callable[[bytes], "tuple[pa.DataType, Any]"]
Types = tuple["pa.DataType", ...]
"""The types of the decoded columns, in order; null where they are not known."""
Usable = Callable[[Sequence[Types]], Collection[Types]]
"""Returns those of the types whose records become rows."""


class Undecoded(NamedTuple):
    """A row (by its number) that could not be decoded, and the stage (one of Connect's) that failed."""

    row: int
    stage: str
    error: Undecodable


class SettledColumn(NamedTuple):
    """A column and its type (null: not known); with avro the schemas of values of this type, by id."""

    name: str
    converter: str
    kind: "pa.DataType"
    schemas: Mapping[int, tuple[str, ...]]


class Decoded(NamedTuple):
    """The decoded rows of one kind, in order, with their numbers in the batch."""

    types: Types
    numbers: list[int]
    rows: "pa.Table"


class Decoder:
    """Decodes the batches of one unit. ``memory`` keeps types for nulls (``remember``).

    Units of a task may share the reader of Avro.
    """

    def __init__(self, options: DecodingOptions, memory: UnitMemory, avro: AvroReader | None = None) -> None:
        import pyarrow as pa

        self._decode: dict[str, Decode] = {}
        self._avro = avro or reader_of(options)
        for name, converter in (("key", options.key_converter), ("value", options.value_converter)):
            if converter == "avro":
                assert self._avro is not None, "checked with the options"
                self._decode[name] = self._avro
            elif converter == "json-schema":
                self._decode[name] = read_envelope
        self._memory = memory
        found = memory.read()
        kept = pa.schema([]) if found is None else pa.ipc.read_schema(pa.BufferReader(found))
        self._known: Types = tuple(
            kept.field(name).type if name in kept.names else pa.null() for name in self._decode
        )

    @property
    def known(self) -> Types:
        """The types that ``remember`` has kept, in this incarnation of the unit or an earlier one."""
        return self._known

    def settled(self, types: Types) -> "list[SettledColumn]":
        """Returns the columns that are decoded, with these types.

        Schemas are those that were read by any unit that shares the reader.
        """
        found = []
        for (name, decode), kind in zip(self._decode.items(), types, strict=True):
            if isinstance(decode, AvroReader):
                found.append(SettledColumn(name, "avro", kind, decode.schemas(kind)))
            else:
                found.append(SettledColumn(name, "json-schema", kind, {}))
        return found

    def remember(self, types: Types) -> None:
        """Keeps types for batches of nulls."""
        import pyarrow as pa

        if types != self._known:
            self._known = types
            schema = pa.schema(list(zip(self._decode, types, strict=True)))
            self._memory.write(schema.serialize().to_pybytes())

    def tables(self, rows: "pa.Table", usable: Usable = frozenset) -> tuple[list[Decoded], list[Undecoded]]:
        """Returns the decoded rows, a table for each combination of types, and the undecodable rows.

        Nulls take types that are ``usable`` if the batch has some. It is asked for all of them, the most
        frequent first.
        """
        if self._avro is not None:
            self._avro.ask_again()
        read, bad = self._read(rows)
        found = []
        for types, group in _grouped(read, self._known, usable).items():
            try:
                columns = group.columns(types)
            except Exception:  # values do not fit their types: Arrow raises many kinds of errors
                bad += group.drop_misfits(types, list(self._decode))
                columns = group.columns(types)
            if group.numbers:
                found.append(Decoded(types, group.numbers, self._table(rows.take(group.numbers), columns)))
        return found, sorted(bad, key=lambda one: one.row)

    def no_rows(self, rows: "pa.Table", types: Types) -> "pa.Table":
        """Returns an empty table with the columns of ``rows``, decoded as these types."""
        import pyarrow as pa

        return self._table(rows.slice(0, 0), [pa.array([], one) for one in types])

    def _read(self, rows: "pa.Table") -> "tuple[list[_Row], list[Undecoded]]":
        import pyarrow as pa

        read: list[_Row] = []
        bad: list[Undecoded] = []
        columns = [rows.column(name).to_pylist() for name in self._decode]
        for number, row in enumerate(zip(*columns, strict=True)):
            decoded: list[tuple[pa.DataType, Any]] = []
            try:
                for (name, decode), data in zip(self._decode.items(), row, strict=True):
                    stage = _stage(name)
                    decoded.append((pa.null(), None) if data is None else decode(data))
            except Undecodable as error:
                bad.append(Undecoded(number, stage, error))
                continue
            kinds, values = zip(*decoded, strict=True)
            read.append(_Row(number, kinds, values))
        return read, bad

    def _table(self, table: "pa.Table", columns: "Sequence[pa.Array]") -> "pa.Table":
        import pyarrow as pa

        for name, column in zip(self._decode, columns, strict=True):
            place = table.schema.get_field_index(name)
            table = table.set_column(place, pa.field(name, column.type), column)
        return table


class _Row(NamedTuple):
    number: int
    types: Types
    values: tuple[Any, ...]


class _Group:
    """The rows with the same types."""

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self._values: list[tuple[Any, ...]] = []

    def add(self, row: _Row) -> None:
        self.numbers.append(row.number)
        self._values.append(row.values)

    def columns(self, types: Types) -> "list[pa.Array]":
        """Builds the columns; raises when a value does not fit its type."""
        import pyarrow as pa

        if not self._values:
            return [pa.array([], one) for one in types]
        columns = zip(*self._values, strict=True)
        return [pa.array(list(column), one) for column, one in zip(columns, types, strict=True)]

    def drop_misfits(self, types: Types, names: Sequence[str]) -> list[Undecoded]:
        """Removes the rows with a value that does not fit its type, such as 300 in an int8."""
        import pyarrow as pa

        misfits: dict[int, Undecoded] = {}
        for name, one, column in zip(names, types, zip(*self._values, strict=True), strict=True):
            for place, value in enumerate(column):
                try:
                    pa.array([value], one)
                except Exception as error:
                    problem = Undecodable(f"its value does not fit its schema: {error}")
                    misfits.setdefault(place, Undecoded(self.numbers[place], _stage(name), problem))
        kept = [place for place in range(len(self.numbers)) if place not in misfits]
        self.numbers = [self.numbers[place] for place in kept]
        self._values = [self._values[place] for place in kept]
        return list(misfits.values())


def _stage(name: str) -> str:
    return f"{name.upper()}_CONVERTER"


def _grouped(read: Sequence[_Row], known: Types, usable: Usable) -> Mapping[Types, _Group]:
    """Returns the rows by their types, where nulls have taken types.

    A null takes the type of the row before it, else of the next one, among rows whose types are usable; if
    there are none, the known type; else any type of its column.
    """
    import pyarrow as pa

    groups: dict[Types, _Group] = {}
    if any(pa.types.is_null(one) for row in read for one in row.types):
        anything = _first(row.types for row in read)
        counts = Counter(row.types for row in read).most_common()
        # Types with nulls are a guess here, which must not decide about the others.
        counts.sort(key=lambda one: any(pa.types.is_null(each) for each in one[0]))
        guessed = {types: filled(types, filled(anything, known)) for types, _ in counts}
        found = usable(list(dict.fromkeys(guessed.values())))
        checked = {types for types, guess in guessed.items() if guess in found}
        neighbours = filled(
            filled(_first(row.types for row in read if row.types in checked), known), anything
        )
        for row in read:
            types = filled(row.types, neighbours)
            if row.types in checked:
                neighbours = types
            groups.setdefault(types, _Group()).add(row)
    else:
        for row in read:
            groups.setdefault(row.types, _Group()).add(row)
    return groups


def _first(found: Iterable[Types]) -> Types:
    """Returns for each column the first type that is not null."""
    result: Types = ()
    for types in found:
        result = filled(result, types) if result else types
    return result


def filled(types: Types, others: Types) -> Types:
    """Returns the types, and those of ``others`` in place of nulls."""
    import pyarrow as pa

    if not types or not others:
        return types or others
    return tuple(other if pa.types.is_null(one) else one for one, other in zip(types, others, strict=True))
