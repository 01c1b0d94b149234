"""Units that run on a Spark Connect server: the query lives there, and outlives the member that started it.

A query is found again by its server session. Each attempt records the id of its session, beside the unit's
checkpoint and under the name of its claim, before it starts anything; the next attempt ends the queries of
all recorded sessions. Nothing starts as long as the server does not answer. If a query is missed
nevertheless, the fence keeps it from committing: the server's file manager checks it.
"""

import logging
import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from cooperator.connectors.base import UnitContext
from cooperator.connectors.fence import Fence, claim
from cooperator.connectors.options import OptionError, Problem
from cooperator.connectors.places import Place, names, put
from cooperator.connectors.query import QueryStarts, SparkQuery
from cooperator.connectors.server import Server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

_RECORDS = "sessions"
_GONE = ("SESSION_CLOSED", "SESSION_NOT_FOUND", "SESSION_CHANGED")
_NOT_THERE = ("ClassNotFoundException", "FencedCheckpointFileManager")


Prepare = Callable[["SparkSession", UnitContext, Fence], QueryStarts]
"""Returns how the unit's query is started in the session."""


def open_remotely(prepare: Prepare, context: UnitContext, server: Server) -> SparkQuery:
    """Runs on ``server`` the query that ``prepare`` makes in the session given to it."""
    fence = claim(context.checkpoint, context.epoch, context.attempt, context.owner)
    context = replace(context, fence=fence)
    records = context.checkpoint / _RECORDS
    for name in names(records):
        end_session(server, (records / name).read_text())
        (records / name).unlink(missing_ok=True)
    session_id = str(uuid.uuid4())
    record = records / fence.claim
    put(record, session_id.encode())
    try:
        return _started(prepare, context, fence, server, session_id, record)
    except BaseException:
        context.closing.close()
        raise


def _started(
    prepare: Prepare,
    context: UnitContext,
    fence: Fence,
    server: Server,
    session_id: str,
    record: Place,
) -> SparkQuery:
    remote: Any = server.session(session_id)
    session: SparkSession = remote
    for name, value in server.conf.items():
        session.conf.set(name, value)

    def end() -> None:
        """Ends the session by its id: this process's knowledge of the query does not matter."""
        end_session(server, session_id)
        remote.client.close()
        record.unlink(missing_ok=True)

    try:
        return SparkQuery(prepare(session, context, fence), context, None, end)
    except Exception as error:
        if all(text in str(error) for text in _NOT_THERE):
            raise OptionError(
                [
                    Problem(
                        "spec.spark.conf[spark.master]",
                        server.url,
                        "the server lacks cooperator's jar, which fences members",
                        "add the jars that `cooperator packages` prints to its class path "
                        "(--driver-class-path)",
                    )
                ],
                passing=True,
            ) from error
        raise


def end_session(server: Server, session_id: str) -> None:
    """Returns when no query of the session runs any more, and the session is over.

    Raises when that is not known: the server does not answer.
    """
    session: Any = None
    try:
        session = server.session(session_id)
        for query in session.streams.active:
            log.info("ending %s, which another attempt started on %s", query.name, server.url)
            query.stop()
            query.awaitTermination()
    except Exception as error:
        if type(error).__name__ == "StreamingQueryException":
            return  # The query had failed, so it has ended as well.
        if not any(text in str(error) for text in _GONE):
            raise
    finally:
        if session is not None:
            session.stop()
