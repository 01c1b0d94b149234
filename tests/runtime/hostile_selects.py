"""SELECTs that try to reach more than the view ``input``, and ordinary ones; some are made of parts."""

from itertools import product

TABLES = [
    *(
        "other",
        "spark_catalog.default.other",
        "default.other",
        "global_temp.other",
        "system.information_schema.tables",
    ),
    *(
        "text.`/etc/passwd`",
        "json.`/etc/passwd`",
        "csv.`file:///etc/passwd`",
        "binaryFile.`/x`",
        "parquet.`s3a://b/x`",
    ),
    *(
        "`other`",
        "`spark_catalog`.`default`.`other`",
        "`b\u0131naryFile`.`/x`",
        "`c\u017fv`.`/x`",
        "`\u0131nput`",
    ),
]
"""Names of relations that are not ``input``."""
PLACES = [
    "SELECT * FROM input, {}",
    "SELECT * FROM input, (LATERAL {})",
    "SELECT * FROM input JOIN (SELECT * FROM {}) x",
    "SELECT * FROM input WHERE id IN (SELECT id FROM {})",
    "SELECT * FROM input WHERE EXISTS (SELECT 1 FROM {} WHERE true)",
    "SELECT (SELECT max(id) FROM {}) AS a FROM input",
    "WITH a AS (SELECT * FROM {}) SELECT * FROM input, a",
    "WITH a AS (TABLE {}) SELECT * FROM input, a",
    "SELECT * FROM input UNION ALL TABLE {}",
    "SELECT * FROM input UNION ALL (SELECT * FROM {})",
    "FROM input |> JOIN {} ON true",
    "FROM input |> UNION ALL (TABLE {})",
    "SELECT * FROM input, LATERAL (SELECT * FROM {})",
    "SELECT * FROM input TABLESAMPLE (10 PERCENT), {} TABLESAMPLE (10 PERCENT)",
    "SELECT * FROM input, {} VERSION AS OF 1",
    "SELECT * FROM input, {} TIMESTAMP AS OF '2020-01-01'",
    "SELECT * FROM input, explode(TABLE({}))",
    "SELECT transform(array(1), x -> (SELECT max(id) FROM {})) FROM input",
    (
        "SELECT CASE WHEN id > 1 THEN (SELECT count(*) FROM {}) ELSE 0 END FROM input ORDER BY (SELECT "
        "1 FROM {})"
    ),
    "SELECT sum(id) FILTER (WHERE id IN (SELECT id FROM {})) FROM input",
    "SELECT sum(id) OVER (PARTITION BY (SELECT max(id) FROM {})) FROM input",
    "SELECT id FROM input GROUP BY id HAVING id > (SELECT max(id) FROM {})",
    "SELECT id FROM input LIMIT (SELECT 1 FROM {})",
    "SELECT * FROM input PIVOT (max(id) FOR id IN (1)), {}",
    "SELECT id FROM input LATERAL VIEW explode(array((SELECT 1 FROM {}))) t AS x",
]
"""Where a SELECT may read a relation."""
FROM_PARTS = [place.replace("{}", table) for place, table in product(PLACES, TABLES)]

