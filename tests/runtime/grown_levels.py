"""Levels of a SELECT: each reads the columns ``id``, ``v`` (a text) and ``a`` (texts), and makes them."""

from typing import Final

_EXPLODED: Final = "SELECT id, v, a FROM ({}) LATERAL VIEW %s"
LEVELS: Final = (
    "SELECT id, v || v AS v, a FROM ({})",
    "SELECT id, w AS v, array(w, w) AS a FROM (SELECT *, v || v AS u, u || u AS w FROM ({}))",
    "FROM ({}) |> EXTEND v || v AS w |> SELECT id, w AS v, a",
    "SELECT * EXCEPT (v), v || v AS v FROM ({})",
    # Rows that are made of one.
    *(
        _EXPLODED % generator
        for generator in (
            "explode(a) t AS x",
            "explode(sequence(1, 7)) t AS x",
            "explode(split(repeat(v || ',', 4), ',')) t AS x",
            "explode(from_json('[1,2,3,4,5]', 'ARRAY<INT>')) t AS x",
            "explode(map_zip_with(map('a', 1), map('b', 2, 'c', 3), (k, x, y) -> 1)) t AS x, y",
            "posexplode(flatten(array_repeat(a, 5))) t AS x, y",
            "inline(arrays_zip(a, a)) t AS x, y",
            "stack(3, 1, 2, 3) t AS x",
        )
    ),
    "SELECT x AS id, y AS v, a FROM (SELECT posexplode(a) AS (x, y), a FROM ({}))",
    "SELECT 1 AS id, explode(array(*)) AS v, array('x') AS a FROM (SELECT v, v AS w, 'x' FROM ({}))",
    "SELECT t.* FROM ({}) t, range(3)",
    "SELECT k AS id, v, a FROM ({}), VALUES (1), (2), (3) AS t (k)",
    "SELECT 1 AS id, n AS v, array(k) AS a FROM (SELECT v, v || v w FROM ({})) UNPIVOT (n FOR k IN (v, w))",
    "SELECT id, v, a FROM ({}) UNION ALL SELECT id, concat(v, v, v), a FROM input",
    "SELECT y.id, x.v, y.a FROM ({}) x JOIN (SELECT t.* FROM input t, range(3)) y",
    # Groups and windows of what is made.
    "SELECT max(id) AS id, concat_ws(',', collect_list(v)) AS v, collect_list(v) AS a FROM ({})",
    "SELECT id, max(v) AS v, array_agg(v) AS a FROM ({}) GROUP BY CUBE(id, v)",
    (
        "SELECT g AS id, v, a FROM (SELECT v, any_value(a) AS a, grouping_id() AS g FROM ({}) "
        "GROUP BY GROUPING SETS ((id, v), (v), ROLLUP(id, v)))"
    ),
    "SELECT id, listagg(v) OVER w AS v, collect_list(v) OVER w AS a FROM ({}) WINDOW w AS (PARTITION BY id)",
    # Fields, names and stars.
    "SELECT id, w AS v, a FROM (SELECT id, 'x' AS v, v || v AS w, a FROM ({}))",
    "SELECT s.* FROM (SELECT 0 AS v, 0 AS a, struct(id, v || v AS v, array(v, v) AS a) AS s FROM ({}))",
    "SELECT t.s.* FROM (SELECT 0 AS v, named_struct('id', id, 'v', concat(v, v), 'a', a) AS s FROM ({})) t",
    "SELECT 1 AS id, to_json(struct(*)) AS v, array('x') AS a FROM ({})",
    "SELECT 1 AS id, to_json(struct(*)) AS v, array('x') AS a FROM (SELECT *, * FROM ({}))",
    "SELECT 1 AS id, to_json(struct(*)) AS v, array('x') AS a FROM (SELECT hash(*), concat(v, v) FROM ({}))",
    "SELECT 1 AS id, to_json(struct(t.*)) AS v, array('x') AS a FROM ({}) t (a_long_name, a_longer_name, x)",
    (
        "SELECT 1 AS id, to_json(struct(*)) AS v, array('x') AS a FROM (SELECT id, v FROM ({})) "
        "PIVOT (max(v) AS m, first(v) FOR id IN (1 AS b, 1 AS c, 1 AS d, 1 AS e, 1 AS f, 1 AS g, 1 AS h))"
    ),
    # Subqueries that read what is around them.
    "SELECT id, (SELECT v || v) AS v, (SELECT array(v, v)) AS a FROM ({})",
    "SELECT t.id, l.v, l.a FROM ({}) t, LATERAL (SELECT t.v || t.v AS v, array(t.v, t.v) AS a) l",
    "SELECT t.id, l.v, t.a FROM ({}) t, LATERAL (SELECT explode(array(t.v, t.v, 'x')) AS v) l",
    "SELECT t.id, to_json(l.s) AS v, l.s.a FROM ({}) t, LATERAL (SELECT struct(t.*) AS s) l",
    "SELECT id, (SELECT max(i.v) FROM input i) AS v, a FROM (SELECT 1 AS id, array('x') AS a FROM ({}))",
    # Loops.
    "SELECT id, v, aggregate(sequence(1, 5), a, (x, y) -> array_append(x, 'z')) AS a FROM ({})",
    "SELECT id, v, reduce(array(1), a, (x, y) -> x, x -> flatten(array_repeat(x, 3))) AS a FROM ({})",
    "SELECT id, v, transform(sequence(1, 6), x -> v) AS a FROM ({})",
    "SELECT id, v, filter(flatten(transform(a, x -> array(x, x))), x -> true) AS a FROM ({})",
)
