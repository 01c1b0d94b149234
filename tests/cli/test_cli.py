"""The program from outside: refusals of each command, and a leader and a member started by hand."""

import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar

import pytest
import typer
from typer.testing import CliRunner, Result

from cooperator.cli.app import program
from cooperator.cli.kubectl.app import program as kubectl
from cooperator.cli.local import program as local
from cooperator.leader.service import NotLeading
from cooperator.local.broker import EmbeddedBroker
from cooperator.model import Desired
from tests.harness.support import eventually

MANIFEST = """
apiVersion: cooperator.dev/v1alpha1
kind: Worker
metadata: {name: NAME}
---
apiVersion: cooperator.dev/v1alpha1
kind: Connector
metadata: {name: ticks}
spec: {workerRef: {name: NAME}, class: noop, tasksMax: 2, config: {units: 2}}
"""
WORKER = (
    *("worker", "--group-id", "g", "--bootstrap-servers", "127.0.0.1:1", "--identity", "w-0"),
    *("--incarnation", "a", "--state-dir", "state", "--checkpoints", "checkpoints"),
)


def refused(*words: str) -> str:
    result = CliRunner().invoke(program(), words)
    assert result.exit_code in (1, 2), result.output
    return result.output


def test_a_member_ends_with_its_code_although_threads_of_its_connectors_never_end(tmp_path: Path) -> None:
    code = f"""
import sys, threading
from cooperator.agent import main
def run_worker(options):
    threading.Thread(target=threading.Event().wait).start()
    return 3
main.run_worker = run_worker
from cooperator.cli.app import program
program()({list(WORKER)!r})
"""
    ended = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, timeout=60, check=False)
    assert ended.returncode == 3


def test_version() -> None:
    assert CliRunner().invoke(program(), ["--version"]).output == f"{version('cooperator')}\n"


def test_every_command_has_help() -> None:
    for words in (
        [],
        ["local"],
        ["worker"],
        ["leader"],
        ["simulate"],
        ["plan"],
        ["demo"],
        ["local", "apply"],
    ):
        result = CliRunner().invoke(program(), [*words, "--help"])
        assert (result.exit_code, "Usage: " in result.output) == (0, True)


@pytest.mark.parametrize("make", [program, kubectl, local])
def test_a_command_assembled_alone_is_the_same(make: Callable[..., typer.Typer]) -> None:
    """Only the named command is assembled."""
    whole = commands(make())
    assert len(whole) > 5
    for name, command in whole.items():
        [(alone, same)] = commands(make([name, "--help"])).items()
        assert alone == name
        assert [each.name for each in same.params] == [each.name for each in command.params]
        assert (same.help, same.hidden) == (command.help, command.hidden)


@pytest.mark.parametrize("name", ["pause", "resume", "stop", "start", "restart"])
def test_a_verb_is_the_same_locally_and_in_a_cluster(name: str) -> None:
    here, there = commands(local())[name], commands(kubectl())[name]
    assert here.help == there.help
    places = {"state", "namespace", "context", "kubeconfig"}
    assert [p.name for p in here.params if p.name not in places] == [
        p.name for p in there.params if p.name not in places
    ]


def commands(app: typer.Typer) -> dict[str, Any]:
    found: dict[str, Any] = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    return found


def test_shell_completion_does_not_import_other_commands() -> None:
    code = (
        "import sys; from cooperator.cli.kubectl.app import program; program(['status']); "
        "print(*(name for name in sys.modules if name.startswith('cooperator.')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    imported = set(done.stdout.split())
    assert "cooperator.cli.kubectl.status" in imported
    assert not imported & {"cooperator.cli.plan", "cooperator.scenarios", "cooperator.leader", "kopf"}


@pytest.mark.parametrize("words", [["get", "tasks"], ["restart"], ["kill"], ["logs"]])
def test_a_short_command_does_not_import_the_daemon(words: list[str]) -> None:
    code = (
        "import sys; from cooperator.cli.app import program; "
        "from cooperator.leader.plugins import plugged_in_assignors; "
        f"plugged_in_assignors(); program(['local', *{words}]); print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    imported = set(done.stdout.split())
    assert "cooperator.local.options" in imported
    heavy = {"pydantic", "yaml", "aiohttp", "confluent_kafka", "kafka", "kubernetes"}
    assert not imported & {*heavy, "cooperator.crd", "cooperator.planner", "cooperator.runtime"}


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--listen", "nowhere"), "'nowhere' is not host:port"),
        (("--listen", "0.0.0.0:0"), "set advertised_host"),
        (("--spark-conf", "spark.ui.enabled"), "is not NAME=VALUE"),
        (("--capacity", "0"), "capacity is 0"),
        (("--runtime", "flink"), "flink"),
        (("--security-protocol", "SASL_SSL"), "requires --sasl-username-file"),
        (("--ssl-ca-file", "none.pem"), "--ssl-ca-file none.pem: No such file"),
    ],
)
def test_a_member_s_bad_option_is_named(words: tuple[str, ...], text: str) -> None:
    assert text in refused(*WORKER, *words)


