"""How a log says no."""


class LogUnavailable(Exception):
    """The log cannot be reached or used now; try again. The message names the log and the cause.

    Of a write that raised this it is unknown whether it has happened.
    """


class LogTimeout(LogUnavailable):
    """The log was not read as far as asked within the time given."""


class LogUnreadable(LogUnavailable):
    """The log was read, and what it says cannot be understood (written by a newer version, or damaged)."""


class TopicMisconfigured(Exception):
    """The topic exists and cannot serve as this log. The message names the setting and the remedy."""


class RecordTooLarge(Exception):
    """A record exceeds what the topic takes (``max.message.bytes``); trying again does not help."""


class WriterFenced(Exception):
    """Another writer has taken over, or this one cannot be sure that none has. It never writes again."""
