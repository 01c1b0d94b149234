"""Groups of stock workers on the run's broker; the workers map an archive of their classes."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cooperator.local.broker import EmbeddedBroker
from tests.harness.connect_worker import write_worker_classes
from tests.stock.worker_group import StockGroup


@pytest.fixture(scope="session")
def archived(broker: EmbeddedBroker, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], None]:
    """Writes the class archive of a release line of Connect."""

    def write(line: str = "4") -> None:
        write_worker_classes(broker.bootstrap_servers, tmp_path_factory.mktemp("classes"), line)

    return write


@pytest.fixture(scope="module")
def two(
    broker: EmbeddedBroker,
    tmp_path_factory: pytest.TempPathFactory,
    archived: Callable[[str], None],
    request: pytest.FixtureRequest,
    file_name: str,
) -> Iterator[StockGroup]:
    """Two workers for all tests of a file, which may have ``SETTINGS`` for them."""
    archived("4")
    directory = tmp_path_factory.mktemp("two")
    stock = StockGroup(broker.bootstrap_servers, directory, f"two-{file_name}")
    stock.cluster("w-1", "w-2", settings=getattr(request.module, "SETTINGS", {}))
    yield stock
    stock.close()


@pytest.fixture
def shared(two: StockGroup) -> Iterator[StockGroup]:
    """The two workers, which lead themselves and have no connector, before each test."""
    yield two
    two.clear()


@pytest.fixture
def stock(
    broker: EmbeddedBroker, unique: str, tmp_path: Path, archived: Callable[[str], None]
) -> Iterator[StockGroup]:
    archived("4")
    stock = StockGroup(broker.bootstrap_servers, tmp_path, unique)
    yield stock
    stock.close()