OTHERS = [
    "SELECT * FROM IDENTIFIER('other'), input",
    "SELECT IDENTIFIER('reflect')('a', 'b') FROM input",
    "SELECT IDENTIFIER('id') FROM input",
    "SELECT :a FROM input",
    "SELECT ? FROM input",
    "SELECT reflect('java.lang.System', 'getenv') FROM input",
    "SELECT `reflect`('java.lang.System', 'getenv') FROM input",
    "SELECT system.builtin.upper('a') FROM input",
    "SELECT spark_catalog.default.f('a') FROM input",
    "SELECT java_method('a', 'b'), try_reflect('a', 'b') FROM input",
    "SELECT from_xml('a', 'b INT', map('rowValidationXSDPath', '/etc/passwd')) FROM input",
    "SELECT aes_encrypt('a', 'b') FROM input",
    "SELECT * FROM input, read_files('/etc/passwd')",
    "SELECT * FROM input, sql_keywords()",
    "SELECT * FROM input, range(100000000000)",
    "SELECT * FROM input, python_worker_logs()",
    "SELECT * FROM input, json_tuple('{}', 'a'), other",
    "SELECT TRANSFORM(id) USING 'cat' AS a FROM input",
    "\u017fELECT TRAN\u017fFORM(id) U\u017fING 'cat' AS a FROM input",
    "SELECT (SELECT max(a) FROM (MAP id USING r'cat' AS a FROM input)) FROM input",
    "FROM input REDUCE id USING 'cat' AS a",
    "WITH RECURSIVE a (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM a) SELECT * FROM a, input",
    "WITH b AS (SELECT * FROM a), a AS (SELECT * FROM input) SELECT * FROM b",
    "SELECT * FROM a, (WITH a AS (SELECT * FROM input) SELECT * FROM a) b",
    "WITH input2 AS (SELECT * FROM input) SELECT * FROM input2, input3",
    "SELECT * FROM input WITH (path = '/etc/passwd')",
    "FROM json.`/etc/passwd` SELECT *",
    "TABLE other",
    "VALUES (1)",
    "SELECT 1",
    "EXPLAIN SELECT * FROM input",
    "SHOW TABLES",
    "SET spark.sql.runSQLOnFiles = true",
    "SET VAR a = 1",
    "DECLARE a INT DEFAULT 1",
    "ADD JAR '/x.jar'",
    "CREATE TABLE a AS SELECT * FROM input",
    "CREATE TEMPORARY VIEW a USING text OPTIONS (path '/etc/passwd')",
    "INSERT INTO a SELECT * FROM input",
    "INSERT OVERWRITE LOCAL DIRECTORY '/x' USING text SELECT * FROM input",
    "FROM input INSERT INTO a SELECT *",
    "FROM input INSERT INTO a SELECT * INSERT INTO b SELECT *",
    "EXECUTE IMMEDIATE 'SELECT 1'",
    "BEGIN SELECT * FROM input; END",
    "CACHE TABLE a AS SELECT * FROM input",
    "CALL a.b()",
    "SELECT repeat(id, 2000000000) FROM input",
    "SELECT repeat(id, id) FROM input",
    "SELECT explode(sequence(1, id)) FROM input",
    "SELECT id RLIKE '(a+)+$' FROM input",
    "SELECT id REGEXP id FROM input",
    # What Spark's parser evaluates by itself is in no plan.
    "SELECT * FROM input, (VALUES ('" + "a" * 3_000 + "' RLIKE '(.*a){20}b'))",
    "SELECT * FROM input, (VALUES ('a' NOT REGEXP '(.*a){20}b'))",
    "SELECT * FROM input, (VALUES ('a' LIKE ALL ('%a%a%a%a%a')))",
    "SELECT * FROM VALUES ('a' RLIKE '(a+)+$') AS t (input), input",
    "SELECT xpath_string('<a><b/><b/></a>', '//a/b" + "/parent::a/b" * 25 + "') FROM input",
    "SELECT xpath(id, concat('//a', '//b')) FROM input",
    "SELECT aggregate(array(1), 'a', (x, y) -> repeat(x, 100)) FROM input",
    "FROM input |> SELECT reflect('a', 'b')",
    "FROM input |> EXTEND reflect('a', 'b') AS x",
    "FROM input |> AGGREGATE reflect('a', 'b') AS x",
    "SELECT * FROM input LATERAL VIEW reflect('a', 'b') t AS x",
    "SELECT * FROM input LATERAL VIEW stack(2000000000, 1) t AS x",
    "SELECT id FROM input SORT BY reflect('a', 'b')",
    "SELECT id FROM input CLUSTER BY reflect('a', 'b')",
    "SELECT id FROM input WINDOW w AS (PARTITION BY reflect('a', 'b'))",
    "SELECT id FROM input GROUP BY GROUPING SETS ((reflect('a', 'b')))",
    "SELECT * EXCEPT (id), reflect('a', 'b') FROM input",
    "SELECT /*+ BROADCAST(other) */ * FROM input, other",
    "SELECT * FROM input JOIN other USING (id)",
    "SELECT * FROM STREAM other, input",
    "SELECT * FROM STREAM(other), input",
]
HOSTILE = [*FROM_PARTS, *OTHERS]

