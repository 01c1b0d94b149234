"""The formats of Spark's streams that the class ``spark`` may use, and the options of each. Pure.

Java's rules for ignoring case, by which Spark finds formats and options, take ``ſ`` for ``s`` and ``ı`` for
``i``. So names are ASCII, and Spark is given the spelling of these tables and never the user's, so that
no other word is used than was checked. Options of Spark's file formats become settings of Hadoop's
clients, some of which load classes; so they are allow-lists.
"""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Final, Literal

from cooperator.connectors.options import RELATIVE, is_full_path, refuse
from cooperator.connectors.references import contains_reference
from cooperator.connectors.sql_bounds import bounded_pattern

Side = Literal["source", "sink"]


class Value(Enum):
    PLAIN = "opens nothing"
    PATH = "a path"
    CODEC = "a codec; Spark takes other words for names of classes"
    COUNT = "allocates as much"
    TASKS = "makes as many tasks of Spark"
    PATTERN = "a pattern of Java's, which can backtrack without end in a thread that nothing interrupts"


@dataclass(frozen=True, slots=True)
class Format:
    """``name`` is Spark's. A side without options (None) does not exist."""

    name: str
    source: Mapping[str, Value] | None = None
    sink: Mapping[str, Value] | None = None
    refused: str = ""
    """The reason why no Connector may use it; empty if one may."""

    def options(self, side: Side) -> Mapping[str, Value] | None:
        return self.source if side == "source" else self.sink


def _plain(names: str) -> dict[str, Value]:
    return dict.fromkeys(names.split(), Value.PLAIN)


_CODEC: Final = {"compression": Value.CODEC, "codec": Value.CODEC}
_SOURCE: Final = {
    "path": Value.PATH,
    "basePath": Value.PATH,
    "sourceArchiveDir": Value.PATH,
    **_plain(
        "cleanSource discardCachedInputRatio fileNameOnly ignoreCorruptFiles ignoreMissingFiles "
        "latestFirst maxBytesPerTrigger maxCachedFiles maxFileAge maxFilesPerTrigger modifiedAfter "
        "modifiedBefore pathGlobFilter recursiveFileLookup"
    ),
}
_SINK: Final = {"path": Value.PATH, "retention": Value.PLAIN}
_TIMES: Final = _plain(
    "dateFormat enableDateTimeParsingFallback locale timeFormat timeZone timestampFormat timestampNTZFormat"
)
_TEXTS: Final = {
    **_TIMES,
    **_plain(
        "charset columnNameOfCorruptRecord encoding lineSep mode multiLine samplingRatio singleVariantColumn"
    ),
}
_JSON: Final = {
    **_TEXTS,
    **_plain(
        "allowBackslashEscapingAnyCharacter allowComments allowNonNumericNumbers allowNumericLeadingZeros "
        "allowSingleQuotes allowUnquotedControlChars allowUnquotedFieldNames dropFieldIfAllNull "
        "ignoreNullFields inferTimestamp preferDate prefersDecimal pretty primitivesAsString "
        "writeNonAsciiCharacterAsCodePoint"
    ),
}
_CSV: Final = {
    **_TEXTS,
    **_plain(
        "charToEscapeQuoteEscaping columnPruning comment delimiter emptyValue enforceSchema escape "
        "escapeQuotes header ignoreLeadingWhiteSpace ignoreTrailingWhiteSpace inferSchema nanValue "
        "negativeInf nullValue positiveInf preferDate quote quoteAll sep unescapedQuoteHandling"
    ),
    **dict.fromkeys(("inputBufferSize", "maxCharsPerColumn", "maxColumns"), Value.COUNT),
}
_XML: Final = {
    **_TEXTS,
    **_plain(
        "arrayElementName attributePrefix declaration excludeAttribute ignoreNamespace "
        "ignoreSurroundingSpaces inferSchema nullValue preferDate prefersDecimal rootTag rowTag "
        "treatEmptyValuesAsNulls validateName valueTag wildcardColName"
    ),
    "rowValidationXSDPath": Value.PATH,
}
_AVRO: Final = {
    "avroSchemaUrl": Value.PATH,
    **_plain(
        "avroSchema datetimeRebaseMode enableStableIdentifiersForUnionType ignoreExtension mode "
        "positionalFieldMatching recordName recordNamespace recursiveFieldMaxDepth "
        "stableIdentifierPrefixForUnionType"
    ),
}
_PARQUET: Final = _plain("datetimeRebaseMode int96RebaseMode mergeSchema")
_KAFKA_SOURCE: Final = {"minPartitions": Value.TASKS, "subscribePattern": Value.PATTERN} | _plain(
    "assign endingOffsets endingTimestamp failOnDataLoss fetchOffset.numRetries "
    "fetchOffset.retryIntervalMs groupIdPrefix includeHeaders kafkaConsumer.pollTimeoutMs "
    "maxOffsetsPerTrigger maxTriggerDelay minOffsetsPerTrigger "
    "startingOffsets startingOffsetsByTimestamp startingOffsetsByTimestampStrategy startingTimestamp "
    "subscribe"
)