def test_a_member_s_password_is_never_shown(tmp_path: Path) -> None:
    name, password = tmp_path / "name", tmp_path / "password"
    name.write_text("ada")
    words = (
        *("--security-protocol", "SASL_SSL", "--capacity", "0"),
        *("--sasl-username-file", str(name), "--sasl-password-file", str(password)),
    )
    assert "No such file" in refused(*WORKER, *words)
    password.write_bytes(b"sesame\xff")
    said = refused(*WORKER, *words)
    assert "--sasl-password-file" in said
    assert "is not UTF-8 text" in said
    assert "sesame" not in said
    password.write_text("sesame")
    said = refused(*WORKER, *words)
    assert "capacity is 0" in said
    assert "sesame" not in said


def test_a_leader_by_hand_refuses_manifests_that_it_cannot_follow(tmp_path: Path) -> None:
    manifest = tmp_path / "m.yaml"
    worker = MANIFEST.replace("NAME", "lake").split("---")[0]
    manifest.write_text(f"{worker}spec: {{kafka: {{securityProtocol: SSL}}}}\n")
    said = refused("leader", "-f", str(manifest), "--bootstrap-servers", "127.0.0.1:1")
    assert "spec.kafka" in said
    assert "not SSL" in said


def test_a_leader_needs_one_worker_and_a_broker(tmp_path: Path) -> None:
    manifest = tmp_path / "m.yaml"
    manifest.write_text(MANIFEST.replace("NAME", "lake"))
    assert "--bootstrap-servers" in refused("leader", "-f", str(manifest))
    manifest.write_text(MANIFEST.replace("NAME", "lake").split("---")[1])
    assert "0 Workers" in refused("leader", "-f", str(manifest), "--bootstrap-servers", "127.0.0.1:1")
    manifest.write_text("kind: Woker")
    assert "apiVersion" in refused("leader", "-f", str(manifest))


class FakeLeader:
    """A leader that ends as soon as it has begun."""

    wanted: ClassVar[list[Desired]] = []
    url = ""
    is_fenced = False

    def __init__(self, *settings: object) -> None:
        pass

    def set_desired(self, desired: Desired) -> None:
        self.wanted.append(desired)

    def start(self) -> None:
        signal.raise_signal(signal.SIGTERM)

    def stop(self) -> None:
        pass


