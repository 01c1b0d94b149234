"""What long-running processes say: one line an event, on stderr."""

import logging


def log_to_stderr() -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)-7s %(name)s: %(message)s")
    # While a broker is away it complains several times a second; what matters is told by our own rooms.
    logging.getLogger("kafka").setLevel(logging.CRITICAL)
