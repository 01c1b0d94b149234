"""What a trace says of its error, in one line."""

from typing import Final

_CAUSED_BY: Final = "caused by: "
_FRAME: Final = '  File "'


def error_of(trace: str) -> str:
    """The error that a trace goes back to; of a text that is no trace, its first line. Empty for no text.

    Traces are of Python, of the JVM ("Caused by: ..."), or of both: Spark's end with lines of "caused by:"
    (``runtime/life.py``). Long ones may lack their beginning. The innermost cause stands last.
    """
    lines = trace.strip("\n").splitlines()
    for line in reversed(lines):
        if line.lower().startswith(_CAUSED_BY):
            return line[len(_CAUSED_BY) :].strip()
    frames = [number for number, line in enumerate(lines) if line.startswith(_FRAME)]
    behind = lines[frames[-1] + 1 :] if frames else lines
    # What is indented behind the last frame is its source.
    return next((line.strip() for line in behind if line and not line[0].isspace()), "")
