"""Members as process groups, with shells in place of members: every process here is real."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cooperator.local import processes
from cooperator.local.layout import read_json, write_json
from cooperator.local.members import INCARNATION, MemberProcesses, ProcessIncarnation, note_signal
from cooperator.local.platform import pod
from cooperator.pool import End, EndCause
from tests.harness.support import eventually

SLEEP = ["sleep", "600"]
WITH_CHILD = ["sh", "-c", "sleep 600 & wait"]


def now_ms() -> int:
    return time.time_ns() // 1_000_000


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "members"
    for process in MemberProcesses(tmp_path / "members", now_ms).observe().values():
        processes.kill_all(process.incarnation)


@pytest.fixture
def members(directory: Path) -> MemberProcesses:
    return MemberProcesses(directory, now_ms)


def ended(members: MemberProcesses, identity: str) -> ProcessIncarnation:
    return eventually(
        lambda: (process := members.observe()[identity]).ended and process, what=f"{identity} ended"
    )


def start(members: MemberProcesses, command: list[str], identity: str = "lake-0") -> ProcessIncarnation:
    process = members.create(identity, "r1", lambda incarnation: command)
    assert process.pid is not None
    eventually(lambda: processes.is_marked(process.pid or 0, process.incarnation), what="the mark")
    return process


def test_a_member_runs_in_a_session_of_its_own_and_knows_its_incarnation(
    members: MemberProcesses, directory: Path
) -> None:
    members.create("lake-0", "r1", lambda incarnation: ["sh", "-c", f"echo ${processes.MARK} {incarnation}"])

    process = ended(members, "lake-0")

    assert process.exit_code == 0
    assert (directory / "lake-0" / "member.log").read_text().split() == [process.incarnation] * 2


def test_a_log_that_has_grown_long_is_put_aside_at_the_next_start(
    members: MemberProcesses, directory: Path
) -> None:
    log = directory / "lake-0" / "member.log"
    log.parent.mkdir(parents=True)
    log.write_bytes(b"x" * 10_000_001)
    members.create("lake-0", "r1", lambda incarnation: ["echo", "new"])
    ended(members, "lake-0")
    assert log.read_text() == "new\n"
    assert log.with_name("member.log.1").stat().st_size == 10_000_001


def test_a_killed_member_has_ended_and_the_signal_is_told(members: MemberProcesses) -> None:
    process = start(members, SLEEP)
    assert os.getsid(process.pid or 0) == process.pid
    members.kill("lake-0", process.incarnation)
    assert ended(members, "lake-0").exit_code == -signal.SIGKILL


def test_surviving_processes_are_killed_before_the_incarnation_counts_as_ended(
    members: MemberProcesses,
) -> None:
    process = start(members, WITH_CHILD)
    eventually(lambda: len(processes.marked(process.incarnation)) == 2, what="parent and child")
    os.kill(process.pid or 0, signal.SIGKILL)

    assert ended(members, "lake-0").exit_code == -signal.SIGKILL
    assert processes.marked(process.incarnation) == ()


def test_a_child_that_left_the_process_group_is_killed_too(members: MemberProcesses) -> None:
    code = "import os, time; os.fork() or os.setpgid(0, 0); time.sleep(600)"
    process = start(members, [sys.executable, "-c", code])
    eventually(lambda: len({os.getpgid(p) for p in processes.marked(process.incarnation)}) == 2)
    members.kill("lake-0", process.incarnation)
    ended(members, "lake-0")
    assert processes.marked(process.incarnation) == ()


def test_a_second_daemon_takes_living_members_up_and_sees_their_end(
    members: MemberProcesses, directory: Path
) -> None:
    process = start(members, SLEEP)
    second = MemberProcesses(directory, now_ms)
    assert second.observe() == {"lake-0": process}

    os.kill(process.pid or 0, signal.SIGKILL)

    # A zombie of the first daemon is no living process for the second one.
    assert ended(second, "lake-0").exit_code is None


def test_a_member_that_a_later_release_started_is_known(members: MemberProcesses, directory: Path) -> None:
    process = start(members, SLEEP)
    record = directory / "lake-0" / INCARNATION
    write_json(record, {**(read_json(record) or {}), "newer": {"deep": [1]}})

    found = MemberProcesses(directory, now_ms).observe()["lake-0"]

    assert (found.incarnation, found.pid, found.ended) == (process.incarnation, process.pid, False)


def test_a_daemon_that_died_while_it_started_a_member_leaves_one_member_not_two(
    members: MemberProcesses, directory: Path
) -> None:
    process = start(members, SLEEP)
    write_json(directory / "lake-0" / "life.json", {**_fields(process), "pid": None})
    second = MemberProcesses(directory, now_ms)

    assert second.observe()["lake-0"].pid == process.pid
    with pytest.raises(ValueError, match="still runs"):
        second.create("lake-0", "r1", lambda incarnation: SLEEP)


def test_a_daemon_that_died_before_it_started_a_member_can_start_it(
    members: MemberProcesses, directory: Path
) -> None:
    write_json(
        directory / "lake-0" / "life.json", _fields(ProcessIncarnation("lake-0", "never-was", "r1", 1))
    )
    assert members.observe()["lake-0"].ended
    assert not members.create("lake-0", "r1", lambda incarnation: SLEEP).ended


def test_a_process_number_that_somebody_else_has_now_is_left_alone(
    members: MemberProcesses, directory: Path
) -> None:
    with subprocess.Popen(SLEEP) as bystander:
        process = ProcessIncarnation("lake-0", "long-gone", "r1", 1, pid=bystander.pid)
        write_json(directory / "lake-0" / "life.json", _fields(process))

        members.terminate("lake-0", process.incarnation)
        members.kill("lake-0", process.incarnation)

        assert members.observe()["lake-0"].ended
        assert bystander.poll() is None
        bystander.kill()


def test_being_told_to_end_is_remembered_and_signals_the_first_process_only(
    members: MemberProcesses, directory: Path
) -> None:
    process = start(members, ["sh", "-c", "trap 'echo drained; exit 3' TERM; sleep 600 & wait; wait"])
    eventually(lambda: len(processes.marked(process.incarnation)) == 2, what="the trap is set")
    members.terminate("lake-0", process.incarnation)
    last = ended(members, "lake-0")
    assert (last.exit_code, last.terminating_ms is not None) == (3, True)
    assert (directory / "lake-0" / "member.log").read_text() == "drained\n"


def test_a_new_incarnation_remembers_the_ones_before(members: MemberProcesses) -> None:
    incarnations = []
    for _ in range(3):
        incarnations.append(members.create("lake-0", "r1", lambda incarnation: ["true"]))
        ended(members, "lake-0")
    assert incarnations[2].past == (incarnations[1].incarnation, incarnations[0].incarnation)
    assert [process.restarts for process in incarnations] == [0, 1, 2]
    assert members.observe()["lake-0"].past == incarnations[2].past


def test_only_an_incarnation_that_has_ended_can_be_removed(members: MemberProcesses) -> None:
    process = start(members, SLEEP)
    members.remove("lake-0", process.incarnation)
    assert not members.observe()["lake-0"].removed
    members.kill("lake-0", process.incarnation)
    ended(members, "lake-0")
    members.remove("lake-0", process.incarnation)
    assert members.observe()["lake-0"].removed


def test_actions_for_an_earlier_incarnation_do_not_touch_this_one(members: MemberProcesses) -> None:
    process = start(members, SLEEP)
    members.kill("lake-0", "an-earlier-one")
    members.terminate("lake-0", "an-earlier-one")
    members.mark("lake-0", "an-earlier-one", "Roll")
    assert members.observe()["lake-0"] == process


def test_a_mark_stays_with_the_incarnation_until_it_is_taken_back(
    members: MemberProcesses, directory: Path
) -> None:
    process = start(members, SLEEP)
    members.mark("lake-0", process.incarnation, "ScaleDown")
    marked = MemberProcesses(directory, now_ms).observe()["lake-0"]
    assert marked.marked_for == "ScaleDown"
    members.mark("lake-0", process.incarnation, "")
    assert members.observe()["lake-0"] == process


def _fields(process: ProcessIncarnation) -> dict[str, object]:
    return {name: getattr(process, name) for name in ProcessIncarnation.__slots__}


@pytest.mark.parametrize(
    ("number", "accuses"), [(signal.SIGKILL, True), (signal.SIGSEGV, True), (signal.SIGTERM, False)]
)
def test_an_end_by_a_signal_accuses_tasks_unless_the_signal_asked_for_it(
    members: MemberProcesses, number: signal.Signals, accuses: bool
) -> None:
    process = start(members, SLEEP)

    assert process.pid is not None
    processes.signal_group(process.pid, process.incarnation, number)

    end = pod(ended(members, "lake-0")).end
    assert end is not None
    assert (end.cause is EndCause.KILLED) is accuses


FATAL = [
    number
    for number in signal.Signals
    if number
    not in (
        *(signal.SIGCHLD, signal.SIGCONT, signal.SIGURG, signal.SIGWINCH),
        *(signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU),
    )
]


@pytest.mark.parametrize("number", FATAL)
def test_an_end_by_a_signal_that_a_person_has_sent_accuses_no_task(
    members: MemberProcesses, directory: Path, number: signal.Signals
) -> None:
    process = start(members, SLEEP)

    note_signal(directory / "lake-0", process.incarnation, number)
    processes.signal_group(process.pid or 0, process.incarnation, number)

    assert pod(ended(members, "lake-0")).end == End(process.incarnation, EndCause.REQUESTED)


def test_the_watchdog_s_end_of_a_member_that_a_person_has_stopped_accuses_no_task(
    members: MemberProcesses, directory: Path
) -> None:
    process = start(members, SLEEP)
    note_signal(directory / "lake-0", process.incarnation, signal.SIGSTOP)
    processes.signal_group(process.pid or 0, process.incarnation, signal.SIGKILL)

    assert pod(ended(members, "lake-0")).end == End(process.incarnation, EndCause.REQUESTED)


@pytest.mark.parametrize("later", ["it goes on", "it is another incarnation"])
def test_a_note_is_of_one_incarnation_and_can_be_taken_back(
    members: MemberProcesses, directory: Path, later: str
) -> None:
    process = start(members, SLEEP)
    if later == "it goes on":
        note_signal(directory / "lake-0", process.incarnation, signal.SIGSTOP)
        note_signal(directory / "lake-0", process.incarnation, signal.SIGCONT)
    else:
        note_signal(directory / "lake-0", "an-earlier-one", signal.SIGKILL)
    processes.signal_group(process.pid or 0, process.incarnation, signal.SIGKILL)

    assert pod(ended(members, "lake-0")).end == End(process.incarnation, EndCause.KILLED)
