"""The demo's job as manifests, as a user would write them."""

import json
from pathlib import Path
from typing import Final

WORKER: Final = "lake"
MEMBERS: Final = 3
BUCKETS: Final = 8
PARTITIONS: Final = 8
SOURCE_TASKS: Final = 6
ARCHIVE_TASKS: Final = 8

_TRIGGER_MS: Final = 5_000
"""16 queries at 0.2 CPU-seconds a batch: a third of two cores."""
_ROTATE_MS: Final = 5_000
_BATCHES: Final = 10
"""The number of batches per bucket: the rows flow for a minute, long enough to watch a member die."""

SQL: Final = """\
WITH lines AS (SELECT from_json(value, 'path STRING, line STRING') AS row FROM input),
     named AS (SELECT row.path, row.line, element_at(split(row.path, '/'), -1) AS file FROM lines)
SELECT path,
       line,
       element_at(split(path, '/'), 2) AS package,
       CASE WHEN file RLIKE '[.](py|pyi|pyx|pxd)$' THEN 'python'
            WHEN file RLIKE '[.](c|h|cpp)$' THEN 'c'
            WHEN file RLIKE '[.](json|toml|cfg)$' THEN 'data'
            WHEN file RLIKE '[.](md|rst|txt)$' THEN 'prose'
            WHEN file RLIKE '[.]' THEN 'other'
            ELSE 'metadata' END AS language,
       size(filter(split(line, '[^A-Za-z0-9_]+'), word -> word <> '')) AS words,
       length(line) AS length
FROM named
"""


def manifests(sources: Path, files: int, lake: Path, hold_ms: int, members: int = MEMBERS) -> str:
    """Returns the Worker and its two Connectors as YAML. ``files`` counts the files in ``sources``."""
    sql = "".join(f"      {line}\n" for line in SQL.splitlines())
    return f"""\
apiVersion: cooperator.dev/v1alpha1
kind: Worker
metadata: {{name: {WORKER}}}
spec: {{replicas: {members}, runtime: spark, scheduledRebalanceMaxDelayMs: {hold_ms}}}
---
apiVersion: cooperator.dev/v1alpha1
kind: Connector
metadata: {{name: sources}}
spec:
  workerRef: {{name: {WORKER}}}
  class: files-to-kafka
  tasksMax: {SOURCE_TASKS}
  config:
    path: {json.dumps(str(sources))}
    topic: lines
    topic.partitions: {PARTITIONS}
    units: {BUCKETS}
    max.files.per.trigger: {max(1, files // (BUCKETS * _BATCHES))}
    trigger.interval.ms: {_TRIGGER_MS}
---
apiVersion: cooperator.dev/v1alpha1
kind: Connector
metadata: {{name: archive}}
spec:
  workerRef: {{name: {WORKER}}}
  class: kafka-to-files
  tasksMax: {ARCHIVE_TASKS}
  config:
    topics: lines
    path: {json.dumps(str(lake))}
    format: parquet
    partition.by: language
    rotate.interval.ms: {_ROTATE_MS}
    trigger.interval.ms: {_TRIGGER_MS}
    sql: |
{sql}"""
