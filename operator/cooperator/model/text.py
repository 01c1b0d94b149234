"""Text for human readers."""


def counted(number: int, noun: str) -> str:
    """Return ``1 task``, ``2 tasks``, ``1,600 tasks``."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
