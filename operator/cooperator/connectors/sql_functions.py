"""The functions that Spark 4.1 knows, and the cost of each for a transform. Pure.

A function of Spark that is not in ``FUNCTIONS`` is refused until somebody has looked at what it opens,
allocates and waits for; a test compares the table with Spark's own registry.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from cooperator.connectors.sql_bounds import (
    DIGITS,
    LARGEST,
    Argument,
    bounded_digits,
    bounded_format,
    bounded_like,
    bounded_number,
    bounded_options,
    bounded_pattern,
    bounded_sequence,
    bounded_window,
    bounded_xpath,
)


class FunctionKind(Enum):
    """The cost of a function for its member, beside the time and memory of its own arguments."""

    PLAIN = "opens nothing, waits for nothing, and its result grows with its arguments only"
    GATHERS = "opens nothing; its memory or time grows with the rows or elements that it combines"
    ALLOCATES = "a small argument can ask for a large result, so that argument is a literal within a bound"
    MATCHES = "Java's patterns can backtrack without end, so the pattern is a literal that cannot"
    XML = (
        "a document can name files and URLs, of which members' JVMs open none (NO_EXTERNAL_XML); a path can "
        "visit nodes without end, so that it is a literal that cannot"
    )
    FORBIDDEN = "refused"


Check = Callable[[tuple[Argument, ...]], str]
"""Returns why a call is refused by its arguments; empty if it is not."""


@dataclass(frozen=True, slots=True)
class Function:
    kind: FunctionKind
    reason: str = ""
    """The reason why it is forbidden, or the argument that is bounded."""
    check: Check | None = None


NO_EXTERNAL_XML: Final = tuple(
    f"-Djavax.xml.accessExternal{what}=" for what in ("DTD", "Schema", "Stylesheet")
)
"""Options of every JVM that evaluates a transform: its parsers of XML open nothing that a document names."""
MOST_OF_ENTITIES: Final = 1_000
XML_OPTIONS: Final = (*NO_EXTERNAL_XML, f"-Djdk.xml.totalEntitySizeLimit={MOST_OF_ENTITIES}")
"""Those, and a limit of what a document's own entities stand for; the default is 50 million characters."""


def _forbidden(reason: str, names: str) -> dict[str, Function]:
    return {name: Function(FunctionKind.FORBIDDEN, reason) for name in names.split()}


def _number(at: int, most: float, reason: str, least: float | None = None) -> Function:
    return Function(FunctionKind.ALLOCATES, reason, lambda given: bounded_number(given, at, most, least))


def _pattern(*at: int) -> Function:
    return Function(FunctionKind.MATCHES, "the pattern", lambda given: bounded_pattern(given, at))


def _options(at: int) -> Function:
    return Function(FunctionKind.ALLOCATES, "the options", lambda given: bounded_options(given, at))


