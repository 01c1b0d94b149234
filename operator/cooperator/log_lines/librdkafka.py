"""Puts what librdkafka's clients say into the program's log."""

import logging


class LibrdkafkaLog:
    """A logger for a client: its errors become warnings of ``logger``, and everything else debug messages.

    A broker that is away causes dozens of "FAIL" lines a second: whoever uses the client reports it once.
    """

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger

    def log(self, level: int, message: str, *args: object) -> None:
        passing = level < logging.ERROR or (args and args[0] == "FAIL")
        self._logger.log(logging.DEBUG if passing else logging.WARNING, message, *args)
