"""Parts of a Worker's spec, and the forms of its texts."""

import re
from typing import Annotated, Final

from pydantic import Field

from cooperator.crd.base import Lenient, Model
from cooperator.crd.choices import RolloutStrategy
from cooperator.crd.rules import Form, dns_label

WORKER_NAME: Final = dns_label(52)
"""Pods are named NAME-ORDINAL, and their names are labels."""
ASSIGNOR: Final = Form(
    r"[A-Za-z][A-Za-z0-9_-]*", "use an assignor: Sticky, Spread, Uniform, or a plug-in's", 63
)
GROUP_ID: Final = Form(
    r"[a-zA-Z0-9._-]+",
    "use 1 to 200 letters, digits, '.', '_' and '-': the names of the group's topics contain it",
    200,
)
LOCATION: Final = Form(
    r"s3a://[^ \t\r\n/]([^\r\n]*[^ \t\r\n])?|/([^\r\n]*[^ \t\r\n])?|[^ \t\r\n/:]([^\r\n:]*[^ \t\r\n:])?",
    "write a directory such as /a/directory, or s3a://bucket/path, without spaces around it",
    1024,
)


def checked_servers(servers: str) -> str:
    for server in servers.split(","):
        host, separator, port = server.strip().rpartition(":")
        if not (host and separator and re.fullmatch(r"[0-9]{1,5}", port) and 0 < int(port) < 65_536):
            raise ValueError(f"{server.strip()!r} is not host:port; write host1:port1,host2:port2")
    return servers


class Rollout(Model):
    """Replacement of members when their template changes."""

    strategy: Annotated[RolloutStrategy, Lenient] = Field(
        default=RolloutStrategy.HOLD,
        description=(
            "Hold: a member is replaced in place while its tasks wait; Drain: its tasks move away first"
        ),
    )
    max_unavailable: int = Field(
        default=1, ge=1, le=1000, description="maximum number of unavailable members"
    )


class Rest(Model):
    """Kafka Connect's REST API in front of a Worker's group."""

    enabled: bool = Field(default=False, description="whether the API is served")
    port: int = Field(
        default=8083,
        ge=1,
        le=65_535,
        description="port of the Service NAME-rest on Kubernetes, or of 127.0.0.1 with `cooperator local`",
    )
