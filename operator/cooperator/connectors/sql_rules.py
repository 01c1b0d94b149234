"""What a user's SELECT may contain: bounds of its size, and allow-lists of functions and of relations.

The text comes from whoever may write a Connector, and runs with the rights of the Worker's members. So it
reads the view ``input`` and nothing else: no file by its path, no other table, no class of the JVM, no
script. The bounds keep the parser's time and depth small where it is checked beside other Connectors.
"""

from typing import TYPE_CHECKING, Final

from cooperator.connectors.options import refuse

if TYPE_CHECKING:
    from sqlglot import exp
    from sqlglot.tokens import Token

LONGEST_SQL: Final = 20_000
"""Characters."""
MOST_TOKENS: Final = 5_000
DEEPEST_SQL: Final = 25
"""Parentheses, brackets, CASE and types within each other."""

_REMEDY: Final = "write one SELECT from the view input, such as SELECT * FROM input"
_VIEW: Final = "input"
_FORBIDDEN: Final = frozenset(
    {"java_method", "reflect", "try_reflect", "from_avro", "to_avro", "schema_of_avro", "from_protobuf"}
    | {"to_protobuf", "from_xml", "schema_of_xml", "identifier"}
)
"""They call Java, read files that their options name, or have a name that is computed."""
_NESTING_TYPES: Final = frozenset({"ARRAY", "MAP", "STRUCT"})
_GENERATORS: Final = frozenset(
    {"explode", "explode_outer", "inline", "inline_outer", "json_tuple", "posexplode", "posexplode_outer"}
    | {"range", "stack", "variant_explode", "variant_explode_outer"}
)
"""Functions that may stand where a relation does."""
_FUNCTIONS: Final = """
abs acos acosh add_months aes_decrypt aes_encrypt aggregate and any any_value approx_count_distinct
approx_percentile array array_agg array_append array_compact array_contains array_distinct array_except
array_insert array_intersect array_join array_max array_min array_position array_prepend array_remove
array_repeat array_size array_sort array_union arrays_overlap arrays_zip ascii asin asinh assert_true
atan atan2 atanh avg base64 between bigint bin binary bit_and bit_count bit_get bit_length bit_or bit_xor
bitmap_bit_position bitmap_bucket_number bitmap_construct_agg bitmap_count bitmap_or_agg bool_and bool_or
boolean bround btrim cardinality case cast cbrt ceil ceiling char char_length character_length chr
coalesce collate collation collations collect_list collect_set concat concat_ws contains conv
convert_timezone corr cos cosh cot count count_if count_min_sketch covar_pop covar_samp crc32 csc
cume_dist curdate current_catalog current_database current_date current_schema current_timestamp
current_timezone date date_add date_diff date_format date_from_unix_date date_part date_sub date_trunc
dateadd datediff datepart day dayname dayofmonth dayofweek dayofyear decimal decode degrees dense_rank
div double e element_at elt encode endswith equal_null every exists exp explode explode_outer expm1
extract factorial filter find_in_set first first_value flatten float floor forall format_number
format_string from_csv from_json from_unixtime from_utc_timestamp get get_json_object getbit greatest
grouping grouping_id hash hex histogram_numeric hll_sketch_agg hll_sketch_estimate hll_union
hll_union_agg hour hypot if ifnull ilike in initcap inline inline_outer input_file_block_length
input_file_block_start input_file_name instr int is_valid_utf8 is_variant_null isnan isnotnull isnull
json_array_length json_object_keys json_tuple kurtosis lag last last_day last_value lcase lead least left
len length levenshtein like listagg ln localtimestamp locate log log10 log1p log2 lower lpad ltrim
luhn_check make_date make_dt_interval make_interval make_timestamp make_timestamp_ltz make_timestamp_ntz
make_valid_utf8 make_ym_interval map map_concat map_contains_key map_entries map_filter map_from_arrays
map_from_entries map_keys map_values map_zip_with mask max max_by md5 mean median min min_by minute mod
mode monotonically_increasing_id month monthname months_between named_struct nanvl negative next_day not
now nth_value ntile nullif nullifzero nvl nvl2 octet_length or overlay parse_json parse_url percent_rank
percentile percentile_approx percentile_cont percentile_disc pi pmod posexplode posexplode_outer position
positive pow power printf quarter radians raise_error rand randn random randstr range rank reduce regexp
regexp_count regexp_extract regexp_extract_all regexp_instr regexp_like regexp_replace regexp_substr
regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy repeat
replace reverse right rint rlike round row_number rpad rtrim schema_of_csv schema_of_json
schema_of_variant schema_of_variant_agg sec second sentences sequence session_window sha sha1 sha2
shiftleft shiftright shiftrightunsigned shuffle sign signum sin sinh size skewness slice smallint some
sort_array soundex space spark_partition_id split split_part sql_keywords sqrt stack startswith std
stddev stddev_pop stddev_samp str_to_map string string_agg struct substr substring substring_index sum
tan tanh timestamp timestamp_micros timestamp_millis timestamp_seconds tinyint to_binary to_char to_csv
to_date to_json to_number to_timestamp to_timestamp_ltz to_timestamp_ntz to_unix_timestamp
to_utc_timestamp to_varchar to_variant_object to_xml transform transform_keys transform_values translate
trim trunc try_add try_aes_decrypt try_avg try_divide try_element_at try_make_interval try_make_timestamp
try_make_timestamp_ltz try_make_timestamp_ntz try_mod try_multiply try_parse_json try_parse_url
try_subtract try_sum try_to_binary try_to_number try_to_timestamp try_url_decode try_validate_utf8
try_variant_get typeof ucase unbase64 unhex uniform unix_date unix_micros unix_millis unix_seconds
unix_timestamp upper url_decode url_encode uuid validate_utf8 var_pop var_samp variance variant_explode
variant_explode_outer variant_get version weekday weekofyear when width_bucket window window_time xpath
xpath_boolean xpath_double xpath_float xpath_int xpath_long xpath_number xpath_short xpath_string
xxhash64 year zeroifnull zip_with
"""
"""Functions that Spark 4.0 lists, without those that are forbidden."""


