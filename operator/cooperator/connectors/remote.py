"""Units that run on a Spark Connect server: the query lives there, and outlives the member that started it.

A query is found again by its server session. Each attempt records the id of its session, beside the unit's
checkpoint and under the name of its claim, before it starts anything; the next attempt ends the queries of
all recorded sessions. Nothing starts as long as the server does not answer. If a query is missed
nevertheless, the fence keeps it from committing: the server's file manager checks it.
"""

import logging
import os
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote

from cooperator.connectors.base import UnitContext
from cooperator.connectors.fence import claim
from cooperator.connectors.options import OptionError, Problem
from cooperator.connectors.places import Place, names, put

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from cooperator.connectors.spark import SparkConnector, SparkQuery

log = logging.getLogger(__name__)

SCHEME = "sc://"
_RECORDS = "sessions"
_GONE = ("SESSION_CLOSED", "SESSION_NOT_FOUND", "SESSION_CHANGED")
_NOT_THERE = ("ClassNotFoundException", "FencedCheckpointFileManager")


@dataclass(frozen=True, slots=True)
class Server:
    """A Spark Connect server.

    ``url`` is ``sc://host:port`` with pyspark's optional parameters. ``user`` is the common user by which all
    members of a Worker find each other's sessions. ``conf`` is set in each session.
    """

    url: str
    user: str
    conf: Mapping[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, conf: Mapping[str, str], group_id: str) -> "Server | None":
        """Returns the server that ``spark.master`` names, if it is one.

        Raises ``OptionError`` for settings that only the server can have.
        """
        url = conf.get("spark.master", "")
        if not url.startswith(SCHEME):
            return None
        problem = f"is a setting of the server with spark.master {SCHEME}"
        remedy = "set it where the server is started, and remove it here"
        problems = [
            Problem(f"spec.spark.conf[{name}]", "…", problem, remedy)
            for name in sorted(conf)
            if name != "spark.master" and not name.startswith("spark.sql.")
        ]
        if problems:
            raise OptionError(problems)
        return cls(url, f"cooperator-{group_id}", {k: v for k, v in conf.items() if k != "spark.master"})

    def session(self, session_id: str) -> "SparkSession":
        """Returns the session of that id, which is created if there was none.

        An error means that the server does not answer, or that the session existed and has ended.
        """
        try:
            from pyspark.sql.connect.client.retries import DefaultPolicy
            from pyspark.sql.connect.session import SparkSession as RemoteSession
        except ImportError as error:
            remedy = "pip install 'cooperator[spark-connect]'"
            raise OptionError(
                [
                    Problem(
                        "spec.spark.conf[spark.master]",
                        self.url,
                        f"requires packages that are not installed: {error}",
                        remedy,
                    )
                ]
            ) from None
        # pyspark's functions depend on it: all queries of this process run on the server.
        os.environ["SPARK_CONNECT_MODE_ENABLED"] = "1"
        base = self.url.rstrip(";") if "/;" in self.url else f"{self.url.rstrip('/')}/"
        whose = f";user_id={quote(self.user)};session_id={session_id}"
        found = RemoteSession.builder.remote(f"{base}{whose}").create()
        # Retries must not last as long as a server's restart, or units could not be stopped in time.
        found.client.set_retry_policies([DefaultPolicy(max_retries=4, max_backoff=2_000)])
        return cast("SparkSession", found)


def open_remotely(
    connector: "SparkConnector[Any]", options: Any, context: UnitContext, server: Server
) -> "SparkQuery":
    if not connector.runs_remotely(options):
        reason = f"writes from the member, but {server.url} runs queries elsewhere"
        remedy = "use a Worker whose spark.master is local, spark:// or k8s://, or the class spark"
        raise OptionError([Problem("connector.class", context.task.connector, reason, remedy)])
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
        return _started(connector, options, context, server, session_id, record)
    except BaseException:
        context.closing.close()
        raise


def _started(
    connector: "SparkConnector[Any]",
    options: Any,
    context: UnitContext,
    server: Server,
    session_id: str,
    record: Place,
) -> "SparkQuery":
    from cooperator.connectors.spark import SparkQuery, guard_session, start_query

    remote: Any = server.session(session_id)
    session: SparkSession = remote
    for name, value in server.conf.items():
        session.conf.set(name, value)
    assert context.fence is not None
    guard_session(session, context.fence, context)
    stream = connector.reader(session, options, context)
    try:
        query = start_query(connector, stream, options, context)
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
                ]
            ) from error
        raise

    def end() -> None:
        """Ends the session by its id: this process's knowledge of the query does not matter."""
        end_session(server, session_id)
        remote.client.close()
        record.unlink(missing_ok=True)

    return SparkQuery(query, context, None, end)


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
