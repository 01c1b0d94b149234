"""Units that run on a Spark Connect server: the query lives there, and outlives the member that started it.

So a query is found again by its server's session. Each attempt writes the id of its session down, beside
the unit's checkpoint and under the name of its claim, before it starts anything; who comes next ends what it
finds in the sessions that are written down. Nothing starts as long as the server does not answer. A query
that is missed all the same is kept from committing by the fence, which the server's file manager looks at.
"""

import logging
import os
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote

from cooperator.runtime.connectors.base import UnitContext
from cooperator.runtime.fence import claim
from cooperator.runtime.options import OptionError, Problem
from cooperator.runtime.places import Place, names, put

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from cooperator.runtime.connectors.spark import SparkConnector, SparkQuery

log = logging.getLogger(__name__)

SCHEME = "sc://"
_RECORDS = "sessions"
_GONE = ("SESSION_CLOSED", "SESSION_NOT_FOUND", "SESSION_CHANGED")
_NOT_THERE = ("ClassNotFoundException", "FencedCheckpointFileManager")


@dataclass(frozen=True, slots=True)
class Server:
    """A Spark Connect server. ``url``: ``sc://host:port`` and what else pyspark takes in it; ``user``: under
    whose name all members of a Worker find each other's sessions. ``conf``: of each session."""

    url: str
    user: str
    conf: Mapping[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, conf: Mapping[str, str], group_id: str) -> "Server | None":
        """What ``spark.master`` names, if that is a server. OptionError for the server's settings."""
        url = conf.get("spark.master", "")
        if not url.startswith(SCHEME):
            return None
        problem = f"is the server's affair with spark.master {SCHEME}"
        remedy = "set it where the server is started, and leave it out here"
        problems = [
            Problem(f"spec.spark.conf[{name}]", "…", problem, remedy)
            for name in sorted(conf)
            if name != "spark.master" and not name.startswith("spark.sql.")
        ]
        if problems:
            raise OptionError(problems)
        return cls(url, f"cooperator-{group_id}", {k: v for k, v in conf.items() if k != "spark.master"})

    def session(self, session_id: str) -> "SparkSession":
        """The session of that id, which begins with this if there was none. An error says that the server
        does not answer, or that it was there and has ended."""
        try:
            from pyspark.sql.connect.client.retries import DefaultPolicy
            from pyspark.sql.connect.session import SparkSession as RemoteSession
        except ImportError as error:
            remedy = "pip install 'cooperator[connect]'"
            raise OptionError(
                [
                    Problem(
                        "spec.spark.conf[spark.master]",
                        self.url,
                        f"needs more than is installed: {error}",
                        remedy,
                    )
                ]
            ) from None
        # pyspark's functions ask for it: all queries of this process are the server's.
        os.environ["SPARK_CONNECT_MODE_ENABLED"] = "1"
        base = self.url.rstrip(";") if "/;" in self.url else f"{self.url.rstrip('/')}/"
        whose = f";user_id={quote(self.user)};session_id={session_id}"
        found = RemoteSession.builder.remote(f"{base}{whose}").create()
        # As long as it takes the server to be restarted would be too long to be stopped in.
        found.client.set_retry_policies([DefaultPolicy(max_retries=4, max_backoff=2_000)])
        return cast("SparkSession", found)


def open_remotely(
    connector: "SparkConnector[Any]", options: Any, context: UnitContext, server: Server
) -> "SparkQuery":
    if not connector.runs_remotely(options):
        reason = f"writes from the member, and {server.url} runs queries elsewhere"
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
    from cooperator.runtime.connectors.spark import SparkQuery, fence_session, start_query

    remote: Any = server.session(session_id)
    session: SparkSession = remote
    for name, value in server.conf.items():
        session.conf.set(name, value)
    assert context.fence is not None
    fence_session(session, context.fence)
    stream = connector.reader(session, options, context)
    writer = connector.writer(stream, options, context)
    try:
        query = start_query(writer, options, context)
    except Exception as error:
        if all(text in str(error) for text in _NOT_THERE):
            raise OptionError(
                [
                    Problem(
                        "spec.spark.conf[spark.master]",
                        server.url,
                        "the server lacks cooperator's jar, without which nobody keeps two members apart",
                        "put what `cooperator packages` prints on its class path (--driver-class-path)",
                    )
                ]
            ) from error
        raise

    def end() -> None:
        """By the id: it does not matter what this process knows of the query."""
        end_session(server, session_id)
        remote.client.close()
        record.unlink(missing_ok=True)

    return SparkQuery(query, context, None, end)


def end_session(server: Server, session_id: str) -> None:
    """Returns when no query of the session runs any more, and the session is over. Raises when that is not
    known: the server does not answer."""
    session: Any = None
    try:
        session = server.session(session_id)
        for query in session.streams.active:
            log.info("ending %s, which another attempt started on %s", query.name, server.url)
            query.stop()
            query.awaitTermination()
    except Exception as error:
        if type(error).__name__ == "StreamingQueryException":
            return  # It had failed, which is an end as well.
        if not any(text in str(error) for text in _GONE):
            raise
    finally:
        if session is not None:
            session.stop()