def parsed_select(text: str) -> "exp.Query":
    """Returns the one SELECT that ``text`` is.

    Raises the error of ``refuse`` where it is too large, is not valid, or reads or calls what a Connector may
    not.
    """
    import sqlglot
    from sqlglot import exp
    from sqlglot.errors import ParseError, TokenError

    _check_length(text)
    try:
        _check_tokens(sqlglot.tokenize(text, read="spark"))
        parsed = [statement for statement in sqlglot.parse(text, read="spark") if statement is not None]
    except ParseError as error:
        first = error.errors[0] if error.errors else {}
        what = str(first.get("description", "it cannot be parsed")).rstrip(".")
        where = f"line {first.get('line')}, column {first.get('col')}"
        raise refuse(f"is not valid SQL ({where}: {what})", _REMEDY) from None
    except TokenError:
        raise refuse("is not valid SQL (an unterminated quote or comment)", _REMEDY) from None
    except RecursionError:
        # What nests without parentheses, such as a long chain of joins.
        raise refuse("is nested too deeply", "split it into several WITH parts") from None
    if len(parsed) != 1 or not isinstance(parsed[0], exp.Query):
        raise refuse("is not one SELECT", _REMEDY)
    _check_relations(parsed[0])
    _check_functions(parsed[0])
    return parsed[0]


def _check_length(text: str) -> None:
    if len(text) > LONGEST_SQL:
        raise refuse(f"has {len(text):,} characters", f"use at most {LONGEST_SQL:,}")


def _check_tokens(tokens: "list[Token]") -> None:
    from sqlglot.tokens import TokenType

    opens = {TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE, TokenType.CASE}
    closes = {TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE, TokenType.END, TokenType.GT}
    if len(tokens) > MOST_TOKENS:
        raise refuse(f"has {len(tokens):,} words and signs", f"use at most {MOST_TOKENS:,}")
    stack: list[TokenType] = []
    before = ""
    for token, following in zip(tokens, [*tokens[1:], None], strict=True):
        kind = token.token_type
        if kind in opens or (kind is TokenType.LT and before in _NESTING_TYPES):
            stack.append(kind)
        elif kind in closes:
            while kind is not TokenType.GT and stack and stack[-1] is TokenType.LT:
                stack.pop()  # ``>>`` is one sign that ends two types.
            if stack and (kind is not TokenType.GT or stack[-1] is TokenType.LT):
                stack.pop()
        before = token.text.upper()
        if len(stack) > DEEPEST_SQL:
            raise refuse(f"is nested more than {DEEPEST_SQL} levels deep", "split it into several WITH parts")
        if following is None:
            break
        if following.token_type is TokenType.L_PAREN and token.text.lower() in _FORBIDDEN:
            raise _function(token.text)
        if token.text.upper() == "USING" and following.token_type in (TokenType.STRING, TokenType.RAW_STRING):
            raise refuse("runs a script", "use expressions of SQL instead of TRANSFORM ... USING")


def _check_relations(query: "exp.Query") -> None:
    from sqlglot import exp

    named = {cte.alias.lower() for cte in query.find_all(exp.CTE)}
    reads_input = False
    for table in query.find_all(exp.Table):
        if isinstance(table.this, exp.Func):
            name = _name(table.this)
            if name not in _GENERATORS:
                raise refuse(
                    f"reads the table function {name[:100]}", f"use one of {', '.join(sorted(_GENERATORS))}"
                )
            continue
        name = table.name.lower()
        if table.db or table.catalog or name not in {_VIEW, *named}:
            read = ".".join(part.name for part in table.parts)
            raise refuse(f"reads {read[:100]}", "read nothing but the view input, and what WITH defines")
        reads_input |= name == _VIEW
    if not reads_input:
        raise refuse("does not read the view input", _REMEDY)


def _check_functions(query: "exp.Query") -> None:
    from sqlglot import exp

    if query.find(exp.QueryTransform) is not None:
        raise refuse("runs a script", "use expressions of SQL instead of TRANSFORM ... USING")
    allowed = frozenset(_FUNCTIONS.split())
    for function in query.find_all(exp.Anonymous, exp.AnonymousAggFunc):
        if _name(function) not in allowed:
            raise _function(_name(function))


def _name(function: "exp.Func") -> str:
    return str(function.name or function.sql_name()).lower()


def _function(name: str) -> Exception:
    return refuse(f"calls {name[:100]}", "use functions of Spark that neither call Java nor read files")