def _file(name: str, options: Mapping[str, Value]) -> Format:
    return Format(name, {**_SOURCE, **_CODEC, **options}, {**_SINK, **_CODEC, **options})


_NO_STREAM: Final = "is no stream"
_ALL: Final = (
    _file("csv", _CSV),
    _file("json", _JSON),
    _file("orc", _plain("mergeSchema")),
    _file("parquet", _PARQUET),
    _file("text", _plain("encoding lineSep wholetext")),
    _file("xml", _XML),
    _file("avro", _AVRO),
    Format("binaryFile", _SOURCE),
    Format("image", {**_SOURCE, **_plain("dropInvalid")}),
    Format("libsvm", {**_SOURCE, **_plain("vectorType"), "numFeatures": Value.COUNT}),
    Format("kafka", _KAFKA_SOURCE, _plain("includeHeaders topic")),
    Format("rate", {**_plain("rampUpTime"), "rowsPerSecond": Value.COUNT, "numPartitions": Value.TASKS}),
    Format(
        "rate-micro-batch",
        {
            **_plain("advanceMillisPerBatch startTimestamp"),
            "rowsPerBatch": Value.COUNT,
            "numPartitions": Value.TASKS,
        },
    ),
    Format("socket", _plain("host includeTimestamp port")),
    Format("console", None, _plain("numRows truncate")),
    Format("noop", None, {}),
    Format("memory", None, {}),
    *(
        Format(name, refused=_NO_STREAM)
        for name in ("jdbc", "hive", "statestore", "state-metadata", "foreach", "foreachBatch", "table")
    ),
)
TIMES_WRITTEN: Final = {
    "timeZone": "UTC",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
    "timeFormat": "HH:mm:ss.SSSSSS",
}
"""Spark cuts timestamps to milliseconds, and shows instants in the zone of the session."""
JSON_WRITTEN: Final = {**TIMES_WRITTEN, "ignoreNullFields": "false"}
_RFC_4180: Final = {"escape": '"'}
"""Spark escapes quotes by backslashes, which no other reader takes for that."""
_DEFAULTS: Final[Mapping[tuple[str, Side], Mapping[str, str]]] = {
    # Spark reads an empty text as null where nullValue is empty; so it is what no field is.
    ("csv", "source"): {**_RFC_4180, "multiLine": "true", "nullValue": "\0null\0"},
    ("csv", "sink"): {
        **_RFC_4180,
        **TIMES_WRITTEN,
        "ignoreLeadingWhiteSpace": "false",
        "ignoreTrailingWhiteSpace": "false",
    },
    ("json", "sink"): JSON_WRITTEN,
    ("xml", "sink"): TIMES_WRITTEN,
    # An instant in the name of a directory (partition.by) is one in this zone.
    **{(name, "sink"): {"timeZone": "UTC"} for name in ("parquet", "orc", "avro", "text")},
}
"""Options with which any reader finds the values that were written, where Spark's own defaults differ."""
FORMATS: Final[Mapping[str, Format]] = {each.name.lower(): each for each in _ALL}
"""Spark's own formats, by their names in lower case."""
FILE_SINKS: Final = ("parquet", "orc", "json", "csv", "text", "avro", "xml")
"""Formats whose sink commits a batch by ``_spark_metadata`` in its directory."""
KAFKA: Final = "kafka."
CHECKPOINT: Final = "checkpointlocation"
_SPARKS_OWN: Final = (CHECKPOINT, "paths", "queryname", "asyncprogresstracking")
"""Beginnings of options that Spark reads for every format, in lower case; none is for a Connector."""
_HADOOP: Final = (
    "fs.",
    "dfs.",
    "hadoop.",
    "io.",
    "ipc.",
    "mapred.",
    "mapreduce.",
    "net.",
    "parquet.",
    "orc.",
)
"""Beginnings of settings of Hadoop's clients and file formats, in lower case."""
_PATHS: Final = (
    *("path", "basepath", "sourcearchivedir", "badrecordspath", "avroschemaurl", "rowvalidationxsdpath"),
    *("schemalocation", "schematrackinglocation"),
    *("kafka.ssl.truststore.location", "kafka.ssl.keystore.location"),
)
"""Options that are paths in every format, in lower case."""
_CODECS: Final = frozenset(
    "none uncompressed snappy gzip lzo brotli lz4 lz4_raw zstd zstandard zlib deflate bzip2 xz".split()  # noqa: SIM905
)
_LARGEST: Final = {Value.COUNT: 1_000_000, Value.TASKS: 1_000}
_MOST_PATHS: Final = 1_000
_BRACES: Final = re.compile(r"\{[^{}]*\}")
_COUNT: Final = re.compile(r"-1|[0-9]{1,9}")
_FORMAT_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}\Z")
_OPTION_NAME: Final = re.compile(r"[!-~]{1,200}\Z")
_NAMES: Final = "write a format's short name, or register a Python Data Source by data.sources"


