"""A call of each function that a SELECT may have; the kinds of its arguments are slots.

``{t}`` is a text, ``{p}`` a format of times, ``{j}`` JSON, ``{l}`` XML, ``{b}`` a binary, ``{a}`` an array of
texts, ``{c}`` one of numbers, ``{o}`` one of structs, ``{m}`` a map, ``{s}`` a struct, ``{w}`` a variant,
``{n}`` an int, ``{d}`` a double, ``{x}`` a timestamp.
"""

from typing import Final

_CALLS: Final = {
    "": """
        curdate current_catalog current_database current_date current_schema current_time
        current_timestamp current_timezone current_user e input_file_block_length
        input_file_block_start input_file_name localtimestamp monotonically_increasing_id now pi
        rand randn random session_user spark_partition_id user uuid version
        """,
    "{t}": """
        array ascii base64 binary bit_length btrim char_length character_length coalesce collation
        concat concat_ws crc32 hash hex initcap is_valid_utf8 isnotnull isnull lcase len length
        lower ltrim luhn_check make_valid_utf8 md5 octet_length quote reverse rtrim sentences sha
        sha1 soundex str_to_map string struct trim try_url_decode try_validate_utf8 typeof ucase
        upper url_encode validate_utf8 xxhash64
        """,
    "{t}, {t}": """
        array btrim coalesce concat contains endswith equal_null find_in_set greatest ifnull instr
        least levenshtein locate ltrim map nullif nvl position rtrim startswith struct trim
        """,
    "{t}, {t}, {t}": "nvl2 translate",
    "'%s %S %1$s', {t}, {t}": "format_string printf",
    "'%999s%.999f', {t}, {d}": "format_string",
    "1, {t}, {t}": "elt",
    "{t}, 2": "left repeat right sha2 substr substring",
    "{t}, 200": "repeat",
    "{t}, 5000": "lpad rpad",
    "{t}, 5000, '\u4e2d'": "lpad rpad",
    "{b}, 5000": "lpad rpad",
    "5000": "space randstr",
    "{t}, 'a', 'bcd'": "replace regexp_replace",
    "{t}, '', 'xyz'": "replace regexp_replace",
    "'a-a-a', 'a', {t}": "replace regexp_replace",
    "{t}, '(.)', '$1$1$0'": "regexp_replace",
    "{t}, '.', 0": "regexp_extract regexp_extract_all ",
    "{t}, 'a'": "regexp regexp_count regexp_instr regexp_like regexp_substr rlike like ilike",
    "{t}, ''": "split",
    "{t}, ','": "split",
    "{t}, '', ''": "str_to_map",
    "{t}, ',', 1": "split_part substring_index",
    "{t}, 'a', '\u4e2d'": "translate",
    "{t}, '\u4e2d', '\u4e2d', '\u4e2d', '\u4e2d'": "mask",
    "{t}, 'HOST'": "try_parse_url",
    "'http://a/b?' || {t}, 'QUERY'": "try_parse_url",
    "'http://host/path', 'HOST'": "parse_url",
    "true, {t}, {t}": "if",
    "HOUR, 1, {x}": "timestampadd dateadd",
    "HOUR, {x}, {x}": "timestampdiff datediff",
    "1 > 0, {t}": "assert_true",
    "x'0101'": "bitmap_count",
    "{t}, 'UTF8_LCASE'": "collate",
    "{t}, {t}, 2, 1": "overlay",
    "{t}, 'UTF-16'": "encode",
    "{t}, 'UTF-32'": "encode",
    "{t}, 'utf-8'": "to_binary try_to_binary",
    "{b}": "base64 hex make_valid_utf8 md5 octet_length string ",
    "{b}, 'ISO-8859-1'": "decode",
    "{b}, {b}": "concat",
    "{b}, 'hex'": "to_char to_varchar",
    "{b}, 'base64'": "to_char",
    "base64({b})": "unbase64",
    "hex({b})": "unhex",
    "url_encode({t})": "url_decode",
    "{x}, {p}": "date_format to_char",
    "1, {p}": "from_unixtime",
    "{n}": """
        abs acos acosh asin asinh atan atanh bigint bin bit_count bitmap_bit_position
        bitmap_bucket_number boolean cbrt ceil ceiling char chr cos cosh cot csc date_from_unix_date
        decimal degrees double exp expm1 factorial float floor from_unixtime hex int isnan ln log
        log10 log1p log2 negative nullifzero positive radians rint round bround sec sign signum sin
        sinh smallint sqrt string tan tanh timestamp_micros timestamp_millis timestamp_seconds
        tinyint typeof zeroifnull
        """,
    "{d}": "string ceil array",
    "{n}, {n}": """
        atan2 bit_get getbit hypot mod nanvl pmod pow power shiftleft shiftright shiftrightunsigned
        try_add try_divide try_mod try_multiply try_subtract array coalesce
        """,
    "{d}, 300": "format_number round bround",
    "{d}, '#,##0.000000'": "format_number",
    "{d}, '$9,999.99'": "to_char to_varchar",
    "'9', '9'": "to_number try_to_number",
    "'101', 10, 2": "conv",
    "{d}, 0.0, 10.0, 5": "width_bucket",
    "{n}, 1, 10": "between",
    "{x}": """
        date day dayname dayofmonth dayofweek dayofyear hour last_day minute month monthname quarter
        second string timestamp to_unix_timestamp to_timestamp to_timestamp_ltz to_timestamp_ntz
        unix_micros unix_millis unix_seconds unix_timestamp weekday weekofyear year to_date
        """,
    "date({x})": "unix_date",
    "date({x}), 1": "add_months date_add date_sub dateadd",
    "date({x}), date({x})": "date_diff datediff",
    "'MONTH', {x}": "date_trunc",
    "'YEAR', {x}": "date_part datepart",
    "{x}, 'MONTH'": "trunc",
    "{x}, {x}": "months_between",
    "{x}, 'Mon'": "next_day",
    "{x}, 'Asia/Tokyo'": "from_utc_timestamp to_utc_timestamp",
    "'UTC', 'Asia/Tokyo', timestamp_ntz'2020-01-01'": "convert_timezone",
    "{n}, 1, 1": "make_date",
    "2020, 1, 1, 1, 1, 1": "make_timestamp make_timestamp_ltz make_timestamp_ntz",
    "2020, 1, 1, 1, 1, 1.0": "try_make_timestamp try_make_timestamp_ltz try_make_timestamp_ntz",
    "1, 1, 1.5": "make_time",
    "1, 2, 3, 4": "make_dt_interval",
    "'2020'": "to_date to_timestamp try_to_timestamp try_to_date",
    "'10:00:00'": "to_time try_to_time",
    "time'10:00:00'": "string",
    "'HOUR', time'10:00:00'": "time_trunc",
    "'HOUR', time'10:00:00', time'12:00:00'": "time_diff",
    "{a}": """
        array array_compact array_distinct array_max array_min array_size cardinality reverse
        shuffle size sort_array to_variant_object array_sort concat typeof
        """,
    "array({a}, {a})": "flatten",
    "{a}, {a}": """
        array_except array_intersect array_union arrays_overlap arrays_zip concat array coalesce
        struct
        """,
    "array({t}), {a}": "arrays_zip",
    "{a}, {t}": "array_append array_contains array_position array_prepend array_remove",
    "{a}, ','": "array_join",
    "{a}, '-----------'": "array_join",
    "'-----------', {a}, {t}": "concat_ws",
    "array({t}, CAST(NULL AS STRING)), ',', 'none'": "array_join",
    "{a}, 1": "element_at get try_element_at",
    "{a}, 1, 2": "slice",
    "{a}, 2000, {t}": "array_insert",
    "{t}, 30": "array_repeat",
    "{a}, 30": "array_repeat",
    "1, 5000": "sequence",
    "1, 5": "uniform",
    "{c}": "array_distinct sort_array to_variant_object size",
    "{o}": "map_from_entries to_json",
    "{m}": "map_entries map_keys map_values size to_json typeof",
    "{m}, {t}": "map_contains_key element_at try_element_at",
    "{m}, map('z', {t})": "map_concat",
    "array({t}, 'z'), array({t}, {t})": "map_from_arrays",
    "{s}": "to_json to_csv struct array",
    "{s}, map('nullValue', '-----------')": "to_csv",
    "{s}, map('ignoreNullFields', 'false')": "to_json",
    "struct({x}), map('timestampFormat', 'VV VV VV VV VV')": "to_json to_csv",
    "'f', {t}, 'g', {n}": "named_struct",
    "struct({t}, {a}, {m}, {n}, {x})": "to_json to_csv",
    "struct({x}, {x})": "to_json to_csv",
    "struct({x}), map('ignoreNullFields', 'false')": "to_json to_csv",
    "array(array({x}, {x}))": "to_json",
    "map('k', {x})": "to_json",
    "{j}": "json_array_length json_object_keys parse_json try_parse_json",
    "{j}, '$'": "get_json_object",
    "{j}, '$[*]'": "get_json_object",
    "{j}, 'ARRAY<STRUCT<a: INT, b: INT, c: INT, d: INT, e: INT, f: INT, g: INT>>'": "from_json",
    "{j}, 'ARRAY<INT>'": "from_json",
    "{j}, 'ARRAY<STRING>'": "from_json",
    "{j}, 'MAP<STRING, STRING>'": "from_json",
    "{j}, 'a INT, b STRING'": "from_json",
    "{t}, 'a STRING, b STRING, c INT'": "from_csv",
    "{w}": "to_json is_variant_null schema_of_variant",
    "{w}, '$', 'STRING'": "variant_get try_variant_get",
    "{w}, '$', 'ARRAY<STRING>'": "try_variant_get",
    "{w}, '$', 'ARRAY<STRUCT<a: INT, b: INT, c: INT, d: INT, e: INT, f: INT>>'": "try_variant_get",
    "'[[[[{\"a\": [1]}]]]]'": "schema_of_json",
    "'1,2,3'": "schema_of_csv",
    "{l}, '//text()'": "xpath",
    "{l}, '/a'": "xpath_string",
    "{l}, 'concat(/a, /a, /a, /a)'": "xpath_string",
    "{l}, 'count(//b)'": """
        xpath_boolean xpath_double xpath_float xpath_int xpath_long xpath_number xpath_short
        """,
    "{a}, x -> x": "transform ",
    "{a}, x -> md5(x)": "transform",
    "{a}, (x, i) -> concat(x, i)": "transform",
    "{a}, x -> {t}": "transform",
    "{a}, x -> length(x)": "transform",
    "split({t}, ''), x -> sha2(x, 512)": "transform",
    "split({t}, ''), x -> 'twenty-characters-xx'": "transform",
    "{a}, x -> x > 'a'": "exists forall filter",
    "{a}, '', (x, y) -> concat(x, y)": "aggregate reduce",
    "{a}, '', (x, y) -> concat_ws('-----------', x, y), x -> concat(x, x)": "aggregate",
    "{a}, CAST(NULL AS STRING), (x, y) -> coalesce(x, y)": "reduce",
    "{a}, {a}, (x, y) -> concat(x, y)": "zip_with",
    "{m}, (k, v) -> concat(k, v)": "transform_values",
    "{m}, (k, v) -> concat(k, k)": "transform_keys",
    "{m}, (k, v) -> k > 'a'": "map_filter",
    "{m}, {m}, (k, v, w) -> concat(v, w)": "map_zip_with",
    "{a}, (x, y) -> 0": "array_sort",
}
_AGGREGATES: Final = {
    "{t}": """
        any_value approx_count_distinct approx_top_k approx_top_k_accumulate array_agg collect_list
        collect_set count first first_value last last_value listagg max min mode string_agg
        hll_sketch_agg theta_sketch_agg
        """,
    "{a}": "collect_list max first",
    "{t}, {t}": "max_by min_by",
    "{t}, '-----------'": "listagg string_agg",
    "{n}": """
        avg bit_and bit_or bit_xor kurtosis mean median skewness std stddev stddev_pop stddev_samp
        sum try_avg try_sum var_pop var_samp variance kll_sketch_agg_bigint max min theta_sketch_agg
        """,
    "CAST({n} AS FLOAT)": "kll_sketch_agg_float",
    "{d}": "kll_sketch_agg_double",
    "{d}, {d}": """
        corr covar_pop covar_samp regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope
        regr_sxx regr_sxy regr_syy
        """,
    "{n} > 1": "any bool_and bool_or count_if every some",
    "{d}, 0.5": "approx_percentile percentile percentile_approx",
    "{d}, array(0.1, 0.2, 0.3, 0.4, 0.5)": "approx_percentile percentile",
    "{n}, 100": "histogram_numeric",
    "{t}, 0.001D, 0.99D, 1": "count_min_sketch",
    "bitmap_bit_position({n})": "bitmap_construct_agg",
    "{w}": "schema_of_variant_agg",
}
ROWS: Final = (
    ("explode", "explode({a}) AS z0"),
    ("explode_outer", "explode_outer({m}) AS (k, v)"),
    ("posexplode", "posexplode({a}) AS (k, v)"),
    ("posexplode_outer", "posexplode_outer({a}) AS (k, v)"),
    ("inline", "inline({o}) AS (k, v)"),
    ("inline_outer", "inline_outer({o}) AS (k, v)"),
    ("stack", "stack(2, {t}, {t}, {t}, {t}) AS (k, v)"),
    ("json_tuple", "json_tuple({j}, 'a', 'b') AS (k, v)"),
)
"""Calls that make rows, with the names of their columns."""
_WINDOWS: Final = {
    "{t}": "lag lead first_value last_value collect_list",
    "{t}, 1": "nth_value",
    "": "cume_dist dense_rank percent_rank rank row_number",
    "4": "ntile",
}
_OPERATORS: Final = (
    "{t} || {t}",
    "{n} + {n}",
    "{n} % 5 & 3",
    "-{d}",
    "{n} IN (1, 2)",
    "{t} LIKE 'a%'",
    "{t} RLIKE 'a'",
    "CASE WHEN {n} > 1 THEN {t} ELSE {t} || 'x' END",
    "CAST({d} AS STRING)",
    "CAST({x} AS STRING)",
    "CAST({a} AS STRING)",
    "CAST({c} AS STRING)",
    "CAST({c} AS ARRAY<STRING>)",
    "CAST({m} AS STRING)",
    "CAST({s} AS STRING)",
    "CAST({o} AS STRING)",
    "CAST({w} AS STRING)",
    "CAST({t} AS BINARY)",
    "CAST(make_interval(1, 2, 3, 4, 5, 6, 7.5) AS STRING)",
    "CAST(array(CAST(NULL AS STRING), NULL, NULL, NULL) AS STRING)",
    "try_cast(split({t}, '') AS ARRAY<DOUBLE>)",
    "try_cast({t} AS INT)",
    "CAST({t} AS VARCHAR(20000))",
    "{t} COLLATE UTF8_LCASE",
    "SUBSTRING({t} FROM 2 FOR 3)",
    "OVERLAY({t} PLACING {t} FROM 2)",
    "TRIM(BOTH 'a' FROM {t})",
    "POSITION('a' IN {t})",
    "EXTRACT(YEAR FROM {x})",
    "{a}[0]",
    "{m}['k']",
    "{s}.f",
    "{w}:a",
    "{t} > 'a' AND NOT {n} = 1 OR {n} <> 2",
    "~{n} | 4 ^ 2",
    "1 << 2 >> 1",
    "7 DIV 2",
    "{d} * {d} / 3",
    "struct({t} AS a_name_of_some_length, {t} AS b)",
)


