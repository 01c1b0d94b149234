"""A task that copies topics into a table by Spark's tasks, and what may happen to its connections."""

import logging
import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final

from cooperator.connectors.microbatch.copy_batches import CopyBatches, CopyQuery
from cooperator.connectors.microbatch.ends import EndWatcher
from cooperator.connectors.microbatch.loop import TaskLoop
from cooperator.connectors.microbatch.postgres_positions import PostgresPositions
from cooperator.connectors.microbatch.postgres_units import PostgresUnits
from cooperator.connectors.microbatch.ranges import Grouping, Limits, Partition
from cooperator.connectors.microbatch.spark_batches import BatchSource, SparkEnds, session_of_task
from cooperator.connectors.options import parse
from cooperator.connectors.postgres import Database
from cooperator.connectors.postgres_lines import texts
from cooperator.connectors.postgres_sink import DELETED, TargetTable
from cooperator.connectors.postgres_table import describe_table
from cooperator.connectors.postgres_target import KafkaToPostgresOptions
from cooperator.model import Epoch
from tests.microbatch.cluster import Cluster
from tests.microbatch.fakes import from_zero
from tests.microbatch.tasks import LoopThread
from tests.runtime.postgres import Postgres

log = logging.getLogger(__name__)
VALUES: Final = ("CAST(value AS STRING) AS value",)
SLOW_VALUES: Final = (
    "concat(CAST(value AS STRING), nvl2(java_method('java.lang.Thread', 'sleep', 20L), '', '')) AS value",
)
"""A row of it takes 20 ms, so that a batch is under way for a while."""


class CopyTask(LoopThread):
    """A loop that copies ``units`` into ``table``, with claims and positions in the database.

    ``columns`` are SQL of the rows' columns; ``key`` are those of a table with keys. A newer ``generation``
    is a newer attempt.
    """

    def __init__(
        self,
        session: Any,
        cluster: Cluster,
        postgres: Postgres,
        table: str,
        units: Sequence[Partition],
        columns: Sequence[str] = VALUES,
        *,
        key: tuple[str, ...] = (),
        generation: int = 1,
        slots: int = 2,
        slot_size: int = 5_000,
        limits: Limits | None = None,
        config: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__()
        options = parse(
            KafkaToPostgresOptions,
            {
                "connector.class": "kafka-to-postgres",
                "topics": "t",
                "table.name.format": table,
                "bootstrap.servers": cluster.java["bootstrap.servers"],
                **postgres.config,
                **(config or {}),
            },
        )
        stopped = threading.Event()
        self.database = Database(options, table, stopped, self.said.append, options.transaction_timeout_ms)
        with postgres.session() as connection:
            described = describe_table(connection, table)
        assert described is not None
        self.positions = PostgresPositions("cooperator_positions", "g", table)
        names = {unit: str(unit) for unit in units}
        owner = f"m-{generation}"
        units_of = PostgresUnits(self.database, self.positions, names, Epoch(1, generation), 1, owner)
        named = tuple(column.rpartition(" ")[2] for column in columns)
        is_direct = not described.inserts_wait and DELETED not in named
        query = CopyQuery(
            "all",
            lambda records: texts(records.selectExpr(*columns), described.columns),
            TargetTable(table, named, key, is_direct),
        )
        source = BatchSource(cluster.java, pool=f"{table}-{generation}")
        own = session_of_task(session)
        self.batches = CopyBatches(
            own, source, self.database, self.positions, units_of, lambda topic: query, slots
        )
        self.watcher = EndWatcher(SparkEnds(session, cluster.java))
        self.loop = TaskLoop(
            units=units,
            ownership=units_of,
            batches=self.batches,
            ends=self.watcher.subscribe(units, 100),
            limits=limits or Limits(100_000, 100_000),
            grouping=Grouping(slots, slot_size),
            first_offsets=from_zero,
            say=self.said.append,
            stopped=stopped,
        )

    def reached(self, postgres: Postgres) -> dict[Partition, int | None]:
        """The committed positions; none before the first task of this database has made their table."""
        with postgres.session() as connection:
            found = self.positions.all(connection) if self.positions.exists(connection) else {}
        return {Partition.of_unit(unit): state.next for unit, state in found.items()}


class Proxy:
    """Forwards connections to a server, and may withhold the answer to the COMMIT of a copy.

    ``lost`` counts the answers that were withheld; ``to_lose`` are left.
    """

    def __init__(self, port: int, to_lose: int) -> None:
        self._port = port
        self.to_lose = to_lose
        self.lost = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self._port))
                loses = threading.Event()
                for source, sink, inspects in ((client, server, True), (server, client, False)):
                    arguments = (source, sink, loses, inspects)
                    threading.Thread(target=self._forward, args=arguments, daemon=True).start()

    def _forward(
        self, source: socket.socket, sink: socket.socket, loses: threading.Event, inspects: bool
    ) -> None:
        copies = False
        try:
            while data := source.recv(65_536):
                if inspects:
                    copies = copies or b"COPY " in data
                    if copies and b"COMMIT" in data and self.to_lose > 0:
                        self.to_lose -= 1
                        loses.set()
                elif loses.is_set():
                    # The answer is here, so the transaction is committed.
                    self.lost += 1
                    return
                sink.sendall(data)
        except OSError:
            log.debug("a connection has ended")
        finally:
            for each in (source, sink):
                with suppress(OSError):
                    # Closing alone would not wake the thread that reads from it.
                    each.shutdown(socket.SHUT_RDWR)
                each.close()


@contextmanager
def losing_answers(postgres: Postgres, count: int) -> Iterator[tuple[Proxy, dict[str, str]]]:
    """A proxy that withholds so many answers, and the options that use it."""
    proxy = Proxy(postgres.port, count)
    try:
        yield proxy, {"connection.url": f"jdbc:postgresql://127.0.0.1:{proxy.port}/postgres"}
    finally:
        proxy.close()