def checked_format(value: str) -> str:
    """Returns the name by which Spark finds the format. Raises ``refuse(…)``; a reference is not checked."""
    if contains_reference(value):
        return value
    if "." in value:
        # A class has names that no check of paths and topics knows.
        raise refuse("is the name of a class", _NAMES)
    if not _FORMAT_NAME.match(value):
        raise refuse("is not the name of a format in ASCII", _NAMES)
    known = FORMATS.get(value.lower())
    if known is not None and known.refused:
        raise refuse(f"{known.refused} for a Connector", "use a format of streams, such as json or kafka")
    return known.name if known is not None else value


def kind_of(format_name: str, side: Side, name: str) -> Value:
    """Returns what the option of a format is, however its name is spelled; it need not be a known one."""
    lower = name.lower()
    known = _by_lower(format_name.lower(), side).get(lower)
    return known[1] if known is not None else Value.PATH if lower in _PATHS else Value.PLAIN


def is_path(name: str, config: Mapping[str, str]) -> bool:
    """Whether ``SIDE.options.NAME`` is a path, by the format that ``config`` has for the side."""
    return kind_in(name, config) is Value.PATH


def kind_in(name: str, config: Mapping[str, str]) -> Value:
    """Returns what ``SIDE.options.NAME`` is, by the format that ``config`` has for the side."""
    side: Side = "source" if name.startswith("source.") else "sink"
    return kind_of(config.get(f"{side}.format", ""), side, name.split(".options.", 1)[1])


@lru_cache(100)
def _by_lower(format_name: str, side: Side) -> Mapping[str, tuple[str, Value]]:
    """Returns the spelling and kind of each listed option, by its name in lower case."""
    known = FORMATS.get(format_name)
    options = (known.options(side) if known is not None else None) or {}
    return {name.lower(): (name, value) for name, value in options.items()}


