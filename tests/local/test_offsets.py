"""``cooperator local offsets``: what is refused, what is said, what is done; on a real topic, without
Spark."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from typer.testing import CliRunner, Result

from cooperator.connectors.topics import ensure_topic
from cooperator.crd import Connector, parse
from cooperator.host.at_rest import why_not_at_rest
from cooperator.local import offsets
from cooperator.local.broker import EmbeddedBroker
from cooperator.local.layout import StateDir, write_json
from cooperator.local.offsets import app
from cooperator.local.store import ManifestStore
from tests.runtime.postgres import PASSWORD, Postgres

MANIFESTS = """
apiVersion: cooperator.dev/v1alpha1
kind: Worker
metadata: {{name: lake}}
spec: {{replicas: 1, groupId: "{group}"}}
---
apiVersion: cooperator.dev/v1alpha1
kind: Connector
metadata: {{name: copy}}
spec: {{workerRef: {{name: lake}}, class: {class_}, state: {state}, config: {{topics: {topic}, topic: out}}}}
"""


def connector(state: str = "Stopped") -> Connector:
    text = MANIFESTS.format(class_="kafka-to-kafka", state=state, topic="in", group="g")
    return next(each for each in parse(text, "test.yaml") if isinstance(each, Connector))


def leader(**more: Any) -> dict[str, Any]:
    return {
        "leading": True,
        "known": True,
        "connectors": {"copy": {"state": "STOPPED", "regrouping": False}},
        "members": [{"identity": "lake-0", "owned": ["copy"], "stopping": []}],
        "tasks": [{"name": "copy", "connector": "copy", "state": "STOPPED"}],
        **more,
    }


def test_a_stopped_connector_of_which_nothing_runs_is_at_rest() -> None:
    assert why_not_at_rest(connector(), leader()) == ""
    assert why_not_at_rest(connector(), leader(connectors={}, members=[], tasks=[])) == ""


@pytest.mark.parametrize(
    ("state", "more", "said"),
    [
        ("Running", {}, "copy is Running, and offsets can be changed of a Stopped one only"),
        ("Paused", {}, "copy is Paused"),
        ("Stopped", {"leading": False}, "no leader to confirm"),
        ("Stopped", {"known": False}, "does not know yet whether any task of copy runs"),
        ("Stopped", {"connectors": {"copy": {"state": "STARTED", "regrouping": False}}}, "is being stopped"),
        ("Stopped", {"connectors": {"copy": {"state": "STOPPED", "regrouping": True}}}, "is being stopped"),
        (
            "Stopped",
            {"members": [{"identity": "lake-1", "owned": ["copy-3"], "stopping": ["copy-3"]}]},
            "member lake-1 still has task copy-3: wait until `get connectors` says STOPPED",
        ),
        (
            "Stopped",
            {"tasks": [{"name": "copy", "connector": "copy", "state": "RUNNING"}]},
            "copy is RUNNING",
        ),
    ],
)
def test_a_connector_not_at_rest_is_refused_with_what_to_wait_for(
    state: str, more: dict[str, Any], said: str
) -> None:
    assert said in why_not_at_rest(connector(state), leader(**more))


def test_the_instance_of_another_connector_is_no_task_of_this_one() -> None:
    stopped = {"state": "STOPPED", "regrouping": False}
    members = [{"identity": "lake-0", "owned": ["copy", "copy-1"], "stopping": []}]
    status = leader(connectors={"copy": stopped, "copy-1": stopped}, members=members)
    assert why_not_at_rest(connector(), status) == ""


Ask = Callable[..., Result]


@pytest.mark.real
class TestCommands:
    """A connector whose only unit has read up to 5 of 10 records, as the checkpoint of an earlier release
    says."""

    @pytest.fixture
    def unmigrated(
        self, broker: EmbeddedBroker, tmp_path: Path, unique: str, monkeypatch: pytest.MonkeyPatch
    ) -> Ask:
        ensure_topic({"bootstrap.servers": broker.bootstrap_servers}, unique, 1, -1)
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        for number in range(10):
            producer.produce(unique, str(number))
        assert producer.flush(30) == 0
        state = StateDir(tmp_path)
        write_json(state.cluster, {"id": "test", "bootstrap_servers": None, "down": False})
        unit = state.worker("default", "lake").checkpoints / "copy" / f"{unique}-0"
        (unit / "offsets").mkdir(parents=True)
        (unit / "commits").mkdir()
        (unit / "offsets" / "0").write_text(f'v1\n{{}}\n{{"{unique}":{{"0":5}}}}')
        (unit / "commits" / "0").write_text("v1\n{}")

        def ask(*words: str, class_: str = "kafka-to-kafka", state_: str = "Stopped", **more: Any) -> Result:
            text = MANIFESTS.format(class_=class_, state=state_, topic=unique, group=unique)
            ManifestStore(state, lambda: 0).apply(parse(text, "test.yaml"), "test.yaml")
            status = leader(**more)
            group = {"namespace": "default", "worker": "lake", **status}
            tasks = [{"namespace": "default", "worker": "lake", **task} for task in status["tasks"]]
            view = {"bootstrap_servers": broker.bootstrap_servers, "groups": [group], "tasks": tasks}
            monkeypatch.setattr(offsets, "ask_host", lambda directory: view)
            return CliRunner().invoke(app, [*words, "--state-dir", str(tmp_path)])

        return ask

    @pytest.fixture
    def ask(self, unmigrated: Ask) -> Ask:
        assert unmigrated("migrate", "copy").exit_code == 0
        return unmigrated

    @staticmethod
    def position(ask: Ask) -> int:
        [entry] = json.loads(ask("list", "copy").stdout)["offsets"]
        return int(entry["offset"]["kafka_offset"])

    @staticmethod
    def document(tmp_path: Path, topic: str, offset: int) -> str:
        partition = {"kafka_topic": topic, "kafka_partition": 0}
        entry = {"partition": partition, "offset": {"kafka_offset": offset}}
        (tmp_path / "to.json").write_text(json.dumps({"offsets": [entry]}))
        return str(tmp_path / "to.json")

    def test_positions_of_earlier_releases_are_migrated_first(
        self, unmigrated: Ask, tmp_path: Path, unique: str
    ) -> None:
        refused = unmigrated("alter", "copy", "--to", self.document(tmp_path, unique, 8))
        assert refused.exit_code == 1
        assert "`cooperator local offsets migrate copy`" in " ".join(refused.output.split())
        tried = unmigrated("migrate", "copy", "--dry-run")
        assert 'none -> {"kafka_offset": 5}' in tried.stdout
        assert "1 position would change" in tried.output
        assert json.loads(unmigrated("list", "copy").stdout) == {"offsets": []}
        assert "1 position changed" in unmigrated("migrate", "copy").output
        assert self.position(unmigrated) == 5
        assert "nothing to change" in unmigrated("migrate", "copy").output

    def test_offsets_are_listed_moved_and_reset(self, ask: Ask, tmp_path: Path, unique: str) -> None:
        assert self.position(ask) == 5
        to = self.document(tmp_path, unique, 8)
        tried = ask("alter", "copy", "--to", to, "--dry-run")
        assert '{"kafka_offset": 5} -> {"kafka_offset": 8}' in tried.stdout
        assert "1 position would change" in tried.output
        assert self.position(ask) == 5
        assert ask("alter", "copy", "--to", to).exit_code == 0
        assert self.position(ask) == 8
        assert "nothing to change" in ask("alter", "copy", "--to", to).output
        for where, offset in (("earliest", 0), ("latest", 10), (to, 8)):
            assert ask("reset", "copy", "--to", where).exit_code == 0
            assert self.position(ask) == offset
        assert '{"kafka_offset": 8} -> none' in ask("reset", "copy").stdout
        assert json.loads(ask("list", "copy").stdout) == {"offsets": []}

    @pytest.mark.parametrize(
        ("words", "more", "said"),
        [
            (("alter", "copy", "--to", "{to}"), {"state_": "Running"}, "of a Stopped one only"),
            (
                ("reset", "copy"),
                {"members": [{"identity": "lake-0", "owned": ["copy-0"], "stopping": []}]},
                "member lake-0 still has task copy-0",
            ),
            (("reset", "copy", "--to", "newest"), {}, "newest cannot be read: No such file or directory"),
            (("alter", "copy", "--to", "{far}"), {}, "kafka_offset 11 is out of range; use 0 "),
            (("list", "copi"), {}, "there is no connector 'copi'; did you mean 'copy'? known: copy"),
        ],
    )
    def test_invalid_offsets_are_refused_without_changes(
        self,
        ask: Ask,
        tmp_path: Path,
        unique: str,
        words: tuple[str, ...],
        more: dict[str, Any],
        said: str,
    ) -> None:
        far = self.document(tmp_path, unique, 11).replace("to.json", "far.json")
        Path(far).write_text((tmp_path / "to.json").read_text())
        to = self.document(tmp_path, unique, 8)
        refused = ask(*(word.format(to=to, far=far) for word in words), **more)
        assert refused.exit_code == 1
        assert said in " ".join(refused.output.split())
        assert self.position(ask) == 5


TABLE_MANIFESTS = """
apiVersion: cooperator.dev/v1alpha1
kind: Worker
metadata: {{name: lake}}
spec: {{replicas: 1}}
---
apiVersion: cooperator.dev/v1alpha1
kind: Connector
metadata: {{name: copy}}
spec:
  workerRef: {{name: lake}}
  class: postgres-to-kafka
  state: Stopped
  config:
    connection.url: "{url}"
    connection.user: tester
    connection.password: ${{env:TABLES_PASSWORD}}
    tables: {table}
    mode: incrementing
    topic: out
