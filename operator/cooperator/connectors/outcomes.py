"""Decides which types of records become rows, and whether a refused type is a fault of the configuration.

Records bring their types (``json-schema``, ``avro``). A type that is refused while others are accepted is a
defect of its records; if no type has ever been accepted, the configuration is wrong. Decisions depend on the
batch and on types that an earlier batch has settled, so that a repeated batch is decided in the same way.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from cooperator.connectors.decoder import Types, filled
from cooperator.connectors.options import OptionError
from cooperator.connectors.transform import first_line

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

_KEPT = 1_000


class Refused(ValueError):
    """The SELECT or the sink cannot take records of this type; the message says why."""


class TypeOutcome(NamedTuple):
    """The columns of the rows that records of one type become, or the error that refuses the type."""

    columns: "pa.Schema | None"
    refusal: Exception | None = None


class Outcomes:
    """The outcomes of the types that a unit has seen.

    ``convert`` analyses the conversion of a table without rows; it raises ``OptionError`` or an error of the
    analysis. With ``one_table`` all rows go into one table.
    """

    def __init__(self, convert: "Callable[[pa.Table, SparkSession], DataFrame]", one_table: bool) -> None:
        self._convert = convert
        self._one_table = one_table
        self._found: dict[Types, TypeOutcome] = {}

    def ask_again(self) -> None:
        """Forgets refusals, since the sink may accept these columns now. Call it before each batch."""
        self._found = {types: one for types, one in self._found.items() if one.refusal is None}

    def of(self, types: Types, no_rows: "pa.Table", session: "SparkSession") -> TypeOutcome:
        """Returns the outcome for records of these types; ``no_rows`` is an empty table of them.

        Raises errors that may pass, such as a missing table.
        """
        if types not in self._found:
            if len(self._found) >= _KEPT:
                self._found.clear()
            self._found[types] = self._analysed(no_rows, session)
        return self._found[types]

    def accepts(self, types: Types) -> bool:
        """Whether records of these types were accepted before, as far as that is remembered."""
        return types in self._found and self._found[types].refusal is None

    def usable(
        self, kinds: Sequence[Types], known: Types, outcome: Callable[[Types], TypeOutcome]
    ) -> set[Types]:
        """Returns those ``kinds`` of a batch that ``settle`` does not refuse."""
        _, refusals = self._decided(kinds, known, outcome)
        return set(kinds) - refusals.keys()

    def settle(
        self, kinds: Sequence[Types], known: Types, outcome: Callable[[Types], TypeOutcome]
    ) -> tuple[Types, Mapping[Types, Exception]]:
        """Returns the types to remember, and the refusals of a batch with records of these ``kinds``.

        The first of them determine the columns of a table, unless those are known already.
        ``known`` are the types remembered so far. Raises a refusal if nothing was ever accepted.
        """
        accepted, refusals = self._decided(kinds, known, outcome)
        if not accepted:
            for types, refusal in refusals.items():
                if is_known(types):
                    raise refusal
            return known, refusals
        remembered = accepted[0]
        for types in accepted[1:]:
            wider = filled(remembered, types)
            if wider != remembered and outcome(wider).refusal is None:
                remembered = wider
        return remembered, refusals

    def _decided(
        self, kinds: Sequence[Types], known: Types, outcome: Callable[[Types], TypeOutcome]
    ) -> tuple[list[Types], dict[Types, Exception]]:
        """Returns the types whose columns count, the first of them first, and the refusals."""
        refusals = {types: error for types in kinds if (error := outcome(types).refusal) is not None}
        accepted = [types for types in kinds if types not in refusals and is_known(types)]
        if is_known(known) and outcome(known).refusal is None:
            accepted.insert(0, known)
        if self._one_table and accepted:
            refusals |= _misfits(accepted, kinds, outcome)
        return accepted, refusals

    def _analysed(self, no_rows: "pa.Table", session: "SparkSession") -> TypeOutcome:
        import pyarrow as pa
        from pyspark import errors
        from pyspark.sql.pandas.types import to_arrow_schema

        try:
            return TypeOutcome(to_arrow_schema(self._convert(no_rows, session).schema))
        except OptionError as error:
            if error.passing:
                raise
            return TypeOutcome(None, error)
        except (
            *(errors.AnalysisException, errors.ArithmeticException, errors.IllegalArgumentException),
            *(errors.UnsupportedOperationException, errors.PySparkTypeError, errors.PySparkValueError),
            pa.ArrowException,
        ) as error:
            refused = Refused(f"its type is refused by Spark: {first_line(error)}")
            refused.__cause__ = error
            return TypeOutcome(None, refused)


def is_known(types: Types) -> bool:
    """Whether records of these types say anything about the SELECT: nulls alone do not."""
    import pyarrow as pa

    return not all(pa.types.is_null(one) for one in types)


def _misfits(
    accepted: Sequence[Types], kinds: Sequence[Types], outcome: Callable[[Types], TypeOutcome]
) -> dict[Types, Exception]:
    """Returns the types whose rows have columns that do not fit those of the types before them."""
    found: dict[Types, Exception] = {}
    table: Any = outcome(accepted[0]).columns
    for types in dict.fromkeys((*accepted[1:], *kinds)):
        columns = outcome(types).columns
        if columns is None:
            continue
        wider = _wider(table, columns)
        if wider is None:
            found[types] = Refused(_misfit(table, columns))
        else:
            table = wider
    return found


def _wider(table: "pa.Schema", columns: "pa.Schema") -> "pa.Schema | None":
    """Returns the columns of a table that takes rows of both; None if a column has two types."""
    import pyarrow as pa

    try:
        wider = pa.unify_schemas([table, columns], promote_options="permissive")
    except pa.ArrowException:
        return None
    for schema in (table, columns):
        if not all(_is_lossless(field.type, wider.field(field.name).type) for field in schema):
            return None
    return wider


def _is_lossless(one: "pa.DataType", wider: "pa.DataType") -> bool:
    """Whether each value of a type has an equal one in the type to which Arrow has promoted it."""
    import pyarrow as pa

    if pa.types.is_integer(one) and pa.types.is_floating(wider):
        return bool(one.bit_width <= 32 and wider.bit_width == 64)
    if pa.types.is_decimal(one) and pa.types.is_floating(wider):
        return False
    if pa.types.is_struct(one):
        return all(_is_lossless(field.type, wider.field(field.name).type) for field in one)
    if pa.types.is_list(one):
        return _is_lossless(one.value_type, wider.value_type)
    return True


def _misfit(table: "pa.Schema", columns: "pa.Schema") -> str:
    import pyarrow as pa

    for field in columns:
        place = table.get_field_index(field.name)
        if place >= 0 and _wider(pa.schema([table.field(place)]), pa.schema([field])) is None:
            return (
                f"its column {field.name} is of type {field.type}, in earlier rows of type "
                f"{table.field(place).type}: cast it to one type in the SELECT"
            )
    return "its columns do not fit those of earlier rows: name each column once in the SELECT"