_ALLOCATING: Final = {
    **dict.fromkeys(("repeat", "array_repeat"), _number(1, LARGEST, "the number of copies")),
    **dict.fromkeys(("lpad", "rpad"), _number(1, LARGEST, "the length")),
    **dict.fromkeys(("space", "randstr"), _number(0, LARGEST, "the length")),
    "array_insert": _number(1, LARGEST, "the position, up to which an array is filled"),
    "stack": _number(0, LARGEST, "the number of rows"),
    "sequence": Function(FunctionKind.ALLOCATES, "the number of elements", bounded_sequence),
    "range": Function(FunctionKind.ALLOCATES, "the number of rows", bounded_sequence),
    **dict.fromkeys(
        ("round", "bround", "ceil", "ceiling", "floor"), _number(1, DIGITS, "the number of digits")
    ),
    "format_number": Function(FunctionKind.ALLOCATES, "the number of digits", bounded_digits),
    **dict.fromkeys(
        ("format_string", "printf"), Function(FunctionKind.ALLOCATES, "widths and precisions", bounded_format)
    ),
    "window": Function(FunctionKind.ALLOCATES, "the number of windows of a row", bounded_window),
    "count_min_sketch": _number(1, 1, "the relative error", 0.000_1),
    "approx_count_distinct": _number(1, 1, "the relative error", 0.005),
    **dict.fromkeys(("approx_percentile", "percentile_approx"), _number(2, 1_000_000, "the accuracy")),
    "histogram_numeric": _number(1, LARGEST, "the number of bins"),
    "from_csv": _options(2),
    **dict.fromkeys(("to_csv", "schema_of_csv", "to_json"), _options(1)),
}
_PATTERN: Final = {
    **dict.fromkeys(
        (
            *(
                "regexp",
                "regexp_count",
                "regexp_extract",
                "regexp_extract_all",
                "regexp_instr",
                "regexp_like",
            ),
            *("regexp_replace", "regexp_substr", "rlike", "split"),
        ),
        _pattern(1),
    ),
    "str_to_map": _pattern(1, 2),
    # Its key becomes a part of a pattern as it is.
    **dict.fromkeys(("parse_url", "try_parse_url"), _pattern(2)),
    **dict.fromkeys(("like", "ilike"), Function(FunctionKind.MATCHES, "the pattern", bounded_like)),
}
_XML: Final = (
    "xpath xpath_boolean xpath_double xpath_float xpath_int xpath_long xpath_number xpath_short xpath_string"
)
_FORBIDDEN: Final = {
    **_forbidden("calls any method of Java", "java_method reflect try_reflect"),
    **_forbidden("puts a key into plans, logs and configurations", "aes_decrypt aes_encrypt try_aes_decrypt"),
    **_forbidden(
        "reads files that its options name, or needs a jar",
        "from_avro from_protobuf schema_of_avro to_avro to_protobuf",
    ),
    **_forbidden("reads files that its options name (rowValidationXSDPath)", "from_xml schema_of_xml to_xml"),
    **_forbidden("reads what other queries have logged", "python_worker_logs"),
    # Its counters, or levels, are what some byte says; theta's are as many as there are bytes.
    **_forbidden(
        "allocates or recurs as much as a sketch in the data says",
        """
        approx_top_k_combine approx_top_k_estimate hll_sketch_estimate hll_union hll_union_agg
        kll_sketch_get_n_bigint kll_sketch_get_n_double kll_sketch_get_n_float
        kll_sketch_get_quantile_bigint kll_sketch_get_quantile_double kll_sketch_get_quantile_float
        kll_sketch_get_rank_bigint kll_sketch_get_rank_double kll_sketch_get_rank_float
        kll_sketch_merge_bigint kll_sketch_merge_double kll_sketch_merge_float
        kll_sketch_to_string_bigint kll_sketch_to_string_double kll_sketch_to_string_float
        """,
    ),
    **_forbidden("lists what the server knows, and reads no rows", "collations sql_keywords"),
}
_GATHERING: Final = """
    aggregate approx_top_k approx_top_k_accumulate array_agg bitmap_and_agg
    bitmap_construct_agg bitmap_or_agg collect_list collect_set hll_sketch_agg
    kll_sketch_agg_bigint kll_sketch_agg_double kll_sketch_agg_float levenshtein listagg median mode
    percentile percentile_cont percentile_disc reduce schema_of_variant_agg string_agg
    theta_intersection_agg theta_sketch_agg theta_union_agg
    """
