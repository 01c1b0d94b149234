"""SELECTs whose short text stands for a query, a value or a number of rows without bounds; and ordinary ones
that look alike."""


def chain(first: str, each: str, levels: int, last: str = "SELECT * FROM {}") -> str:
    """A WITH of which each member reads the one before."""
    members = [f"a0 AS ({first})"]
    members += [f"a{level} AS ({each.replace('{}', f'a{level - 1}')})" for level in range(1, levels)]
    return f"WITH {', '.join(members)} {last.replace('{}', f'a{levels - 1}')}"


def nested(first: str, each: str, levels: int) -> str:
    for _ in range(levels):
        first = each.replace("{}", first)
    return first


def _value(expression: str) -> str:
    return f"SELECT {expression} AS s FROM input"


def _merge(step: str, zero: str = "v") -> str:
    return _value(f"aggregate(a, {zero}, (x, y) -> {step})")


def _pivot(aggregate: str, aggregates: int, values: int) -> str:
    aliased = ", ".join(f"{aggregate} a{number}" for number in range(aggregates))
    return f"SELECT * FROM input PIVOT ({aliased} FOR id IN ({', '.join(map(str, range(values)))}))"


def _crossed(elements: str) -> str:
    return f"WITH e AS (SELECT explode({elements}) AS x FROM input) SELECT 1 AS a FROM e a, e b, e c, e d"