def _listed(table: dict[str, str], text: str = "{}") -> tuple[tuple[str, str], ...]:
    return tuple(
        (name, text.replace("{}", f"{name}({arguments})"))
        for arguments, names in table.items()
        for name in names.split()
    )


_OF_SKETCHES: Final = (
    *(
        (name, f"{name}(theta_sketch_agg({{t}}){more})")
        for name, more in (
            ("theta_sketch_estimate", ""),
            *(
                (f"theta_{each}", ", theta_sketch_agg({n})")
                for each in ("difference", "intersection", "union")
            ),
        )
    ),
    ("percentile_cont", "percentile_cont(0.5) WITHIN GROUP (ORDER BY {d})"),
    ("percentile_disc", "percentile_disc(0.5) WITHIN GROUP (ORDER BY {d})"),
)
CALLS: Final = (*_listed(_CALLS), *(("", text) for text in _OPERATORS))
"""Names of functions, and calls of them."""
AGGREGATES: Final = (*_listed(_AGGREGATES), *_OF_SKETCHES)
_FRAMES: Final = tuple(
    f"collect_list({{t}}) OVER (PARTITION BY row ORDER BY n {frame})"
    for frame in (
        "ROWS BETWEEN 2000000000 PRECEDING AND 2000000000 FOLLOWING",
        "RANGE BETWEEN 2000000000 PRECEDING AND CURRENT ROW",
        "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
    )
)
_FAR: Final = {"{t}, 2000000000": "lag lead nth_value", "2000000000": "ntile"}
"""Numbers that would be gigabytes if Spark allocated by them."""
WINDOWS: Final = (
    *_listed({**_WINDOWS, **_FAR}, "{} OVER (PARTITION BY row ORDER BY row)"),
    *(("collect_list", text) for text in _FRAMES),
)
_SQUARES: Final = {
    "{t}, 'a', {t}": "replace regexp_replace",
    "{t}, {t}, {t}": "replace concat_ws",
    "{t}, '(?=(.*))', '$1'": "regexp_replace",
    "{t}, '(?=(a)(.*))a', '$12'": "regexp_replace",
    "{t}, '(?=(?<rest>.*))', '${rest}'": "regexp_replace",
    "{t}, '(?=(.*))', 1": "regexp_extract_all",
    "{t}, '(?=(.*))'": "regexp_extract_all",
    "split({t}, ''), {t}": "array_join",
    "split({t}, ''), ',', {t}": "array_join",
    "{t}, split({t}, '')": "concat_ws",
}
SQUARES: Final = _listed(_SQUARES)
"""Calls whose result grows with the square of a value."""
UNCALLED: Final = {
    "operators, whose nodes have other names": """
        ! != % & * + - / < << <= <=> <> = == > >= >> >>> ^ and case cast div extract in not or time
        when | || ~
        """,
    "aggregates of sketches of groups, as large as one of them": """
        bitmap_and_agg bitmap_or_agg theta_intersection_agg theta_union_agg
        """,
    "need a grouping or a window, and make a number or two times": """
        grouping grouping_id session_window window window_time
        """,
    "make a type of a constant size, without a class in Python": """
        make_interval make_ym_interval try_make_interval
        """,
    "Spark 4.1 has them disabled": "st_asbinary st_geogfromwkb st_geomfromwkb st_setsrid st_srid",
    "makes no value": "raise_error",
    "table functions, whose rows are counted": "range variant_explode variant_explode_outer",
}
"""Functions that are not called, by the reason."""