"""


@pytest.mark.real
class TestTables:
    """A table of 10 rows, of which a connector has read 5, as its checkpoint says."""

    @pytest.fixture
    def ask(
        self, broker: EmbeddedBroker, tmp_path: Path, unique: str, monkeypatch: pytest.MonkeyPatch
    ) -> Iterator[Ask]:
        table = unique.replace("-", "_")
        postgres = Postgres()
        postgres.start()
        try:
            postgres.query(f"CREATE TABLE {table} (id serial PRIMARY KEY)")
            postgres.query(f"INSERT INTO {table} SELECT FROM generate_series(1, 10)")
            state = StateDir(tmp_path)
            write_json(state.cluster, {"id": "test", "bootstrap_servers": None, "down": False})
            unit = state.worker("default", "lake").checkpoints / "copy" / table
            (unit / "offsets").mkdir(parents=True)
            (unit / "commits").mkdir()
            (unit / "metadata").write_text('{"id": "query"}')
            (unit / "offsets" / "0").write_text('v1\n{}\n{"incrementing": 5}')
            (unit / "commits" / "0").write_text("v1\n{}")
            monkeypatch.setenv("TABLES_PASSWORD", PASSWORD)
            text = TABLE_MANIFESTS.format(url=postgres.url, table=table)
            ManifestStore(state, lambda: 0).apply(parse(text, "test.yaml"), "test.yaml")
            group = {"namespace": "default", "worker": "lake", **leader()}
            tasks = [{"namespace": "default", "worker": "lake", **task} for task in leader()["tasks"]]
            view = {"bootstrap_servers": broker.bootstrap_servers, "groups": [group], "tasks": tasks}
            monkeypatch.setattr(offsets, "ask_host", lambda directory: view)
            yield lambda *words: CliRunner().invoke(app, [*words, "--state-dir", str(tmp_path)])
        finally:
            postgres.close()

    @staticmethod
    def position(ask: Ask) -> Any:
        listed = json.loads(ask("list", "copy").stdout)["offsets"]
        return [entry["offset"] for entry in listed]

    def test_positions_of_tables_are_listed_moved_and_reset(
        self, ask: Ask, tmp_path: Path, unique: str
    ) -> None:
        table = unique.replace("-", "_")
        to = tmp_path / "to.json"
        to.write_text(
            json.dumps({"offsets": [{"partition": {"table": table}, "offset": {"incrementing": 8}}]})
        )
        assert self.position(ask) == [{"incrementing": 5}]
        for words in (("alter", "copy", "--to", str(to)), ("reset", "copy", "--to", str(to))):
            tried = ask(*words, "--dry-run")
            assert '{"incrementing": 5} -> {"incrementing": 8}' in tried.stdout
            assert "1 position would change" in tried.output
            assert self.position(ask) == [{"incrementing": 5}]
        assert ask("alter", "copy", "--to", str(to)).exit_code == 0
        assert self.position(ask) == [{"incrementing": 8}]
        assert (
            '{"incrementing": 8} -> {"incrementing": 10}'
            in ask("reset", "copy", "--to", "latest", "--dry-run").stdout
        )
        assert ask("reset", "copy", "--to", "latest").exit_code == 0
        assert self.position(ask) == [{"incrementing": 10}]
        assert '{"incrementing": 10} -> none' in ask("reset", "copy", "--to", "earliest").stdout
        assert self.position(ask) == []
        assert ask("alter", "copy", "--to", str(to)).exit_code == 0
        assert '{"incrementing": 8} -> none' in ask("reset", "copy").stdout
        assert self.position(ask) == []

    def test_positions_that_are_in_checkpoints_are_not_migrated(self, ask: Ask) -> None:
        refused = ask("migrate", "copy")
        assert refused.exit_code == 1
        assert "so that there is nothing to migrate" in " ".join(refused.output.split())

    def test_impossible_table_positions_are_refused(self, ask: Ask, tmp_path: Path, unique: str) -> None:
        to = tmp_path / "to.json"
        table = unique.replace("-", "_")
        for partition, offset, said in (
            ({"table": "elsewhere"}, {"incrementing": 1}, "the connector does not read this table; it reads"),
            ({"table": table}, {"incrementing": "one"}, 'write {"incrementing": <number>}'),
            ({"topic": table}, {"incrementing": 1}, '; write {"table": "<name>"}'),
        ):
            to.write_text(json.dumps({"offsets": [{"partition": partition, "offset": offset}]}))
            refused = ask("alter", "copy", "--to", str(to))
            assert refused.exit_code == 1
            assert said in " ".join(refused.output.split())
        assert self.position(ask) == [{"incrementing": 5}]
