"""The Spark session of a process: one JVM, started when the first task needs it, replaced when it dies.

The JVM is a child in the same process group and ends when the parent's end of its standard input closes, so
it does not outlive the member for long; only killing the process group gives certainty. It logs to
``<state_dir>/jvm.log`` (rolling) and ``jvm.out`` (the JVM's own output), never to the terminal.
"""

import logging
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotYet
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from cooperator.artifacts import FILE_NAMES, find_java, java_home, spark_jars, use_archive
from cooperator.connectors.base import Cancelled
from cooperator.connectors.places import hadoop_settings, is_in_store
from cooperator.connectors.sql_functions import XML_OPTIONS
from cooperator.connectors.stateful import PROVIDER, ROCKSDB
from cooperator.runtime.api import RuntimeSettings
from cooperator.runtime.class_path import jars_of, packaged
from cooperator.runtime.executors import SCHEME, executor_settings, remove_executors
from cooperator.runtime.user import user_environment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

_ROCKSDB: Final = "spark.sql.streaming.stateStore.rocksdb"
logging.getLogger("py4j").setLevel(logging.ERROR)  # py4j logs each closed connection at level info

_WAIT_SLICE_S = 0.2
_KILLED_S = 10.0
"""The system ends a process that was killed long before."""
_AT_LAUNCH = (
    "spark.driver.",
    "spark.jars",
    "spark.submit.",
    "spark.master",
    "spark.files",
    "spark.kubernetes.",
)
"""Settings that the JVM must be started with. The others are set inside, where no process list shows them."""


ARCHIVE = "spark"
"""The name of the class archive."""


