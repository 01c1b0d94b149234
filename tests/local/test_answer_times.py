"""Commands answer at once: a call's CPU time is measured beside a running daemon.

CPU time is about what a user of an idle machine waits. On a busy machine it is up to twice as long; there it
is compared with a process that only imports the libraries that every command needs. The daemon has a Worker
without members and a broker that is not there, so that nothing else has to be started.
"""

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from cooperator.local.daemon import ask_host, end_host, host_pid, start_host
from cooperator.local.layout import StateDir, write_json
from tests.harness.support import eventually

MANIFESTS = """
apiVersion: cooperator.dev/v1alpha1
kind: Worker
metadata: {name: lake}
spec: {replicas: 0}
---
apiVersion: cooperator.dev/v1alpha1
kind: Connector
metadata: {name: copy}
spec: {workerRef: {name: lake}, class: files-to-kafka, config: {path: ./data, topic: lines, format: text}}
"""
ATTEMPTS = 6
"""The shortest of so many times counts: other processes slow a process down, none makes it faster."""
LONGEST_S = 0.4
LONGEST_APPLY_S = 0.52
"""``apply`` also loads the connectors' classes, with their Kafka client."""
LIBRARIES = "import dataclasses, json, pydantic, rich.console, typer, yaml"
LIBRARIES_S = 0.135
"""CPU seconds for them where the bounds above hold; they take 0.1 s on an idle machine."""
CLIENTS = {"aiohttp", "asyncio", "boto3", "http.client", "kafka", "kopf", "kubernetes", "psycopg"}
HEAVY = CLIENTS | {"matplotlib", "numpy", "pandas", "psutil", "py4j", "pyarrow", "pyspark", "sqlglot"}
OURS = {f"cooperator.{name}" for name in ("artifacts", "connectors", "leader", "planner")}
MAY_LOAD = {
    # Checks of a Connector ask its class.
    "apply": {"asyncio", "confluent_kafka", "http.client", "re2", "cooperator.connectors"},
    "get": {"http.client"},
}
COMMANDS = {
    "apply": ("apply", "-f", "m.yaml"),
    "pause": ("pause", "copy"),
    "resume": ("resume", "copy"),
    "stop": ("stop", "copy"),
    "start": ("start", "copy"),
    "scale": ("scale", "worker", "lake", "--replicas", "0"),
    "get": ("get", "connectors"),
    "delete": ("delete", "connector", "copy"),
}


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StateDir]:
    root = tmp_path_factory.mktemp("answers")
    state = StateDir(root / "state")
    write_json(state.cluster, {"id": "test", "bootstrap_servers": "127.0.0.1:9", "down": False})
    (root / "m.yaml").write_text(MANIFESTS)
    call(state, "apply")
    start_host(state)
    try:
        eventually(lambda: ask_host(state)["workers"], 30, "the daemon runs its Worker")
        yield state
    finally:
        pid = host_pid(state)
        if pid is not None:
            end_host(pid, state)


def call(state: StateDir, command: str, code: str = "") -> tuple[float, str]:
    """Returns the seconds of CPU time that the command takes, and what it prints."""
    program = ["-c", code] if code else ["-m", "cooperator.cli"]
    words = ["local", *COMMANDS[command], "--state-dir", str(state.root)]
    with subprocess.Popen(
        [sys.executable, *program, *words],
        cwd=state.root.parent,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout is not None
        printed = process.stdout.read()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, printed
    return used.ru_utime + used.ru_stime, printed


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_answers_within_half_a_second(state: StateDir, command: str) -> None:
    bound_s = idle_s = LONGEST_APPLY_S if command == "apply" else LONGEST_S
    taken: list[float] = []
    of_libraries: list[float] = []
    while len(taken) < ATTEMPTS and min(taken, default=bound_s) >= bound_s:
        if command == "delete":
            call(state, "apply")
        seconds, printed = call(state, command)
        assert "nothing runs" not in printed, "the daemon runs"
        taken.append(seconds)
        of_libraries.append(call(state, command, LIBRARIES)[0])
        bound_s = idle_s * max(1.0, min(of_libraries) / LIBRARIES_S)
    assert min(taken) < bound_s, f"CPU seconds of {command}: {taken}, of the libraries alone: {of_libraries}"


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_loads_nothing_that_it_does_not_need(state: StateDir, command: str) -> None:
    if command == "delete":
        call(state, "apply")
    code = (
        "import sys; from cooperator.cli.app import main\n"
        "try: main()\n"
        "except SystemExit as end: assert not end.code, end\n"
        "print('LOADED', *sys.modules)"
    )
    _, printed = call(state, command, code)
    loaded = set(printed.rpartition("LOADED")[2].split())
    unneeded = HEAVY | OURS | {"confluent_kafka", "re2"}
    assert "cooperator.cli.app" in loaded
    assert loaded & unneeded <= MAY_LOAD.get(command, set())