_HASH = "hash(" + ", ".join(["v"] * 700) + ")"
_WINDOWS = ", ".join(["max(v) OVER w"] * 500)
_NUMBERS = ", ".join(f"({number})" for number in range(200))
_MANY = "sequence(1, 9999)"
PLANS = [
    "SELECT count(*) FROM input GROUP BY " + ", ".join(["CUBE(a, b)"] * 12),
    "SELECT count(*) FROM input GROUP BY " + ", ".join(f"a{n}" for n in range(24)) + " WITH CUBE",
    "SELECT count(*) FROM input GROUP BY " + ", ".join(["ROLLUP(a, b, c, d)"] * 8),
    chain("SELECT * FROM input", "SELECT * FROM {} UNION ALL SELECT * FROM {}", 24),
    chain("SELECT * FROM input", "SELECT a.* FROM {} a JOIN {} b USING (id)", 24),
    chain("SELECT * FROM input", "SELECT * FROM {} WHERE id IN (SELECT id FROM {})", 24),
    chain("SELECT * FROM input", "SELECT *, (SELECT max(id) FROM {}) AS m FROM {}", 24),
    nested("SELECT v FROM input", "SELECT v || v AS v FROM ({})", 26) + " WHERE v > 'a'",
    chain("SELECT id AS v FROM input", "SELECT v + v AS v FROM {}", 60, "SELECT v FROM {} WHERE v > 0"),
    "FROM input " + "|> EXTEND v || v AS w |> SELECT w AS v " * 26,
    _value(nested("v", "CASE {} WHEN 1 THEN 2 WHEN 2 THEN 3 WHEN 3 THEN 4 END", 14)),
    _value(nested("v", "({} BETWEEN 1 AND 2)", 28)),
    _value(nested("v", "nullif({}, 1)", 28)),
    _value(nested("v", "right({}, 5)", 28)),
    _value(nested("true", "exists(a, x -> {})", 5)),
    # A star is as many columns as there are, and not one.
    nested("SELECT * FROM input", "SELECT *, *, * FROM ({})", 12),
    nested("SELECT * FROM input", "SELECT s.*, s.* FROM (SELECT struct(*) AS s FROM ({}))", 14),
    _pivot("max(v)", 700, 1_500),
    _pivot("first(v)", 700, 1_500),
    "SELECT * FROM input UNPIVOT (n FOR k IN (" + ", ".join(["a"] * 6_000) + "))",
    # A window's name, and a name or a number in GROUP BY, stand for an expression.
    f"SELECT {_WINDOWS} FROM input WINDOW w AS (PARTITION BY {', '.join(['id'] * 500)})",
    *(f"SELECT {_HASH} AS q, count(*) FROM input GROUP BY {', '.join([key] * 700)}" for key in ("q", "1")),
    chain(
        "SELECT id AS v FROM input",
        "SELECT (SELECT hash(v, v)) AS v FROM {}",
        60,
        "SELECT * FROM {} WHERE v > 0",
    ),
    # Spark names a column after the text of its expression.
    nested("SELECT hash('" + "x" * 15_000 + "', *), 1 FROM input", "SELECT hash(*), hash(*) FROM ({})", 10),
    "SELECT /*+ REPARTITION(200000) */ * FROM input",
    "SELECT /*+ REBALANCE(2000000000, id) */ * FROM input",
    "SELECT /*+ REPARTITION_BY_RANGE(2000000000, id) */ * FROM input",
]
VALUES = [
    chain("SELECT v FROM input", "SELECT concat(v, v) FROM {} t (v)", 30, "SELECT * FROM {} t (v)"),
    "SELECT v || v AS b0, "
    + ", ".join(f"b{n - 1} || b{n - 1} AS b{n}" for n in range(1, 27))
    + " FROM input",
    "FROM input " + "|> SET v = v || v " * 26,
    nested("SELECT v AS s FROM input", "SELECT concat(`\u017f`, `\u017f`) AS s FROM ({})", 26),
    *map(
        _merge,
        [
            "x || x",
            "concat_ws(x, x, y)",
            "concat(x, element_at(filter(array(x), z -> true), 1))",
            "element_at(transform(array(1), z -> x || x), 1)",
            "replace(x, 'a', 'aa')",
            "regexp_replace(x, '', 'aa')",
            "regexp_replace(x, '(.)', '$1$1')",
            "decode(encode(x, 'UTF-16'), 'ISO-8859-1')",
            "to_json(struct(x))",
            "greatest(concat(x, x), repeat('x', 100))",
            "repeat(x, 10)",
        ],
    ),
    _merge("coalesce(concat(x, x), sequence(1, 1000))", "array(v)"),
    _merge("flatten(array(x, x))", "array(v)"),
    _merge("flatten(transform(x, z -> x))", "array(v)"),
    _merge("map_zip_with(x, x, (k, p, q) -> p || q)", "map(v, v)"),
    _merge("struct(x.p || x.q AS p, x.p || x.q AS q)", "struct(v AS p, v AS q)"),
    _merge("struct(x.p || x['p'] AS p)", "struct(v AS p)"),
    "SELECT aggregate(a, v, (X, y) -> x || X) AS s FROM input",
    "SELECT reduce(a, v, (x, y) -> x || x) AS s FROM input",
    _value(nested("v", "replace({}, 'a', repeat('aa', 3000))", 3)),
    _value(nested("v", "replace({}, 'a', v)", 6)),
    _value(nested("v", "array_join(split({}, ''), ',,,,,,,,')", 8)),
    _value(nested("v", "concat_ws(',,,,,,,,', split({}, ''))", 8)),
    _value(nested("v", "format_string('%1$s%1$s%1$s%1$s', {})", 10)),
    _value(nested("v", "hex({})", 20)),
    _value(nested("v", "to_json(struct({}))", 15)),
    _value(nested("v", "transform(a, x -> {})", 5)),
    _value(nested("v", "array_repeat({}, 100)", 4)),
    _value("transform(sequence(1, 5000), x -> transform(sequence(1, 5000), y -> v))"),
    nested(
        "SELECT * FROM input", "SELECT " + ", ".join(f"struct(*) AS s{n}" for n in range(8)) + " FROM ({})", 7
    ),
    nested("SELECT v FROM input", "SELECT * EXCEPT (z) FROM (SELECT v || v AS v, 1 AS z FROM ({}))", 15),
    nested("SELECT v FROM input", "SELECT s.* FROM (SELECT 1 AS v, struct(v || v AS v) AS s FROM ({}))", 15),
    "SELECT 1 AS v, replace(v, 'a', v) AS s FROM input",
    nested(
        "SELECT v, 1 AS id FROM input",
        "SELECT concat_ws('', *) AS v, 1 AS id FROM ({}) PIVOT (max(v) FOR id IN ("
        + ", ".join(f"1 AS c{n}" for n in range(200))
        + "))",
        2,
    ),
    nested("SELECT v FROM input", "SELECT collect_list(v) AS v FROM ({}), range(9999)", 2),
    "SELECT listagg(v) OVER () AS s FROM input, range(9999), range(50)",
    _value("repeat(repeat(v, 1000), 1000)"),
    _value("transform(a, x -> repeat(v, 1000))"),
    _value("md5(repeat(repeat(v, 10000), 10000))"),
    _value("length(repeat(space(10000), 10000))"),
    _value("repeat(lpad('', 10000, 'x'), 10000)"),
    _value("array_repeat(randstr(10000, 1), 10000)"),
    _value(nested("v", "array_join(transform(split({}, ''), x -> sha2(x, 512)), '')", 3)),
    _value(nested("v", "concat_ws('', transform(split({}, ''), x -> 'one hundred characters'))", 4)),
    _value("transform(sequence(1, 5000), x -> transform(sequence(1, 5000), y -> 1))"),
    _value("explode(array_repeat(array_repeat(v, 1000), 1000))"),
    _value("replace(v, 'a', v)"),
    _value("replace(v, v, v)"),
    _value("regexp_replace(v, '', v)"),
    _value("regexp_replace(v, '(?=(.*))', '$1')"),
    _value("regexp_extract_all(v, '(?=(.*))')"),
    _value("array_join(split(v, ''), v)"),
    _value("array_join(split(v, ''), ',', v)"),
    _value("concat_ws(v, split(v, ''))"),
    _value("to_json(from_json(v, 'ARRAY<STRING>'), map('pretty', 'true'))"),
    _merge("replace(x, 'a', y)", "''"),
]
ROWS = [
    nested("SELECT v FROM input", "SELECT explode(array_repeat(v, 1000)) AS v FROM ({})", 3),
    "SELECT 1 AS a FROM input, range(9999) a, range(9999) b, range(9999) c",
    "SELECT 1 AS a FROM input, range(0, 9999) a, range(-9999, 0) b, range(9999) c",
    f"SELECT 1 AS a FROM input, explode({_MANY}) a, LATERAL explode({_MANY}) b",
    "SELECT 1 AS a FROM input" + "".join(f" LATERAL VIEW explode({_MANY}) t{n} AS x{n}" for n in range(3)),
    "SELECT 1 AS a FROM input"
    + "".join(f" LATERAL VIEW stack(1000, {', '.join('1' * 1000)}) t{n} AS x{n}" for n in range(3)),
    "SELECT 1 AS a FROM input" + "".join(f", (VALUES {_NUMBERS}) t{n}" for n in range(4)),
    chain("SELECT v FROM input, range(100)", "SELECT v FROM {}, range(100)", 5),
    # Elements that are written in a text, which is read several times.
    _crossed("split('" + "a," * 4_500 + "', ',')"),
    _crossed("from_json('[" + "1," * 4_500 + "1]', 'array<int>')"),
    _crossed("from_json('[" + "1," * 400 + "1]', 'array<int>')"),
    _crossed("split(repeat(v, 10000), '')"),
    _crossed("aggregate(array(1), sequence(1, 500), (x, y) -> x)"),
    _crossed("aggregate(array(1), array(1), (x, y) -> x, x -> array_repeat(1, 500))"),
    "WITH e AS (SELECT explode(array(*)) AS x FROM (SELECT "
    + ", ".join(["1"] * 200)
    + " FROM input)) SELECT 1 AS a FROM e a, e b, e c, e d",
    "SELECT 1 AS a FROM (SELECT collect_list(v) AS l FROM input, range(200))"
    + "".join(f" LATERAL VIEW explode(l) t{n} AS x{n}" for n in range(3)),
    nested(
        "SELECT id AS a, id AS b, id AS c FROM input",
        "SELECT grouping_id() AS a, a AS b, b AS c FROM ({}) GROUP BY CUBE(a, b, c)",
        8,
    ),
    "SELECT * FROM input ORDER BY v LIMIT 1000000000",
    "SELECT * FROM input ORDER BY v LIMIT 1000 * 1000000",
    "SELECT * FROM input ORDER BY v LIMIT 1 OFFSET 1000000000",
    "SELECT * FROM input ORDER BY v LIMIT CAST('1000000000' AS INT)",
    "SELECT * FROM input TABLESAMPLE (1000000000 ROWS)",
]
GROWING = [*PLANS, *VALUES, *ROWS]

