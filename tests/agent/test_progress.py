"""The progress of a task on its way to the status log: rate-limited, and the newest one is written last."""

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from cooperator.agent import events as ev
from cooperator.agent import instructions as do
from cooperator.agent.state import Settings
from cooperator.model import TaskId, TaskState, TaskStatus
from tests.agent.conftest import Conversation

A0 = TaskId("a", 0)
EVERY_MS = Settings("lake-0").progress_every_ms


class Written(Conversation):
    """A member that records its statuses, each with the time of its writing."""

    def __init__(self) -> None:
        super().__init__(Settings("lake-0"))
        self.written: list[tuple[int, TaskStatus]] = []
        self.configure()

    def tell(self, event: ev.Event) -> list[do.Instruction]:
        heard = super().tell(event)
        self.written += [(self.now_ms, one.status) for one in self.all(do.PutStatus)]
        return heard

    def quiet(self, ms: int) -> None:
        self.tell(ev.Contact(self.now_ms))
        self.time_passes(ms)

    def progress(self, text: str) -> None:
        self.tell(ev.Progressed(A0, self.attempt(A0), text))

    @property
    def last(self) -> TaskStatus:
        return self.written[-1][1]


def test_progress_that_comes_too_early_is_written_after_the_interval() -> None:
    member = Written()
    member.run(A0)
    member.progress("0 rows, 7,089/s")
    member.progress("11,247 rows, 0/s")
    assert member.last.progress == "0 rows, 7,089/s"
    member.quiet(EVERY_MS - 1)
    assert member.last.progress == "0 rows, 7,089/s"
    member.quiet(1)
    assert (member.last.state, member.last.progress) == (TaskState.RUNNING, "11,247 rows, 0/s")


def test_a_starting_task_reports_what_it_waits_for() -> None:
    member = Written()
    member.assignment([A0])
    member.progress("waiting for PostgreSQL")
    assert (member.last.state, member.last.progress) == (TaskState.STARTING, "waiting for PostgreSQL")
    member.progress("the schema is read")
    member.tell(ev.Started(A0, member.attempt(A0)))
    assert (member.last.state, member.last.progress) == (TaskState.RUNNING, "")
    member.quiet(2 * EVERY_MS)
    assert member.last.progress == "", "the wait is over"
    member.progress("1 row")
    assert member.last.progress == "1 row"


def test_the_end_of_a_wait_is_written_at_once_and_the_next_one_keeps_the_interval() -> None:
    searching, done = '{"waits": [{"for": "searching", "since_ms": 1}]}', '{"rows_in": 9}'
    member = Written()
    member.run(A0)
    member.progress(searching)
    member.quiet(1)
    member.progress(done)
    assert member.last.progress == done
    member.progress(searching)
    member.progress('{"rows_in": 10}')
    member.progress(searching)
    member.quiet(EVERY_MS - 2)
    assert member.last.progress == done
    member.quiet(2)
    assert member.last.progress == searching


def test_the_last_progress_of_a_failed_attempt_is_not_written_after_its_failure() -> None:
    member = Written()
    member.run(A0)
    member.progress("1 row")
    member.progress("2 rows")
    member.tell(ev.Failed(A0, member.attempt(A0), "no disk"))
    assert member.last.trace == "no disk"
    member.quiet(EVERY_MS)
    assert "2 rows" not in {status.progress for _, status in member.written}


@settings(max_examples=50)
@given(
    st.lists(st.tuples(st.integers(0, 12_000), st.sampled_from(["1", "2", "3"])), min_size=1, max_size=20),
    st.booleans(),
)
def test_after_a_quiet_time_the_newest_is_written(steps: list[tuple[int, str]], runs: bool) -> None:
    member = Written()
    if runs:
        member.run(A0)
    else:
        member.assignment([A0])
    for gap_ms, text in steps:
        member.quiet(gap_ms)
        member.progress(text)
    member.quiet(EVERY_MS)

    assert member.last.progress == steps[-1][1]
    times = [at_ms for at_ms, status in member.written if status.progress]
    assert all(later - earlier >= EVERY_MS for earlier, later in pairwise(times))
