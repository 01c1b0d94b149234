"""File sinks, opened one by one as the queries of several checkpoints open them."""

import threading
from collections.abc import Sequence
from typing import Any

TAKEN = "cooperator: output taken"


_SINKS = "org.apache.spark.sql.execution.streaming.sinks"
_PARQUET = "org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat"


class FileSink:
    """Spark's file sink of one unit. ``spark`` is a session with the settings of the unit's checkpoint."""

    def __init__(self, spark: Any, path: str) -> None:
        self._spark = spark
        self._path = path
        self._jvm: Any = spark.sparkContext._jvm
        jvm = self._jvm
        self._sink = self._java(f"{_SINKS}.FileStreamSink")(
            spark._jsparkSession,
            path,
            self._java(_PARQUET)(),
            jvm.PythonUtils.toSeq([]),
            jvm.PythonUtils.toScalaMap({}),
        )

    def add(self, batch_id: int, rows: Any = None) -> None:
        """Commits a batch; without rows, too: the log must not have gaps."""
        if rows is not None:
            self._sink.addBatch(batch_id, self._spark.createDataFrame(rows)._jdf)
            return
        log_class = self._java(f"{_SINKS}.FileStreamSinkLog")
        none = self._jvm.scala.Option.empty()
        place = f"{self._path}/_spark_metadata"
        log = log_class(log_class.VERSION(), self._spark._jsparkSession, place, none)
        gateway = self._spark.sparkContext._gateway
        log.add(batch_id, gateway.new_array(self._java(f"{_SINKS}.SinkFileStatus"), 0))

    def _java(self, name: str) -> Any:
        found = self._jvm
        for part in name.split("."):
            found = getattr(found, part)
        return found


def open_sink(member: Any, path: str, query: str, committed: int = -1, newest: int = -1) -> FileSink:
    """Opens the sink of a checkpoint whose query has this id and progress. A suffix after a slash changes
    only the id: the same checkpoint after a reset. ``member`` is a Spark session."""
    session = member.newSession()
    settings = {
        "spark.sql.streaming.checkpointFileManagerClass": "dev.cooperator.spark.FencedCheckpointFileManager",
        "cooperator.output.query": query,
        "cooperator.output.owner": f"Connector of {query.partition('/')[0]}",
        "cooperator.output.committed": str(committed),
        "cooperator.output.newest": str(newest),
    }
    for name, value in settings.items():
        session.conf.set(name, value)
    return FileSink(session, path)


def opens(member: Any, path: str, query: str, committed: int = -1, newest: int = -1) -> bool:
    """Whether the sink opens; failures other than a refusal are raised."""
    try:
        open_sink(member, path, query, committed, newest)
    except Exception as error:
        if TAKEN not in str(error) and "cooperator: output ahead" not in str(error):
            raise
        return False
    return True


def race(member: Any, paths: Sequence[str]) -> list[str]:
    """One query per path opens its sink, all at once; returns the ids of those that succeeded."""
    barrier = threading.Barrier(len(paths))
    won: list[str] = []
    failed: list[Exception] = []

    def run(path: str, query: str) -> None:
        barrier.wait()
        try:
            if opens(member, path, query):
                won.append(query)
        except Exception as error:
            failed.append(error)

    threads = [
        threading.Thread(target=run, args=(path, f"query-{number}")) for number, path in enumerate(paths)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed, failed
    return won
