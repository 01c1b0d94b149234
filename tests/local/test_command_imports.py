"""Commands answer at once because they load little: which modules, and how many of ours.

What a call then costs is measured by ``python -m benchmarks.commands`` (docs/evidence/commands.md).
"""

from collections.abc import Iterator

import pytest

from cooperator.local.layout import StateDir
from tests.harness.answers import COMMANDS, call, daemon

CLIENTS = {"aiohttp", "asyncio", "boto3", "http.client", "kafka", "kopf", "kubernetes", "psycopg"}
HEAVY = CLIENTS | {"matplotlib", "numpy", "pandas", "psutil", "py4j", "pyarrow", "pyspark", "sqlglot"}
OURS = {f"cooperator.{name}" for name in ("artifacts", "connectors", "leader", "planner")}
MAY_LOAD = {
    # Checks of a Connector ask its class.
    "apply": {"asyncio", "confluent_kafka", "http.client", "re2", "cooperator.connectors"},
    "get": {"http.client"},
}
MOST_OF_OURS = {**dict.fromkeys(COMMANDS, 59), "apply": 124, "get": 32}
"""Modules of cooperator that a call loads. Whoever adds one decides that every call pays for it."""
PRINTS_MODULES = (
    "import sys; from cooperator.cli.app import main\n"
    "try: main()\n"
    "except SystemExit as end: assert not end.code, end\n"
    "print('LOADED', *sys.modules)"
)


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StateDir]:
    with daemon(tmp_path_factory.mktemp("answers")) as state:
        yield state


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_loads_nothing_that_it_does_not_need(state: StateDir, command: str) -> None:
    _, printed = call(state, command, PRINTS_MODULES)
    said, _, modules = printed.rpartition("LOADED")
    assert "nothing runs" not in said, "the daemon runs"
    loaded = set(modules.split())
    assert "cooperator.cli.app" in loaded
    assert loaded & (HEAVY | OURS | {"confluent_kafka", "re2"}) <= MAY_LOAD.get(command, set())
    ours = {name for name in loaded if name.startswith("cooperator.")}
    assert len(ours) <= MOST_OF_OURS[command], sorted(ours)