ORDINARY = [
    (
        "SELECT max(v) OVER w AS a, sum(id) OVER w AS b, lag(v) OVER w AS c FROM input "
        "WINDOW w AS (PARTITION BY k, id ORDER BY at)"
    ),
    _value("explode(transform(sequence(1, 1500), i -> i * 2))"),
    "SELECT k, collect_list(struct(*)) AS l FROM (SELECT k, explode(a) AS x, v FROM input) GROUP BY k",
    (
        "SELECT c.*, (SELECT max(i.v) FROM input i WHERE i.id = c.id) AS m "
        "FROM (SELECT *, upper(v) AS u FROM input) c"
    ),
    "SELECT date_trunc('DAY', at) AS d, k, count(*) AS n FROM input GROUP BY d, 2 ORDER BY 1, 3 DESC",
    "SELECT *, id AS k FROM (SELECT *, v AS w FROM (SELECT *, 1 AS z FROM input WHERE id > 0))",
    "SELECT * EXCEPT (v), to_json(struct(*)) AS value FROM (SELECT *, struct(*) AS before FROM input)",
    _value(
        "transform(from_json(v, 'ARRAY<STRUCT<"
        + ", ".join(f"f{n}: STRING" for n in range(100))
        + ">>'), x -> x.f1)"
    ),
    "SELECT * FROM input PIVOT (sum(id) AS s, max(v) AS m FOR month IN ("
    + ", ".join(map(str, range(1, 13)))
    + "))",
    "SELECT * FROM input PIVOT (sum(id) FOR day IN (" + ", ".join(map(str, range(1, 367))) + "))",
    "SELECT * FROM input UNPIVOT (n FOR k IN (" + ", ".join(f"c{n}" for n in range(100)) + "))",
    "SELECT explode(split('red,green', ',')) AS c FROM input, (VALUES ('a' RLIKE 'a'), (true)) AS t (b)",
    _merge("concat_ws(', ', x, y)", "''"),
    _merge("x || coalesce(element_at(filter(y.tags, t -> t.k = 'a'), 1).v, '')", "''"),
    _merge("struct(x.n + 1 AS n, x.s + y.price AS s)", "struct(0 AS n, 0D AS s)"),
    _merge("CASE WHEN x IS NULL OR y > x THEN y ELSE x END", "CAST(NULL AS INT)"),
    _merge("named_struct('lo', least(x.lo, y), 'hi', greatest(x.hi, y))", "named_struct('lo', 1, 'hi', 2)"),
    _value("transform(orders, o -> transform(o.items, i -> struct(o.id, i.sku, currency)))"),
    _value("transform(o, o -> transform(o.items, i -> transform(i.tags, t -> upper(t))))"),
    _value("repeat(v, 10000)"),
    _value("replace(replace('{a} and {b}', '{a}', v), '{b}', md5(v))"),
    _value("regexp_replace(v, '(\\\\d)(?=(\\\\d{3})+$)', '$1,')"),
    _value("concat_ws(' and ', v, v, v)"),
    _value("concat_ws(', ', transform(split(v, ','), x -> concat(v, x)))"),
    _value('from_json(v, schema_of_json(\'{"a": 1, "b": [{"c": 2}]}\')).b'),
    _value(
        "to_json(transform(from_json(CAST(v AS STRING), 'items ARRAY<STRUCT<"
        + ", ".join(f"field{n}: STRING" for n in range(30))
        + ">>').items, i -> struct("
        + ", ".join(f"i.field{n}" for n in range(30))
        + ", v)))"
    ),
    _value("to_json(struct(" + ", ".join(f"CAST(a{n} AS STRING) AS a{n}" for n in range(100)) + "))"),
    _value("array_repeat(CAST(NULL AS STRING), 1000)"),
    _value("transform(sequence(1, 100), x -> concat('item-', x))"),
    _value("lpad(CAST(id AS STRING), 10000, '0')"),
    _value("to_json(struct(v, id), map('ignoreNullFields', 'false'))"),
    _value("array_join(transform(split(v, ','), x -> trim(x)), ', ')"),
    _value("replace(" * 15 + "v" + "".join(f", '{letter}', ' ')" for letter in "abcdefghijklmno")),
    _value("regexp_replace(" * 6 + "v" + "".join(f", '{letter}+', ' ')" for letter in "abcdef")),
    "SELECT "
    + ", ".join(
        f"CASE WHEN a{n} > 1 AND b{n} < 4 THEN coalesce(c{n}, 'x') ELSE concat(d{n}, '-', e{n}) END AS f{n}"
        for n in range(100)
    )
    + " FROM input",
    chain(
        "SELECT * FROM input",
        "SELECT *, CASE WHEN x > 1 THEN concat(k, '-', v) ELSE k END AS z, x + y AS w FROM {} WHERE x > 0",
        12,
    ),
    chain(
        "SELECT * FROM input",
        "SELECT CASE WHEN x > 1 THEN coalesce(k, v) ELSE k END AS k, v, x + y AS x, y FROM {} WHERE x > 0",
        8,
    ),
    (
        "SELECT o.id, i.sku, t FROM input LATERAL VIEW explode(orders) x AS o "
        "LATERAL VIEW explode(o.items) y AS i LATERAL VIEW explode(i.tags) z AS t"
    ),
    "SELECT window.start, count(*) AS n FROM input GROUP BY window(at, '10 minutes', '1 minute'), k",
    "SELECT to_json(struct(*)) AS value FROM input ORDER BY id LIMIT 1000",
    "SELECT a, b, count(*) AS n FROM input GROUP BY GROUPING SETS ((a, b), (a), CUBE(a, b, c))",
    "SELECT a, count(*) AS n FROM input GROUP BY CUBE(a, b, c, d)",
    "SELECT v LIKE '%a%b%' AND v NOT LIKE 'a_%' AND v ILIKE '%x%' AS a FROM input",
    "SELECT from_csv(v, 'a INT', map('sep', ';')).a, to_csv(struct(id), map('sep', ';')) FROM input",
    "SELECT struct(a.*, 1) AS s, try_cast(id AS INT) AS i, id IS NOT DISTINCT FROM 2 AS d FROM input a",
]
