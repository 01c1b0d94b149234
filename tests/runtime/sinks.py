"""File sinks, opened one by one as the queries of several checkpoints open them."""

import threading
from collections.abc import Sequence
from typing import Any

from cooperator.connectors.file_sink import FileSink

TAKEN = "cooperator: output taken"


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
    return FileSink(session, "parquet", path, (), {})


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
