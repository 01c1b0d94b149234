"""What a process says while it runs: one line an event, on stderr."""

import logging


def log_to_stderr() -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)-7s %(name)s: %(message)s")
    logging.getLogger("kafka").setLevel(logging.WARNING)