_PLAIN: Final = """
    ! != % & * + - / < << <= <=> <> = == > >= >> >>> ^ | || ~ abs acos acosh add_months and any
    any_value array array_append array_compact array_contains array_distinct
    array_except array_intersect array_join array_max array_min array_position array_prepend
    array_remove array_size array_sort array_union arrays_overlap arrays_zip ascii asin asinh
    assert_true atan atan2 atanh avg base64 between bigint bin binary bit_and bit_count bit_get
    bit_length bit_or bit_xor bitmap_bit_position bitmap_bucket_number bitmap_count bool_and bool_or
    boolean btrim cardinality case cast cbrt char char_length character_length chr coalesce collate
    collation concat concat_ws contains conv convert_timezone corr cos cosh cot count count_if
    covar_pop covar_samp crc32 csc cume_dist curdate current_catalog current_database current_date
    current_schema current_time current_timestamp current_timezone current_user date date_add
    date_diff date_format date_from_unix_date date_part date_sub date_trunc dateadd datediff
    datepart day dayname dayofmonth dayofweek dayofyear decimal decode degrees dense_rank div double
    e element_at elt encode endswith equal_null every exists exp explode explode_outer expm1 extract
    factorial filter find_in_set first first_value flatten float forall from_json from_unixtime
    from_utc_timestamp get get_json_object getbit greatest grouping grouping_id hash hex
    hour hypot if ifnull in initcap inline inline_outer
    input_file_block_length input_file_block_start input_file_name instr int is_valid_utf8
    is_variant_null isnan isnotnull isnull json_array_length json_object_keys json_tuple
    kurtosis lag last last_day last_value lcase lead least left len length ln localtimestamp locate log log10
    log1p log2 lower ltrim luhn_check make_date make_dt_interval make_interval make_time
    make_timestamp make_timestamp_ltz make_timestamp_ntz make_valid_utf8 make_ym_interval map
    map_concat map_contains_key map_entries map_filter map_from_arrays map_from_entries map_keys
    map_values map_zip_with mask max max_by md5 mean min min_by minute mod
    monotonically_increasing_id month monthname months_between named_struct nanvl negative next_day
    not now nth_value ntile nullif nullifzero nvl nvl2 octet_length or overlay parse_json
    percent_rank pi pmod posexplode posexplode_outer position positive pow power quarter quote
    radians raise_error rand randn random rank regr_avgx regr_avgy regr_count regr_intercept regr_r2
    regr_slope regr_sxx regr_sxy regr_syy replace reverse right rint row_number rtrim schema_of_json
    schema_of_variant sec second sentences session_user session_window sha sha1 sha2 shiftleft
    shiftright shiftrightunsigned shuffle sign signum sin sinh size skewness slice smallint some
    sort_array soundex spark_partition_id split_part sqrt st_asbinary st_geogfromwkb st_geomfromwkb
    st_setsrid st_srid startswith std stddev stddev_pop stddev_samp string struct substr substring
    substring_index sum tan tanh theta_difference theta_intersection theta_sketch_estimate
    theta_union time time_diff time_trunc timestamp timestamp_micros timestamp_millis
    timestamp_seconds timestampadd timestampdiff tinyint to_binary to_char to_date to_number
    to_time to_timestamp to_timestamp_ltz to_timestamp_ntz to_unix_timestamp to_utc_timestamp
    to_varchar to_variant_object transform transform_keys transform_values translate trim trunc
    try_add try_avg try_divide try_element_at try_make_interval try_make_timestamp
    try_make_timestamp_ltz try_make_timestamp_ntz try_mod try_multiply try_parse_json try_subtract
    try_sum try_to_binary try_to_date try_to_number try_to_time try_to_timestamp try_url_decode
    try_validate_utf8 try_variant_get typeof ucase unbase64 unhex uniform unix_date unix_micros
    unix_millis unix_seconds unix_timestamp upper url_decode url_encode user uuid validate_utf8
    var_pop var_samp variance variant_explode variant_explode_outer variant_get version weekday
    weekofyear when width_bucket window_time xxhash64 year zeroifnull zip_with
    """

FUNCTIONS: Final[Mapping[str, Function]] = {
    **dict.fromkeys(_PLAIN.split(), Function(FunctionKind.PLAIN)),
    **dict.fromkeys(_GATHERING.split(), Function(FunctionKind.GATHERS)),
    **dict.fromkeys(_XML.split(), Function(FunctionKind.XML, "the path", bounded_xpath)),
    **_ALLOCATING,
    **_PATTERN,
    **_FORBIDDEN,
}
REFUSED: Final = frozenset(_FORBIDDEN)
ALLOWED: Final = frozenset(FUNCTIONS) - REFUSED
BOUNDED: Final = frozenset(name for name, each in FUNCTIONS.items() if each.check is not None)
