"""Built-in classes pass the conformance suite of plug-ins, with the input and output of the table's rows."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from cooperator.connectors.conformance import Trial, check
from cooperator.local.broker import EmbeddedBroker
from tests.guarantees.pipeline import Kafka, Pipeline, Place
from tests.guarantees.pipelines import PIPELINES
from tests.runtime.postgres import PASSWORD, Postgres

PATIENCE_S = 300


class RowTrial(Trial):
    """A row of the table as a trial of the suite."""

    def __init__(self, pipeline: Pipeline, directory: Path) -> None:
        super().__init__(directory)
        self.connector_class = pipeline.connector_class  # type: ignore[misc]
        self._pipeline = pipeline

    def config(self) -> Mapping[str, str]:
        """The configuration with a reference for the password, as users write it."""
        password = self.directory / "password"
        password.write_text(PASSWORD)
        options = self._pipeline.options()
        known = {"connection.password": f"${{file:{password}}}"}
        return {**options, **{name: known[name] for name in known.keys() & options.keys()}}

    def refused(self) -> Iterable[tuple[Mapping[str, str], str]]:
        yield {"tasks.max": "0"}, "tasks.max"
        yield {"transform.sql": "DELETE FROM input"}, "transform.sql"

    def prepare(self) -> None:
        self._pipeline.prepare()

    def feed(self, records: Sequence[str]) -> None:
        self._pipeline.write(list(records))

    def found(self) -> Counter[str]:
        return self._pipeline.found()


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    postgres = Postgres()
    postgres.start()
    yield postgres
    postgres.close()


@pytest.mark.real
@pytest.mark.timeout(1200)
@pytest.mark.long("tests/guarantees/test_guarantees.py::test_the_sink_contains_the_input")
@pytest.mark.parametrize("row", PIPELINES, ids=lambda row: row.slug())
def test_a_built_in_class_conforms(
    row: type[Pipeline], broker: EmbeddedBroker, postgres: Postgres, tmp_path: Path, unique: str
) -> None:
    for folder in ("sources", "shared"):
        (tmp_path / folder).mkdir()
    kafka = Kafka(broker.bootstrap_servers)
    place = Place(kafka, postgres, unique, tmp_path / "sources", tmp_path / "shared")
    check(RowTrial(row(place), tmp_path), patience_s=PATIENCE_S, bootstrap_servers=broker.bootstrap_servers)
