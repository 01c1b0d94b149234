"""The types of columns, as the database's catalog describes them."""

from typing import Final

TYPE_OF_ATTRIBUTE: Final = """(
WITH RECURSIVE step (depth, type, modifier, suffix) AS (
  SELECT 0, atttypid, atttypmod, ''
  UNION ALL
  SELECT depth + 1, CASE typtype WHEN 'd' THEN typbasetype ELSE typelem END,
    CASE typtype WHEN 'd' THEN typtypmod ELSE modifier END, CASE typtype WHEN 'd' THEN suffix ELSE '[]' END
  FROM step JOIN pg_type ON pg_type.oid = type
  WHERE typtype = 'd'
  OR (suffix = '' AND EXISTS (SELECT FROM pg_type AS element WHERE element.typarray = type))
)
SELECT format_type(type, modifier) || suffix FROM step ORDER BY depth DESC LIMIT 1)"""
"""The name of the type of a row of ``pg_attribute``, with its modifiers.

Values of a domain are those of its base type, which may be another domain; the same holds for elements of
arrays.
"""