DOCUMENTS_OF_XML = (
    '<!DOCTYPE a SYSTEM "{}/dtd"><a>1</a>',
    '<!DOCTYPE a [<!ENTITY x SYSTEM "{}/entity">]><a>&x;</a>',
    '<!DOCTYPE a [<!ENTITY % x SYSTEM "{}/parameter">%x;]><a>1</a>',
    '<!DOCTYPE a PUBLIC "-//X" "{}/public"><a>1</a>',
    '<!DOCTYPE a SYSTEM "file:///etc/passwd"><a>1</a>',
    '<a xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:schemaLocation="x {}/schema">1</a>',
    '<?xml-stylesheet href="{}/style"?><a>1</a>',
)
"""Each names something to open, in place of ``{}`` an address."""

ORDINARY = [
    "SELECT * FROM input",
    "FROM input SELECT id",
    "SELECT * FROM INPUT AS t (a)",
    "TABLE input",
    (
        "SELECT id AS a, -id, id + 1, id BETWEEN 1 AND 2, id IN (1, 2), id IS NULL, NOT (id = 1) FROM "
        "input WHERE id <> 1"
    ),
    (
        "WITH a (x) AS (SELECT id FROM input), b AS (SELECT x FROM a) SELECT x FROM b WHERE x IN "
        "(SELECT x FROM a)"
    ),
    "WITH input AS (SELECT id FROM input) SELECT * FROM input",
    "SELECT * FROM (WITH a AS (SELECT * FROM input) SELECT * FROM a) b",
    "SELECT CAST(id AS DECIMAL(10, 2)), row_number() OVER (ORDER BY id), id::string FROM input",
    (
        "SELECT sum(id) OVER (PARTITION BY id ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT "
        "ROW) FROM input"
    ),
    (
        "SELECT sum(id) OVER w FROM input WINDOW w AS (PARTITION BY id ORDER BY id RANGE BETWEEN 1 "
        "PRECEDING AND 1 FOLLOWING)"
    ),
    "SELECT get_json_object('{}', '$.a') AS a, from_json('{}', 'a INT').a FROM input t",
    "SELECT word FROM input LATERAL VIEW explode(split('a b', ' ')) t AS word",
    "SELECT word FROM input LATERAL VIEW OUTER posexplode(array(1)) t AS p, word",
    (
        "SELECT window(at, '1 minute').start, count(*) FROM (SELECT current_timestamp() AS at FROM "
        "input) GROUP BY window(at, '1 minute')"
    ),
    "SELECT transform(array(1), x -> x + 1) AS a, aggregate(array(1), 0, (x, y) -> x + y) AS b FROM input",
    (
        "SELECT CASE WHEN id > 1 THEN 'a' WHEN id > 2 THEN 'b' ELSE 'c' END, CASE id WHEN 1 THEN 2 END, "
        "if(id > 1, 1, 2) FROM input"
    ),
    (
        "SELECT count(*), count(DISTINCT id), sum(id) FILTER (WHERE id > 1) FROM input GROUP BY ALL "
        "HAVING count(*) > 1"
    ),
    (
        "SELECT id, count(*) FROM input GROUP BY GROUPING SETS ((id), ()) ORDER BY 1 DESC NULLS LAST "
        "LIMIT 10 OFFSET 1"
    ),
    "SELECT id, count(*) FROM input GROUP BY ROLLUP (id)",
    "SELECT id, count(*) FROM input GROUP BY id WITH CUBE",
    (
        "SELECT DISTINCT id FROM input UNION SELECT id FROM input INTERSECT SELECT id FROM input EXCEPT "
        "SELECT id FROM input"
    ),
    (
        "SELECT a.id FROM input a JOIN input b ON a.id = b.id LEFT JOIN input c USING (id) CROSS JOIN "
        "input d NATURAL JOIN input e"
    ),
    "SELECT a.id FROM input a LEFT SEMI JOIN input b ON a.id = b.id LEFT ANTI JOIN input c ON a.id = c.id",
    "SELECT /*+ BROADCAST(b), COALESCE(4) */ a.id FROM input a JOIN input b ON a.id = b.id",
    "SELECT * FROM input TABLESAMPLE (10 PERCENT)",
    "SELECT * FROM input, (VALUES (1, 'a'), (2, 'b')) AS t (x, y)",
    "SELECT * FROM input, range(10)",
    "SELECT * FROM input, LATERAL explode(array(id)) AS t (x)",
    "SELECT * FROM input, LATERAL (SELECT id + 1 AS x)",
    "SELECT (SELECT max(id) FROM input) AS a, EXISTS (SELECT 1 FROM input) AS b FROM input",
    "SELECT * FROM (SELECT id, id % 2 AS odd FROM input) PIVOT (sum(id) FOR odd IN (0, 1))",
    "SELECT * FROM (SELECT id AS a, id AS b FROM input) UNPIVOT (value FOR name IN (a, b))",
    (
        "FROM input |> WHERE id > 1 |> SELECT id |> EXTEND id + 1 AS x |> AGGREGATE sum(x) AS s GROUP "
        "BY id |> ORDER BY s |> LIMIT 3"
    ),
    "FROM input |> AS t |> SET id = id + 1 |> JOIN (SELECT id AS b FROM input) ON true |> DROP b",
    "SELECT * EXCEPT (id) FROM (SELECT id, 1 AS a FROM input)",
    (
        "SELECT id LIKE 'a%', id ILIKE 'a', id LIKE ANY ('a', 'b'), id NOT LIKE ALL ('a', 'b'), id "
        "RLIKE 'a|b' FROM input"
    ),
    (
        "SELECT trim(BOTH ' ' FROM 'a'), substring('a' FROM 1 FOR 2), position('a' IN 'b'), overlay('a' "
        "PLACING 'b' FROM 1), extract(YEAR FROM DATE '2020-01-01') FROM input"
    ),
    (
        "SELECT DATE '2020-01-01' + INTERVAL 1 DAY, TIMESTAMP '2020-01-01 00:00:00', X'1F', 1.5, 1e3, "
        "'a' || 'b', 1L, 2S, 3Y FROM input"
    ),
    "SELECT array(1, 2)[0], map('a', 1)['a'], struct(1 AS a).a, named_struct('a', 1).a, (1, 2) FROM input",
    (
        "SELECT timestampadd(HOUR, 1, TIMESTAMP '2020-01-01'), timestampdiff(DAY, DATE '2020-01-01', "
        "DATE '2020-01-02') FROM input"
    ),
    "SELECT current_date, current_timestamp, current_user, localtimestamp() FROM input",
    (
        "SELECT first(id IGNORE NULLS), any_value(id), last(id), max_by(id, id), percentile_cont(0.5) "
        "WITHIN GROUP (ORDER BY id), listagg(id, ',') FROM input"
    ),
    (
        "SELECT 'a' COLLATE UTF8_BINARY, id <=> 1, id & 1, id | 1, id ^ 1, ~id, id DIV 2, id << 1, id "
        ">> 1 FROM input"
    ),
    "SELECT id FROM input DISTRIBUTE BY id SORT BY id",
    "SELECT id AS table, `id` AS `a b` FROM input -- the end",
    "SELECT parse_json('{\"a\": 1}'):a FROM input",
    "SELECT e.* FROM (SELECT struct(id) AS e FROM input)",
    "SELECT id + 1 AS a, a + 1 AS b FROM input",
]
