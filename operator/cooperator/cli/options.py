"""Options that several commands share, and how they are read."""

from typing import Annotated

import typer

from cooperator.log_lines import LogFormat

LogFormatOption = Annotated[
    LogFormat, typer.Option(envvar="COOPERATOR_LOG_FORMAT", help="Format of log lines on stderr.")
]


def address(listen: str) -> tuple[str, int]:
    """Parse ``host:port``. Raises BadParameter for anything else."""
    host, colon, port = listen.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65_535:
        raise typer.BadParameter(f"{listen!r} is not host:port", param_hint="--listen")
    return host.strip("[]") or "127.0.0.1", int(port)
