"""The forms of records, which Spark's tasks make of rows (``RowEncoder.java``) as Connect's converters do."""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from cooperator.connectors.encoding import Converter, EncodingOptions, connect_schema
from cooperator.connectors.options import OptionError, Problem
from cooperator.connectors.postgres_source import SourceTable
from cooperator.connectors.registry import (
    avro_schema,
    registered,
    registry_client,
    schema_name,
    waiting_for,
)

if TYPE_CHECKING:
    import pyarrow as pa

_INCOMPATIBLE = 409
"""The registry's answer to a schema that its subject's compatibility forbids."""


class RecordForms:
    """The forms of keys and values of one table's records.

    Raises ``OptionError`` when Avro cannot name a column.
    """

    def __init__(self, options: EncodingOptions, table: SourceTable, topic: str) -> None:
        self._options = options
        self._table = table.name
        self._topic = topic
        names = [column.name for column in table.columns]
        key = [names.index(name) for name in table.key]
        self._key = self._form(table, key, options.key_converter, is_key=True) if key else None
        self._value = self._form(table, range(len(names)), options.value_converter, is_key=False)
        self._is_registered = False

    def specs(self) -> dict[str, Any]:
        """Returns the forms as ``RowEncoder.java`` reads them.

        The first call registers schemas of Avro. Raises ``ServiceAway``, errors of the registry, and
        ``OptionError`` for a schema that does not go with those of earlier records.
        """
        if not self._is_registered:
            for part, form in (("key", self._key), ("value", self._value)):
                if form is not None and form["converter"] == "avro":
                    form["id"] = self._registered(part, form["schema"])
            self._is_registered = True
        return {"key": self._key, "value": self._value}

    def _registered(self, part: str, schema: Any) -> int:
        from confluent_kafka.schema_registry.error import SchemaRegistryError

        subject = f"{self._topic}-{part}"
        try:
            with waiting_for(self._options.registry_url):
                return registered(registry_client(self._options), subject, schema)
        except SchemaRegistryError as error:
            if error.http_status_code != _INCOMPATIBLE:
                raise
            problem = f"has columns of table {self._table} that the registry refuses for {subject}: {error}"
            remedy = "change the table back, or the subject's compatibility"
            raise OptionError([Problem(f"{part}.converter", "avro", problem, remedy)], passing=True) from None

    def _form(
        self, table: SourceTable, fields: Sequence[int], converter: Converter, *, is_key: bool
    ) -> dict[str, Any]:
        is_alone = is_key and len(fields) == 1
        form: dict[str, Any] = {"converter": converter, "fields": list(fields), "is_alone": is_alone}
        kind = table.columns[fields[0]].arrow if is_alone else _struct(table, fields)
        if converter == "json-schema":
            form["schema"] = json.dumps(connect_schema(kind), ensure_ascii=False, separators=(",", ":"))
        if converter == "avro":
            form["schema"] = avro_schema(kind, schema_name(f"{table.name}_key" if is_key else table.name))
        return form


def _struct(table: SourceTable, fields: Sequence[int]) -> "pa.DataType":
    import pyarrow as pa

    return pa.struct([(table.columns[field].name, table.columns[field].arrow) for field in fields])
