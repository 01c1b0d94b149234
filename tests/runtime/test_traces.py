"""What is reported of an error: enough to mend it, and not too much for a status."""

import pytest

from cooperator.runtime.life import describe


class Captured(Exception):
    """As PySpark has them: the error in the JVM that it goes back to is known, and not shown."""

    def __init__(self, message: str, cause: "Captured | None" = None) -> None:
        super().__init__(message)
        self._cause = cause


def full_disk(message: str = "[TASK_WRITE_FAILED] Task failed while writing rows to file:/lake") -> Captured:
    return Captured(message, Captured("Job aborted", Captured("No space left on device\n\tat java.io.write")))


def test_what_it_goes_back_to_in_the_jvm_stands_at_the_end() -> None:
    with pytest.raises(Captured) as raised:
        raise full_disk()

    lines = describe(raised.value).splitlines()

    assert lines[0].startswith("Traceback")
    assert lines[-3].endswith("rows to file:/lake")
    assert lines[-2:] == ["caused by: Job aborted", "caused by: No space left on device"]


def test_what_the_message_says_already_is_not_said_again() -> None:
    described = describe(full_disk("Job aborted: No space left on device"))

    assert "caused by" not in described


def test_causes_are_kept_where_a_trace_is_too_long() -> None:
    described = describe(full_disk("x" * 20_000))

    assert len(described) == 8_000
    assert described.endswith("caused by: No space left on device\n")
