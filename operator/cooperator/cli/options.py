"""Options that several commands share, and how they are read."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cooperator.log_lines import LogFormat
from cooperator.terminal.console import Console

if TYPE_CHECKING:
    from cooperator.leader.tls import ServerCertificates

LogFormatOption = Annotated[
    LogFormat, typer.Option(envvar="COOPERATOR_LOG_FORMAT", help="Format of log lines on stderr.")
]


def address(listen: str) -> tuple[str, int]:
    """Parse ``host:port``. Raises BadParameter for anything else."""
    host, colon, port = listen.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65_535:
        raise typer.BadParameter(f"{listen!r} is not host:port", param_hint="--listen")
    return host.strip("[]") or "127.0.0.1", int(port)


def server_certificates(directory: Path | None) -> "ServerCertificates | None":
    """The certificate in the directory of --tls-directory. Prints why it cannot be used, and exits with 2."""
    if directory is None:
        return None
    # Commands that need no TLS start without it.
    from cooperator.leader.tls import ServerCertificates, TlsError

    try:
        return ServerCertificates(directory)
    except TlsError as error:
        Console().error(f"--tls-directory: {error}")
        raise typer.Exit(2) from None