def checked_options(format_name: str, side: Side, given: Iterable[tuple[str, str, str]]) -> dict[str, str]:
    """Returns the options of a format under the names that Spark has for them.

    ``given`` has (name, value, option that errors name). Raises ``refuse(…)``.
    """
    known = FORMATS.get(format_name.lower())
    options = None if known is None else known.options(side)
    if known is not None and options is None:
        remedy = "use another format: see docs/connectors.md"
        raise refuse(f"cannot be a {side}", remedy, f"{side}.format")
    found: dict[str, str] = {}
    seen: set[str] = set()
    for name, value, blamed in given:
        spelled = _spelled(name, known, options, side, blamed)
        if spelled.lower() in seen:
            raise refuse(f"sets {spelled} twice", "remove one of both: Spark ignores case", blamed)
        seen.add(spelled.lower())
        if not contains_reference(value):
            check_value(kind_of(format_name, side, spelled), value, blamed)
        found[spelled] = value
    return found


def _spelled(
    name: str, known: Format | None, options: Mapping[str, Value] | None, side: Side, blamed: str
) -> str:
    lower = name.lower()
    if not _OPTION_NAME.match(name):
        raise refuse("has a name that is not ASCII", "write the option's own name", blamed)
    if lower.rpartition(".")[2] == CHECKPOINT:
        problem = f"has {CHECKPOINT}, which the Worker sets"
        raise refuse(problem, "remove it, and set spec.checkpointLocation of the Worker", blamed)
    if lower.startswith(_HADOOP):
        problem = "would reconfigure the Worker's file systems, and could send their keys to another server"
        raise refuse(problem, "set it in spec.spark.conf of the Worker", blamed)
    if lower.startswith(_SPARKS_OWN):
        raise refuse("is an option that no Connector may set", "remove it; use path, or units", blamed)
    if known is None or options is None:
        return name
    if known.name == "kafka" and lower.startswith(KAFKA):
        return lower
    listed = _by_lower(known.name.lower(), side).get(lower)
    if listed is not None:
        return listed[0]
    there = ", ".join(sorted(options)) or "none"
    raise refuse(f"is not an option of the {side} {known.name}", f"remove it, or use one of: {there}", blamed)


def defaults(format_name: str, side: Side) -> Mapping[str, str]:
    """Returns the options that a format has here unless a Connector sets them."""
    return _DEFAULTS.get((format_name.lower(), side), {})


def is_up_to(value: str, largest: int) -> bool:
    """Whether the text is a number that allocates no more than ``largest``; -1 means a client's default."""
    return bool(_COUNT.fullmatch(value)) and int(value) <= largest


def check_value(kind: Value, value: str, blamed: str) -> None:
    """Raises ``refuse(…)`` for a value that loads a class, allocates much, backtracks, or is no full path."""
    if kind is Value.CODEC and value.lower() not in _CODECS:
        raise refuse("is not a codec", f"use one of {', '.join(sorted(_CODECS))}", blamed)
    largest = _LARGEST.get(kind)
    if largest is not None and not is_up_to(value, largest):
        raise refuse("is not a small number", f"use a number up to {largest}", blamed)
    if kind is Value.PATTERN and (problem := bounded_pattern([value], [0])):
        raise refuse(problem, "write a simpler pattern, or list the topics by subscribe", blamed)
    if kind is Value.PATH and value:
        check_path(value, blamed)


def check_path(value: str, blamed: str) -> None:
    """Raises ``refuse(…)`` for a path that readers take for another one, or for several."""
    if not is_full_path(value):
        problem, remedy = RELATIVE
        raise refuse(problem, f"{remedy}: members run in different directories", blamed)
    # Hadoop writes all of them out before it looks for one.
    if math.prod(found.count(",") + 1 for found in value.split("{")[1:]) > _MOST_PATHS:
        raise refuse(f"stands for more than {_MOST_PATHS} paths", "use fewer braces, or units", blamed)
    if "," in _BRACES.sub("", value):
        raise refuse("has a comma, which some readers split paths at", "rename it, or use units", blamed)
