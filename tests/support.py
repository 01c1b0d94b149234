"""What tests share: waiting on conditions instead of on time."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def eventually(condition: Callable[[], T], timeout_s: float = 30.0, what: str = "") -> T:
    """The first truthy value of ``condition``; AssertionError after ``timeout_s`` with the last one seen.

    An AssertionError raised by the condition counts as "not yet", and is what is reported at the end.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        failure: AssertionError | None = None
        value = None
        try:
            value = condition()
        except AssertionError as error:
            failure = error
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(
                f"not within {timeout_s:g} s: {what or condition}; last seen: {failure or value!r}"
            )
        time.sleep(0.05)
