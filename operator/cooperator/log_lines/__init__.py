"""What long-running processes say on stderr: one line an event, for people or as JSON, with what it is about.

What may live here: the format of lines, and the context that is added to them. Knows no other room.
"""

from cooperator.log_lines.context import common, current, within
from cooperator.log_lines.setup import LogFormat, log_to_stderr

__all__ = ["LogFormat", "common", "current", "log_to_stderr", "within"]
