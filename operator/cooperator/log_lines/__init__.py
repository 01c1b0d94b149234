"""The log of long-running processes on stderr: one line per event, as text or JSON, with its context.

Contents: the format of lines, the context that is added to them, and what librdkafka's clients may add.
Imports only the model.
"""

from cooperator.log_lines.context import common, current, within
from cooperator.log_lines.librdkafka import LibrdkafkaLog
from cooperator.log_lines.setup import LogFormat, log_to_stderr

__all__ = ["LibrdkafkaLog", "LogFormat", "common", "current", "log_to_stderr", "within"]
