"""Directories may have any name that the file system allows; what Spark or Java cannot take is refused.

Names that stand for many: spaces, quotes, what URIs, shells, lists, patterns and class paths use, and letters
in both of Unicode's forms.
"""

import os
import shlex
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import pyarrow.dataset
import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from hypothesis import given
from hypothesis import strategies as st

from cooperator.artifacts import ArtifactError
from cooperator.artifacts.cache import cache_root
from cooperator.connectors import anchor
from cooperator.crd import Connector, ResourceError, parse
from cooperator.demo import job
from cooperator.local.admission import anchored
from cooperator.local.broker import EmbeddedBroker
from cooperator.local.layout import ClusterError
from cooperator.local.lifecycle import kill_everything
from cooperator.local.options import state_dir
from cooperator.runtime.session import java_words
from tests.harness.support import eventually
from tests.local.command_line import Local

ORDINARY = "a b'ä" + unicodedata.normalize("NFD", "ö") + '"%20 %#+,;=$HOME&|<>~!^`@()'
"""What a project's directory may be called."""
PATTERNS = "*?[]{}\\"
ANY = f"{ORDINARY}:{PATTERNS}${{x}}\n\t"
"""What a state directory may be called: nothing in it is found by its name."""

# The connector's class is irrelevant: it is the first that has a path.
SINK = """
apiVersion: cooperator.dev/v1alpha1
kind: Connector
metadata: {name: c}
spec: {workerRef: {name: w}, class: kafka-to-files, config: {topics: t, path: ./out, format: json}}
"""
WORKER = """
apiVersion: cooperator.dev/v1alpha1
kind: Worker
metadata: {name: w}
spec: {checkpointLocation: checkpoints}
"""


def split_by_spark(text: str) -> list[str]:
    """``CommandBuilderUtils.parseOptionString`` of Spark's launcher, line by line."""
    words: list[str] = []
    word: list[str] = []
    in_option = in_single = in_double = is_escaped = False
    for character in text:
        if is_escaped:
            word.append(character)
            is_escaped = False
        elif character == "\\" and not in_single:
            is_escaped = True
            in_option = True
        elif character == '"' and not in_single:
            in_double = not in_double
            in_option = True
        elif character == "'" and not in_double:
            in_single = not in_single
            in_option = True
        elif character.isspace() and not in_single and not in_double:
            if in_option:
                words.append("".join(word))
                word, in_option = [], False
        else:
            word.append(character)
            in_option = True
    return [*words, "".join(word)] if in_option else words


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1)))
def test_spark_s_launcher_splits_options_as_they_were(options: list[str]) -> None:
    assert split_by_spark(java_words(*options)) == options


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="/\0\n"), min_size=1))
def test_the_demo_s_manifests_have_the_paths_that_they_were_made_of(name: str) -> None:
    sources, lake = Path("/", name, "sources"), Path("/", name, "lake")
    resources = parse(job.manifests(sources, 8, lake, 60_000), "demo")
    found = [each.spec.config["path"] for each in resources if isinstance(each, Connector)]
    assert found == [str(sources), str(lake)]


@pytest.mark.parametrize("character", [*"*?[]{}\\", "${x}", "\udcff"])
def test_a_path_relative_to_what_spark_cannot_read_is_refused_when_applied(character: str) -> None:
    base = Path(f"/home/a{character}b")
    with pytest.raises(ResourceError) as refused:
        anchored(parse(SINK, "m"), base)
    assert "spec.config.path is relative to '/home/a" in str(refused.value)
    assert "rename it, or use an absolute path" in str(refused.value)
    assert anchored(parse(SINK.replace("./out", "/out"), "m"), base) == parse(
        SINK.replace("./out", "/out"), "m"
    )


@pytest.mark.parametrize("name", [ORDINARY, *ORDINARY.replace("/", "")])
def test_paths_relative_to_ordinary_directories_are_accepted(name: str) -> None:
    base = Path("/home", f"x{name}")
    [connector] = anchored(parse(SINK, "m"), base)
    assert connector.spec.config["path"] == f"{base}/out"
    assert anchor("files-to-kafka", {"path": "./in"}, base) == {"path": f"{base}/in"}
    [worker] = anchored(parse(WORKER, "m"), base)
    assert worker.spec.checkpoint_location == f"{base}/checkpoints"