def lead_by_hand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, service: type[FakeLeader], *words: str
) -> Result:
    manifest = tmp_path / "m.yaml"
    manifest.write_text(MANIFEST.replace("NAME", "lake"))
    monkeypatch.setattr("cooperator.leader.service.LeaderService", service)
    monkeypatch.setattr("cooperator.leader.process.prepare_process", lambda: None)
    monkeypatch.setattr("cooperator.cli.leader.log_to_stderr", lambda *format_: None)
    monkeypatch.setattr("cooperator.cli.leader._LOOK_S", 0.01)
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        return CliRunner().invoke(
            program(), ["leader", "-f", str(manifest), "--bootstrap-servers", "127.0.0.1:1", *words]
        )
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@pytest.mark.parametrize(("words", "prunes"), [((), False), (("--prune",), True)])
def test_a_leader_by_hand_deletes_only_with_prune(
    words: tuple[str, ...], prunes: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = lead_by_hand(tmp_path, monkeypatch, FakeLeader, *words)
    assert done.exit_code == 0, done.output
    assert FakeLeader.wanted[-1].prune is prunes


class LeaderWithStrayConnector(FakeLeader):
    """A leader of a group that also runs a connector outside of the manifest; ends at the third status."""

    def start(self) -> None:
        self.looks = 0

    def status(self) -> dict[str, Any]:
        self.looks += 1
        if self.looks == 3:
            signal.raise_signal(signal.SIGTERM)
        return {"leading": self.looks > 1, "connectors": {"ticks": {}, "My B": {}}}


@pytest.mark.parametrize(("words", "times"), [((), 1), (("--prune",), 0)])
def test_a_leader_by_hand_names_connectors_that_run_on(
    words: tuple[str, ...], times: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = lead_by_hand(tmp_path, monkeypatch, LeaderWithStrayConnector, *words)
    assert done.exit_code == 0, done.output
    said = " ".join(done.output.split())
    assert said.count("keep running (see --prune): My B") == times


class FencedLeader(FakeLeader):
    """A leader that is fenced at its first status."""

    def start(self) -> None:
        pass

    def status(self) -> dict[str, Any]:
        self.is_fenced = True
        return {"leading": False}

    def hand_back(self, *_: object) -> None:
        raise AssertionError("it has nothing to hand back")


def test_a_leader_by_hand_that_is_fenced_ends_with_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A service manager must see that the process does not lead."""
    done = lead_by_hand(tmp_path, monkeypatch, FencedLeader, "--hand-back")
    assert done.exit_code == 3, done.output
    assert "led by another process" in " ".join(done.output.split())


class HandingBackLeader(FakeLeader):
    """A leader that is to hand its group back. ``script``: what it waits for, then how that ends."""

    script: ClassVar[Sequence[str | Exception]] = ()
    did: ClassVar[list[object]] = []

    def hand_back(self, timeout_s: float, on_wait: Callable[[str], None]) -> None:
        self.did.append(timeout_s)
        for each in self.script:
            if isinstance(each, Exception):
                raise each
            on_wait(each)

    def stop_waiting(self) -> None:
        self.did.append("stop waiting")

    def stop(self) -> None:
        self.did.append("stop")


PENDING = "a-0 is held for w-2"


@pytest.mark.parametrize(
    ("script", "words", "does", "says"),
    [
        ((PENDING, "tasks are being moved"), (), [45], ["pending: " + PENDING, "leads itself again"]),
        (
            (PENDING, TimeoutError(f"group 'g' cannot be handed back evenly: {PENDING}")),
            ("--hand-back-seconds", "20"),
            [20, "stop"],
            ["within 20 s", f"evenly: {PENDING}. The tasks stay in place", "may move some of them"],
        ),
        (
            (NotLeading("group 'g' is not led from here: another manager leads it"),),
            (),
            [45, "stop"],
            ["is not led from here: another manager leads it"],
        ),
    ],
    ids=["even", "late", "not-leading"],
)
def test_a_leader_by_hand_says_how_its_hand_back_goes(
    script: Sequence[str | Exception],
    words: tuple[str, ...],
    does: list[object],
    says: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(HandingBackLeader, "script", script)
    monkeypatch.setattr(HandingBackLeader, "did", did := [])
    done = lead_by_hand(tmp_path, monkeypatch, HandingBackLeader, "--hand-back", *words)
    assert done.exit_code == 0, done.output
    assert did == does
    said = " ".join(done.output.split())
    assert [text for text in says if text not in said] == []
    assert ("leads itself again" in said) is (says[-1] == "leads itself again")


def test_a_second_signal_ends_the_hand_back_of_a_leader_by_hand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Waiting(HandingBackLeader):
        def hand_back(self, timeout_s: float, on_wait: Callable[[str], None]) -> None:
            signal.raise_signal(signal.SIGTERM)
            assert self.did == ["stop waiting"]
            raise TimeoutError(PENDING)

    monkeypatch.setattr(HandingBackLeader, "did", did := [])
    done = lead_by_hand(tmp_path, monkeypatch, Waiting, "--hand-back")
    assert (done.exit_code, did) == (0, ["stop waiting", "stop"]), done.output


def test_simulate_names_the_line_that_is_wrong(tmp_path: Path) -> None:
    scenarios = tmp_path / "s.jsonl"
    scenarios.write_text("{}\n")
    assert "s.jsonl" in refused("simulate", str(scenarios))
    assert "No such file" in refused("simulate", str(tmp_path / "none"))


@contextmanager
def process(log: Path, *words: str) -> Iterator["subprocess.Popen[bytes]"]:
    with (
        log.open("wb") as file,
        subprocess.Popen(
            [sys.executable, "-m", "cooperator.cli", *words], stdout=file, stderr=subprocess.STDOUT
        ) as running,
    ):
        try:
            yield running
        finally:
            running.kill()


@pytest.mark.real
def test_a_leader_and_a_member_started_by_hand_find_each_other(
    tmp_path: Path, broker: EmbeddedBroker, unique: str
) -> None:
    name = f"hand-{uuid.uuid4().hex[:6]}"
    manifest = tmp_path / "m.yaml"
    manifest.write_text(MANIFEST.replace("NAME", name))
    servers = broker.bootstrap_servers
    leader_log, member_log = tmp_path / "leader.log", tmp_path / "member.log"
    with process(leader_log, "leader", "-f", str(manifest), "--bootstrap-servers", servers) as leader:
        member_words = (
            *("worker", "--group-id", f"cooperator-default.{name}", "--bootstrap-servers", servers),
            *("--identity", f"{name}-0", "--incarnation", str(os.getpid()), "--runtime", "inline"),
            *("--state-dir", str(tmp_path / "state"), "--checkpoints", str(tmp_path / "checkpoints")),
        )
        with process(member_log, *member_words) as member:

            def started() -> bool:
                text = member_log.read_text()
                return all(f"starting {task} " in text for task in ("ticks", "ticks-0", "ticks-1"))

            eventually(started, 60, "the member runs everything")
            member.terminate()
            assert member.wait(60) == 0
        leader.terminate()
        assert leader.wait(30) == 0
    assert "Leading is True" in leader_log.read_text(), "conditions are reported"
