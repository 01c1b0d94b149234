"""A Spark Connect server, where queries can run instead of in the member's own session."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast
from urllib.parse import quote

from cooperator.connectors.options import OptionError, Problem
from cooperator.model.extras import Extra, NotInstalled, require

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEME = "sc://"


@dataclass(frozen=True, slots=True)
class Server:
    """A Spark Connect server.

    ``url`` is ``sc://host:port`` with pyspark's optional parameters. ``user`` is the common user by which all
    members of a Worker find each other's sessions. ``conf`` is set in each session.
    """

    url: str
    user: str
    conf: Mapping[str, str] = field(default_factory=dict, repr=False)

    def refusal(self, connector: str) -> OptionError:
        """Returns the error of a class that writes from the member."""
        reason = f"writes from the member, but {self.url} runs queries elsewhere"
        remedy = "use a Worker whose spark.master is local, spark:// or k8s://, or the class spark"
        return OptionError([Problem("connector.class", connector, reason, remedy)])

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
            require(Extra.SPARK_CONNECT, "it")
            from pyspark.sql.connect.client.retries import DefaultPolicy
            from pyspark.sql.connect.session import SparkSession as RemoteSession
        except (NotInstalled, ImportError) as error:
            remedy = Extra.SPARK_CONNECT.command
            problem = f"requires packages that are not installed: {error}"
            raise OptionError([Problem("spec.spark.conf[spark.master]", self.url, problem, remedy)]) from None
        # pyspark's functions depend on it: all queries of this process run on the server.
        os.environ["SPARK_CONNECT_MODE_ENABLED"] = "1"
        base = self.url.rstrip(";") if "/;" in self.url else f"{self.url.rstrip('/')}/"
        whose = f";user_id={quote(self.user)};session_id={session_id}"
        found = RemoteSession.builder.remote(f"{base}{whose}").create()
        # Retries must not last as long as a server's restart, or units could not be stopped in time.
        found.client.set_retry_policies([DefaultPolicy(max_retries=4, max_backoff=2_000)])
        return cast("SparkSession", found)