def test_what_is_not_utf_8_is_refused() -> None:
    with pytest.raises(ClusterError, match=r"'/home/a\\udcff' is not UTF-8.*rename the directory"):
        state_dir(Path("/home/a\udcff"))
    with pytest.raises(ResourceError, match=r"spec.checkpointLocation is relative to .* is not UTF-8"):
        anchored(parse(WORKER, "m"), Path("/home/a\udcff"))


@pytest.mark.parametrize("character", [*":[]()\n\r", "\udcff"])
def test_a_cache_that_no_class_path_can_have_is_refused(
    monkeypatch: pytest.MonkeyPatch, character: str
) -> None:
    monkeypatch.setenv("COOPERATOR_CACHE", f"/home/a{character}b")
    with pytest.raises(ArtifactError, match=r"a class path of Java cannot have.*set COOPERATOR_CACHE"):
        cache_root()


START_S = 240.0
"""A broker that has just been formatted may take long on a busy machine."""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[EmbeddedBroker]:
    monkeypatch.setenv("LC_ALL", "C")
    broker = EmbeddedBroker(tmp_path / ANY / "broker")
    yield broker
    broker.kill()


@pytest.mark.real
def test_a_broker_starts_again_in_a_directory_of_any_name(own: EmbeddedBroker) -> None:
    for topic in ("first", "second"):
        own.start(START_S)
        admin = AdminClient({"bootstrap.servers": own.bootstrap_servers, "log_level": 0})
        admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(timeout=30)
        own.stop()
    own.start(START_S)
    admin = AdminClient({"bootstrap.servers": own.bootstrap_servers, "log_level": 0})
    assert {"first", "second"} <= set(admin.list_topics(timeout=30).topics)
    directory = own.log.parent
    assert {path.name for path in directory.iterdir()} >= {"broker.log", "data", "server.properties"}
    assert own.log.stat().st_size > 0


PIPELINE = """
apiVersion: cooperator.dev/v1alpha1
kind: Worker
metadata: {name: lake}
spec: {replicas: 1, runtime: spark}
---
apiVersion: cooperator.dev/v1alpha1
kind: Connector
metadata: {name: sources}
spec: {workerRef: {name: lake}, class: files-to-kafka, config: {path: ./data, topic: lines}}
---
apiVersion: cooperator.dev/v1alpha1
kind: Connector
metadata: {name: archive}
spec:
  workerRef: {name: lake}
  class: kafka-to-files
  config: {topics: lines, path: ./archive, format: parquet}
"""
OWN = """
apiVersion: cooperator.dev/v1alpha1
kind: Connector
metadata: {name: own}
spec:
  workerRef: {name: lake}
  class: spark
  config: {source.format: text, source.options.path: ./data, sink.format: parquet, sink.options.path: ./own}
"""


@pytest.mark.real
@pytest.mark.timeout(900)
def test_rows_flow_from_and_to_directories_of_any_name(tmp_path: Path) -> None:
    # Spark's own readers split paths at commas, so the class spark refuses them.
    projects = {"archive": tmp_path / ORDINARY, "own": tmp_path / ORDINARY.replace(",", "")}
    for directory, project in projects.items():
        (project / "data").mkdir(parents=True)
        for name in ("a", "b"):
            (project / "data" / f"{name}.txt").write_text("1\n2\n")
        (project / "manifest.yaml").write_text(PIPELINE if directory == "archive" else OWN)
    local = Local(
        tmp_path / ANY, "lake", COOPERATOR_RUNTIME="spark", LC_ALL="C", TMPDIR=str(tmp_path / ORDINARY)
    )
    try:
        local("up")
        for project in projects.values():
            local("apply", "-f", str(project / "manifest.yaml"))

        def rows(directory: str) -> int:
            there = projects[directory] / directory
            if not there.exists():
                return 0
            found = pyarrow.dataset.dataset(there, exclude_invalid_files=True, format="parquet")
            return int(found.count_rows())

        for directory in projects:
            eventually(
                lambda directory=directory: rows(directory) == 4,
                600,
                f"all rows are in {directory}",
                every_s=1,
            )
        local("down")
        local("up")
        eventually(
            lambda: {task["state"] for task in local.ask("tasks")} == {"RUNNING"}, 300, "all tasks run again"
        )
        assert (rows("archive"), rows("own")) == (4, 4)
    finally:
        kill_everything(local.state)


def test_the_names_are_what_they_are_said_to_be() -> None:
    assert unicodedata.normalize("NFC", ORDINARY) != ORDINARY != unicodedata.normalize("NFD", ORDINARY)
    assert shlex.quote(ORDINARY) != ORDINARY
    assert len(os.fsencode(ANY)) < 255
