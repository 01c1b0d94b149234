"""The size of what a function of Spark makes of its arguments. Pure.

``tests/runtime/test_grown_values.py`` calls each function on Spark and compares.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from cooperator.connectors.options import refuse
from cooperator.connectors.sql_bounds import DIGITS, LARGEST, captured_aside
from cooperator.connectors.sql_functions import MOST_OF_ENTITIES
from cooperator.connectors.sql_sizes import NUMBER, PLACE, Argument, Size, largest, product, total

_DIGEST: Final = 128
_PATH: Final = 4_096
_SUMMARY: Final = 8_192
_BINS: Final = 80
_VALUE: Final = NUMBER + PLACE
_LONGEST_ZONE: Final = 16
"""``VV`` is written as America/Argentina/ComodRivadavia."""
_REPLACEMENT: Final = (
    "write the replacement as a text, or put the value between parts that split_part cuts out"
)
_SEPARATOR: Final = "write the separator, and the text for null, as texts"
_LOOKED_AT: Final = "use a group that is not within a lookahead or lookbehind"

_Given = Sequence[Argument]
_Rule = Callable[[_Given], Size]


def _sum(given: _Given) -> Size:
    return total(each.size for each in given)


def _names(given: _Given) -> int:
    return sum(len(each.name.encode()) if each.name else len("col100") for each in given)


def _at_most(size_bytes: float) -> _Rule:
    return lambda given: Size(size_bytes)


def _times(factor: float, more: float = 0) -> _Rule:
    return lambda given: _sum(given) * factor + more


def _choice(given: _Given) -> Size:
    return largest(each.size for each in given)


def _number(given: _Given, at: int) -> float | None:
    value = given[at].value if len(given) > at else None
    return value if isinstance(value, (int, float)) else None


def _text(given: _Given, at: int) -> str | None:
    value = given[at].value if len(given) > at else None
    return value if isinstance(value, str) else None


def _characters(at: int) -> _Rule:
    def rule(given: _Given) -> Size:
        number = _number(given, at)
        return Size(4 * (LARGEST if number is None else abs(number)))

    return rule


def _copies(place: int) -> _Rule:
    def rule(given: _Given) -> Size:
        number = _number(given, 1)
        return (given[0].size + place) * (LARGEST if number is None else max(1, number)) if given else Size()

    return rule


def elements_of_sequence(given: _Given) -> float:
    numbers = [each for each in (_number(given, at) for at in (0, 1)) if each is not None]
    return abs(numbers[-1] - (numbers[0] if len(numbers) > 1 else 0)) + 1 if numbers else LARGEST


def _sequence(given: _Given) -> Size:
    return Size(elements_of_sequence(given) * _VALUE)


def _structure(place: int) -> _Rule:
    return lambda given: _sum(given) + len(given) * place + (_names(given) if place == PLACE else 0)


def _zipped(given: _Given) -> Size:
    each = 1 + len(given) * (1 + PLACE) + _names(given)
    return _sum(given) * (1 + each / PLACE)


def _as_text(given: _Given) -> Size:
    """``to_char``: of a number or time by a format, or a binary as text."""
    return (
        given[0].size * 2 + total(each.size * _LONGEST_ZONE for each in given[1:]) + NUMBER
        if given
        else Size()
    )


def _formatted_number(given: _Given) -> Size:
    digits = _number(given, 1)
    return (
        (given[1].size * 2 if digits is None and len(given) > 1 else Size()) + 2 * DIGITS + abs(digits or 0)
    )


def _formatted(given: _Given) -> Size:
    text = _text(given, 0)
    if text is None:
        return _sum(given) * LARGEST
    # A width or a precision has three digits at most; %S writes some letters as several.
    uses = 1 + text.count("$") + text.count("<")
    wide = len(re.findall(r"%[^a-zA-Z%\n]*\d", text))
    times = 3 if "S" in text else 1
    return total(each.size * (uses * times) for each in given[1:]) + (
        given[0].size + text.count("%") * NUMBER + wide * 1_400
    )


def _replaced(given: _Given) -> Size:
    if len(given) < 3:
        return _sum(given)  # What is found is removed.
    subject, old, new = given[0].size, _text(given, 1), given[2].size
    length = max(1, len(old.encode())) if old is not None else 1
    if not new.grows:
        return subject * max(1, new.bytes / length)
    return subject + product(subject * (1 / length), new, "replace", _REPLACEMENT)


def _replaced_by_pattern(given: _Given) -> Size:
    if len(given) < 3:
        return _sum(given)
    name = "regexp_replace"
    subject, pattern, new = given[0].size, _text(given, 1), given[2].size
    written = _text(given, 2)
    aside = captured_aside(pattern) if pattern is not None else {0}
    if aside and subject.grows and _refers(written, aside):
        raise refuse(f"calls {name}, whose result may grow with the square of a value", _LOOKED_AT)
    if new.grows:
        return subject + product(subject * 2 + 1, new, name, _REPLACEMENT)
    # A pattern may match nothing between any two characters, and a group may be repeated.
    is_plain = new.bytes == 0 or (
        pattern is not None and pattern != "" and not set(pattern) & set("*?{|^$()\\")
    )
    return subject * max(1, new.bytes) if is_plain else subject * (1 + new.bytes) + new.bytes


def _refers(written: str | None, groups: set[int]) -> bool:
    if written is None or "${" in written:
        return True
    # Java reads as many digits as there are groups.
    return any(
        int(found[: end + 1]) in groups
        for found in re.findall(r"\$(\d+)", written)
        for end in range(len(found))
    )


def _extracted_all(given: _Given) -> Size:
    pattern, group = _text(given, 1), _number(given, 2) if len(given) > 2 else 1
    aside = captured_aside(pattern) if pattern is not None else {0}
    if given and given[0].size.grows and aside and (group is None or int(group) in aside):
        problem = "calls regexp_extract_all, whose result may grow with the square of a value"
        raise refuse(problem, _LOOKED_AT)
    return given[0].size * (1 + PLACE) + PLACE if given else Size()


def _joined(parts: _Given, separator: Size, name: str) -> Size:
    found = Size()
    for each in parts:
        if each.is_accumulator and name == "concat_ws":
            made = each.size  # It is a text, as the result is.
        elif separator.grows:
            made = each.size + product(each.size * (1 / PLACE), separator, name, _SEPARATOR)
        else:
            # An element has three bytes of its own, which its separator takes.
            made = each.size * max(1, separator.bytes / PLACE)
        found = found + made + separator
    return found


def _concat_ws(given: _Given) -> Size:
    return _joined(given[1:], given[0].size, "concat_ws") if given else Size()


def _array_join(given: _Given) -> Size:
    return _joined(given[:1], _sum(given[1:]), "array_join")


def _fields(given: _Given, at: int) -> float:
    """Returns how many fields the schema as argument ``at`` has; it may be made by ``schema_of_json``."""
    schema = _text(given, at)
    if schema is not None:
        return schema.count(",") + 1
    return given[at].size.bytes / len("a INT,") + 1 if len(given) > at else 1


def _parsed(given: _Given) -> Size:
    """``from_json``: each ``{}`` of an array has all fields of the schema, and ``1`` is a number."""
    if len(given) < 2:
        return _sum(given)
    schema, fields = _text(given, 1), _fields(given, 1)
    is_nested = schema is None or re.search("array|map", schema, re.IGNORECASE)
    return given[0].size * max(15, fields if is_nested else 0) + given[1].size.bytes + fields * _VALUE


def _parsed_line(given: _Given) -> Size:
    if len(given) < 2:
        return _sum(given)
    return given[0].size + given[1].size.bytes + _fields(given, 1) * _VALUE


def _of_variant(given: _Given) -> Size:
    return given[0].size * max(8, _fields(given, 2)) + NUMBER if given else Size()


def cast(to: str, given: Size) -> Size:
    """Returns the size of a value as type ``to``, as SQL writes it."""
    kind = re.split("[(<]| COLLATE", to.upper())[0].strip()
    if kind in ("STRING", "CHAR", "VARCHAR"):
        return given * 2 + NUMBER * (not given.grows) + _padding(to)
    if kind in ("ARRAY", "MAP", "STRUCT"):
        return given * max(15, to.count(",") + 1) + NUMBER
    return given * 4 if kind in ("VARIANT", "BINARY") else Size(NUMBER)


def _padding(to: str) -> float:
    found = re.search(r"CHAR\((\d+)\)", to.upper())
    return float(found[1]) if found else 0


def _written(given: _Given) -> Size:
    """``to_json`` and ``to_csv`` with options: formats of times and texts for null."""
    options = total(each.size for each in given[1:])
    return given[0].size * (6 + options.bytes) + 4 if given else Size()


_TABLE: Final[Sequence[tuple[_Rule, str]]] = (
    (
        _at_most(NUMBER),
        """
        ! != % & * + - / < << <= <=> <> = == > >= >> >>> ^ | ~ abs acos acosh add_months and
        approx_count_distinct array_contains array_position array_size arrays_overlap ascii asin
        asinh atan atan2 atanh avg between bigint bit_and bit_count bit_get bit_length bit_or
        bit_xor bitmap_bit_position bitmap_bucket_number bitmap_count bool_and bool_or boolean
        bround cardinality cbrt ceil ceiling char_length character_length contains corr cos cosh cot
        count count_if covar_pop covar_samp crc32 csc cume_dist curdate current_date current_time
        current_timestamp date date_add date_diff date_from_unix_date date_part date_sub date_trunc
        dateadd datediff datepart day dayofmonth dayofweek dayofyear decimal degrees dense_rank div
        double e endswith equal_null every exists exp expm1 extract factorial find_in_set float
        floor forall from_utc_timestamp getbit grouping grouping_id hash hour hypot ilike instr int
        is_valid_utf8 is_variant_null isnan isnotnull isnull json_array_length kurtosis last_day len
        length levenshtein like ln localtimestamp locate log log10 log1p log2 luhn_check make_date
        make_time make_timestamp make_timestamp_ltz make_timestamp_ntz map_contains_key mean minute
        mod monotonically_increasing_id month months_between nanvl negative next_day not now ntile
        nullifzero octet_length or percent_rank pi pmod position positive pow power quarter radians
        rand randn random rank regexp regexp_count regexp_instr regexp_like regr_avgx regr_avgy
        regr_count regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy rint rlike round
        row_number sec second shiftleft shiftright shiftrightunsigned sign signum sin sinh size
        skewness smallint some spark_partition_id sqrt st_srid startswith std stddev stddev_pop
        stddev_samp sum tan tanh theta_sketch_estimate time time_diff time_trunc timestamp
        timestamp_micros timestamp_millis timestamp_seconds timestampadd timestampdiff tinyint
        to_date to_number to_time to_timestamp to_timestamp_ltz to_timestamp_ntz to_unix_timestamp
        to_utc_timestamp trunc try_add try_avg try_divide try_make_timestamp try_make_timestamp_ltz
        try_make_timestamp_ntz try_mod try_multiply try_subtract try_sum try_to_date try_to_number
        try_to_time try_to_timestamp uniform unix_date unix_micros unix_millis unix_seconds
        unix_timestamp var_pop var_samp variance weekday weekofyear width_bucket window_time
        xpath_boolean xpath_double xpath_float xpath_int xpath_long xpath_number xpath_short
        xxhash64 year zeroifnull any in
        """,
    ),
    (
        _at_most(_DIGEST),
        """
        bin char chr collation conv convert_timezone dayname make_dt_interval make_interval
        make_ym_interval md5 monthname session_window sha sha1 sha2 try_make_interval uuid version
        window
        """,
    ),
    (
        _at_most(_PATH),
        """
        current_catalog current_database current_schema current_timezone current_user
        input_file_block_length input_file_block_start input_file_name session_user user
        """,
    ),
    (
        _choice,
        """
        any_value case coalesce first first_value greatest if ifnull lag last last_value lead least
        max max_by median min min_by mode nth_value nullif nvl nvl2 percentile_cont percentile_disc
        when
        """,
    ),
    (
        _times(1),
        """
        aggregate array_compact array_distinct array_except array_intersect array_max array_min
        array_remove array_sort array_union assert_true btrim collate concat element_at elt explode
        explode_outer filter flatten get inline inline_outer left ltrim map_concat map_filter
        map_from_arrays map_from_entries map_keys map_values map_zip_with overlay posexplode
        posexplode_outer raise_error reduce regexp_extract regexp_substr reverse right rtrim shuffle
        slice sort_array soundex split_part stack substr substring substring_index transform
        transform_keys transform_values trim try_element_at try_to_binary to_binary try_url_decode
        try_validate_utf8 unbase64 unhex url_decode validate_utf8 zip_with || parse_url
        try_parse_url
        """,
    ),
    (_times(1, PLACE), "array_agg collect_list collect_set listagg string_agg array_append array_prepend"),
    (_times(1, NUMBER + 2 * PLACE), "variant_explode variant_explode_outer"),
    (_times(1, _SUMMARY), "st_asbinary st_geogfromwkb st_geomfromwkb st_setsrid"),
    (_times(2, 4), "base64 binary hex lower lcase quote"),
    (_times(2, NUMBER), "approx_percentile percentile_approx percentile"),
    (
        _times(3),
        "decode initcap make_valid_utf8 map_entries ucase upper url_encode get_json_object json_tuple",
    ),
    (_times(4, 8), "encode mask parse_json split sentences to_variant_object translate try_parse_json"),
    (_times(1), "json_object_keys"),
    (_times(8, NUMBER), "schema_of_json schema_of_csv schema_of_variant schema_of_variant_agg str_to_map"),
    (_times(8, 20_000), "typeof"),
    (
        _times(2, _SUMMARY),
        """
        approx_top_k approx_top_k_accumulate bitmap_and_agg bitmap_construct_agg bitmap_or_agg
        hll_sketch_agg kll_sketch_agg_bigint kll_sketch_agg_double kll_sketch_agg_float
        theta_difference theta_intersection theta_intersection_agg theta_sketch_agg theta_union
        theta_union_agg
        """,
    ),
    (_characters(0), "randstr space"),
    (_characters(1), "lpad rpad"),
    (_copies(0), "repeat"),
    (_copies(PLACE), "array_repeat"),
    (_sequence, "sequence range"),
    (_structure(PLACE), "array named_struct struct"),
    (_structure(2 * PLACE), "map"),
    (_zipped, "arrays_zip"),
    (_as_text, "date_format from_unixtime to_char to_varchar"),
    (_formatted_number, "format_number"),
    (_formatted, "format_string printf"),
    (_replaced, "replace"),
    (_replaced_by_pattern, "regexp_replace"),
    (_extracted_all, "regexp_extract_all"),
    (_concat_ws, "concat_ws"),
    (_array_join, "array_join"),
    (_parsed, "from_json"),
    (_parsed_line, "from_csv"),
    (_of_variant, "variant_get try_variant_get"),
    (_written, "to_json to_csv"),
    (lambda given: _sum(given) + PLACE * (abs(_number(given, 1) or LARGEST) + 1), "array_insert"),
    (lambda given: Size(_BINS * (_number(given, 1) or LARGEST)), "histogram_numeric"),
    (lambda given: Size(1_000 / (_number(given, 1) or 0.000_1) + 1_000), "count_min_sketch"),
    (lambda given: Size(NUMBER) if not given else given[0].size * 2 + NUMBER, "cast string"),
    (
        lambda given: (_sum(given) + MOST_OF_ENTITIES) * (1 + (_text(given, 1) or "," * 99).count(",")),
        "xpath xpath_string",
    ),
)
RESULTS: Final[Mapping[str, _Rule]] = {name: rule for rule, names in _TABLE for name in names.split()}
