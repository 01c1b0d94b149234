"""The errors of the logs."""


class LogUnavailable(Exception):
    """The log cannot be reached or used now; try again. The message names the log and the cause.

    When a write raises this, it is unknown whether it has happened.
    """


class LogTimeout(LogUnavailable):
    """The log was not read as far as requested within the given time."""


class LogUnreadable(LogUnavailable):
    """The log was read, but its content cannot be decoded (written by a newer version, or damaged)."""


class TopicMisconfigured(Exception):
    """The topic exists but cannot serve as this log. The message names the setting and the remedy."""


class RecordTooLarge(Exception):
    """A record exceeds the topic's limit (``max.message.bytes``); trying again does not help."""


class WriterFenced(Exception):
    """Another writer has taken over, or this one cannot rule that out. This writer never writes again."""
