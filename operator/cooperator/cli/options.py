"""Options that several commands share."""

from typing import Annotated

import typer

from cooperator.log_lines import LogFormat

LogFormatOption = Annotated[
    LogFormat, typer.Option(envvar="COOPERATOR_LOG_FORMAT", help="Format of log lines on stderr.")
]