def spark_conf(
    settings: RuntimeSettings,
    jars: tuple[Path, ...],
    user: Mapping[str, str],
    java_options: Sequence[str] = (),
) -> dict[str, str]:
    """Returns the session's configuration: defaults for many small queries, overridden by the user's.

    The references of ``user`` are resolved. Class paths are joined, not replaced. ``java_options`` come
    before the user's ``spark.driver.extraJavaOptions``.
    """
    cores = max(4, 2 * (os.cpu_count() or 1))
    log4j = f"-Dlog4j2.configurationFile={packaged('log4j2.xml').as_uri()}"
    java = java_words("-XX:+UseSerialGC", *XML_OPTIONS, log4j, *java_options)
    ours = {
        # A failed read of Kafka is tried eight times: a broker may be away for a while.
        "spark.master": f"local[{cores},8]",
        "spark.app.name": f"cooperator {settings.member}",
        "spark.ui.enabled": "false",
        "spark.driver.memory": f"{settings.heap_mb}m",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.defaultJavaOptions": java,
        "spark.executor.defaultJavaOptions": " ".join(XML_OPTIONS),
        # Relative to the JVM's directory, which is the member's: this is a list, separated by commas.
        "spark.local.dir": "spark",
        "spark.scheduler.mode": "FAIR",
        # Otherwise a Spark task without memory ends the JVM, and with it the tasks of all connectors.
        "spark.executor.killOnFatalError.depth": "0",
        # Files in the making have a quarter of the heap; the default is nearly all of it.
        "spark.hadoop.parquet.memory.pool.ratio": "0.25",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.warehouse.dir": str(settings.state_dir / "warehouse"),
        "spark.sql.session.timeZone": "UTC",
        # INT96, the default, is read as a time of another century by most readers if it is beyond 2262.
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.files.maxPartitionBytes": "16m",
        # Small files share a partition.
        "spark.sql.files.openCostInBytes": "65536",
        # Directories and the files of a batch are listed here; a Spark job for them costs more than it saves.
        "spark.sql.sources.parallelPartitionDiscovery.threshold": "512",
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": str(cores),
        "spark.sql.streaming.minBatchesToRetain": "5",
        "spark.sql.streaming.numRecentProgressUpdates": "16",
        "spark.sql.streaming.stopTimeout": "30s",
        # A replayed batch writes its state under the same names, and checksums of an interrupted attempt may
        # then contradict it (SPARK-56461). They double the files, and each store has four threads for them.
        "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
        "spark.hadoop.mapreduce.input.pathFilter.class": "dev.cooperator.spark.BucketPathFilter",
        # State of new queries; a checkpoint with another provider keeps that.
        PROVIDER: ROCKSDB,
        f"{_ROCKSDB}.changelogCheckpointing.enabled": "true",
        # Otherwise each state partition of each query has buffers of its own.
        f"{_ROCKSDB}.boundedMemoryUsage": "true",
        f"{_ROCKSDB}.maxMemoryUsageMB": str(max(64, settings.heap_mb // 4)),
    }
    if is_in_store(str(settings.checkpoints)):
        ours |= hadoop_settings(user, os.environ)
    if user.get("spark.master", "").startswith(SCHEME):
        ours |= executor_settings(user)
    conf = {**ours, **user}
    for name in ("spark.driver.defaultJavaOptions", "spark.executor.defaultJavaOptions"):
        if name in user:
            conf[name] = " ".join((*XML_OPTIONS, user[name]))
    if not conf["spark.master"].startswith("local"):
        conf["spark.jars"] = ",".join([*map(str, jars), *filter(None, [user.get("spark.jars")])])
        for name in ("spark.driver.host", "spark.driver.bindAddress"):
            if name not in user:
                del conf[name]
    class_path = [*map(str, jars), *filter(None, [user.get("spark.driver.extraClassPath")])]
    conf["spark.driver.extraClassPath"] = os.pathsep.join(class_path)
    return conf


def java_words(*options: str) -> str:
    """Returns the text that Spark's launcher splits into these options."""
    return " ".join(map(_java_word, options))


def _java_word(option: str) -> str:
    if not re.search(r"[\s\"'\\]", option):
        return option
    return '"' + re.sub(r'(["\\])', r"\\\1", option) + '"'


class SparkHost:
    """Holds the session of this process. It is thread-safe."""

    def __init__(
        self,
        settings: RuntimeSettings,
        java_options: Sequence[str] | None = None,
        on_start: Callable[[Exception | None], None] = lambda error: None,
    ) -> None:
        """``java_options`` replace those that use the class archive, if there is one.

        ``on_start`` is called at the end of each start, with the error if it failed.
        """
        self._settings = settings
        self._java_options = java_options
        self._on_start = on_start
        self._lock = threading.Lock()
        self._starting: Future[SparkSession] | None = None
        self._jvm: subprocess.Popen[bytes] | None = None

    def session(self, cancelled: threading.Event) -> "SparkSession":
        """Returns the session; the first call starts it (5 to 9 s), as does the first after the JVM has died.

        Raises ``Cancelled`` when the event is set first.
        """
        starting = self.begin()
        while not cancelled.is_set():
            try:
                return starting.result(_WAIT_SLICE_S)
            except NotYet:
                continue
        raise Cancelled

    def begin(self) -> "Future[SparkSession]":
        """Starts the session unless there is one; returns at once."""
        with self._lock:
            dead = self._starting is not None and self._starting.done() and not self._usable(self._starting)
            if self._starting is None or dead:
                self._starting = Future()
                starting = (self._starting,)
                threading.Thread(target=self._start, args=starting, name="spark start", daemon=True).start()
            return self._starting

    def _usable(self, started: "Future[SparkSession]") -> bool:
        """Whether its JVM runs, its application has not been ended by a cluster, and it is this process's
        session."""
        if not self.alive or started.exception(0) is not None:
            return False
        context: Any = started.result(0).sparkContext
        if type(context)._active_spark_context is not context:
            return False
        try:
            return not context._jsc.sc().isStopped()
        except Exception:
            return False

    @property
    def alive(self) -> bool:
        """Whether a JVM runs."""
        return self._jvm is not None and self._jvm.poll() is None

    def close(self, timeout_s: float) -> None:
        """Ends the JVM, by force if it does not end by itself in time."""
        deadline = time.monotonic() + timeout_s
        with self._lock:
            starting, self._starting = self._starting, None
        if starting is None:
            return
        try:
            session = starting.result(timeout_s)
        except Exception:
            session = None
        if session is not None and self.alive:
            stopper = threading.Thread(target=session.stop, daemon=True)
            stopper.start()
            stopper.join(max(0.0, deadline - time.monotonic()))
        jvm = self._jvm
        if jvm is not None:
            if jvm.stdin is not None:
                jvm.stdin.close()
            try:
                jvm.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                jvm.kill()
                jvm.wait(_KILLED_S)
        _forget_context()

    def _start(self, started: "Future[SparkSession]") -> None:
        began = time.monotonic()
        try:
            session = self._launch()
        except Exception as error:
            log.error("Spark could not be started: %s", error)
            if self._jvm is not None:
                self._jvm.kill()
            started.set_exception(error)
            self._on_start(error)
        else:
            log.info("Spark %s is up after %.1f s", session.version, time.monotonic() - began)
            started.set_result(session)
            self._on_start(None)

    def _launch(self) -> "SparkSession":
        from pyspark import SparkConf, SparkContext, java_gateway
        from pyspark.sql import SparkSession

        untyped: Any = java_gateway

        settings = self._settings
        settings.state_dir.mkdir(parents=True, exist_ok=True)
        user = settings.resolved_conf()
        jars = jars_of(settings)
        archive = self._java_options
        if archive is None:
            archive = use_archive(ARCHIVE, (*jars, *spark_jars()))
        conf = spark_conf(settings, jars, user, archive)
        _forget_context()
        if self._jvm is not None and self._jvm.poll() is None:
            # Its context has ended, and this JVM cannot start another.
            self._jvm.kill()
            self._jvm.wait(_KILLED_S)
        home = java_home(find_java())
        with _environment(home, settings.state_dir), (settings.state_dir / "jvm.out").open("wb") as output:
            at_launch = SparkConf(loadDefaults=False)
            for name, value in conf.items():
                if name.startswith(_AT_LAUNCH):
                    at_launch.set(name, value)
            # Sessions leave files ("artifacts") in the JVM's working directory.
            process = {"stdout": output, "stderr": subprocess.STDOUT, "cwd": settings.state_dir}
            gateway = untyped.launch_gateway(at_launch, process)
            self._jvm = gateway.proc
            inside = SparkConf(loadDefaults=False, _jvm=gateway.jvm)
            for name, value in conf.items():
                inside.set(name, value)
            untyped_context: Any = SparkContext
            untyped_context._ensure_initialized(gateway=gateway)  # pyspark needs it to read Java's exceptions
            remove_executors(gateway.jvm, conf, inside)
            # The context reads the environment, too: the Python of its workers.
            context = SparkContext(conf=inside, gateway=gateway)
        _quiet_pyspark()
        # Queries start on several threads, and this call is not thread-safe: so it is made once, before any
        # of them.
        untyped.ensure_callback_server_started(gateway)
        return SparkSession(context)


def _quiet_pyspark() -> None:
    """Silences pyspark's own logging of query errors to stderr, with a trace and values of rows.

    The caller of the query gets the error in any case.
    """
    from pyspark.logger import PySparkLogger

    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL)


@contextmanager
def _environment(home: Path, state_dir: Path) -> Iterator[None]:
    """Sets the environment for launching the JVM: Java, the Spark of the installed pyspark, a user."""
    import pyspark

    wanted = {
        "JAVA_HOME": str(home),
        **FILE_NAMES,
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "PYSPARK_PYTHON": sys.executable,
        **user_environment(state_dir / "user", os.environ),
    }
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _forget_context() -> None:
    """Resets pyspark's class attributes: it keeps one context per process, and does not notice a dead JVM."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    context: Any = SparkContext
    context._active_spark_context = None
    context._gateway = None
    context._jvm = None
    session: Any = SparkSession
    session._instantiatedSession = None
    session._activeSession = None
