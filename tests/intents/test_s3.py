"""A directory in an S3 store, with a real server and S3A's client in a JVM without Spark."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import obstore
import pyspark
import pytest
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

import cooperator.runtime
from cooperator.artifacts import resolve
from cooperator.connectors.intents.batches import FileBatches, Written
from cooperator.connectors.intents.machine import KEPT
from cooperator.connectors.intents.naming import visible_name
from cooperator.connectors.intents.owner import DirectoryOwner, settle_owner
from cooperator.connectors.intents.s3_store import S3Store
from cooperator.connectors.intents.units import FileUnits
from cooperator.connectors.microbatch.claims import Claim
from cooperator.connectors.microbatch.ranges import OffsetRange, Partition
from cooperator.connectors.options import OptionError
from cooperator.connectors.places import StorePlace, store_place
from cooperator.model import Epoch
from tests.intents.lines import A, B, LineStager, Writer
from tests.runtime.s3_server import S3Server

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    server = S3Server(tmp_path_factory.mktemp("s3"))
    yield server
    server.stop()


@pytest.fixture(scope="module")
def spark(server: S3Server) -> Iterator[Any]:
    """The parts of a Spark session that a store uses: its JVM, and Hadoop's settings."""
    jars = Path(pyspark.__file__).parent / "jars"
    own = Path(cooperator.runtime.__file__).parent / "jars" / "cooperator-spark.jar"
    class_path = [jars / "*", *resolve("spark-s3"), *resolve("aws-sdk"), own]
    [py4j] = jars.glob("py4j*.jar")
    port = launch_gateway(
        classpath=":".join(map(str, class_path)),
        die_on_exit=True,
        javaopts=["-Xmx256m", "-XX:TieredStopAtLevel=1"],
        jarpath=str(py4j),
    )
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port))
    settings = {
        "endpoint": f"http://127.0.0.1:{server.port}",
        "endpoint.region": server.KEYS["AWS_REGION"],
        "path.style.access": "true",
        "access.key": server.KEYS["AWS_ACCESS_KEY_ID"],
        "secret.key": server.KEYS["AWS_SECRET_ACCESS_KEY"],
    }

    def conf() -> Any:
        made = gateway.jvm.org.apache.hadoop.conf.Configuration()
        for name, value in settings.items():
            made.set(f"fs.s3a.{name}", value)
        return made

    state = SimpleNamespace(newHadoopConf=conf)
    yield SimpleNamespace(_jvm=gateway.jvm, _jsparkSession=SimpleNamespace(sessionState=lambda: state))
    gateway.shutdown()


class ObjectStager(LineStager):
    """Writes a line per offset into objects of the bucket."""

    def __init__(self, server: S3Server) -> None:
        super().__init__()
        self._server = server

    def write(self, directory: str, ranges: Sequence[OffsetRange]) -> Written:
        folder = directory.removeprefix(f"s3a://{self._server.bucket}/")
        for number, each in enumerate(ranges):
            lines = "".join(f"{each.partition},{n}\n" for n in range(each.start, each.end))
            self._server.store().put(f"{folder}/part-{number:05}-j-c000.csv.staged", lines.encode())
        return Written(sum(each.size for each in ranges), {each.partition: each.size for each in ranges})


class StoreWriter(Writer):
    """One attempt at both units of a directory in the store."""

    def __init__(self, spark: Any, server: S3Server, root: StorePlace, attempt: int) -> None:
        super().__init__(Path("/none"), attempt)
        self.store = S3Store(spark, root)
        names = {unit: str(unit) for unit in (A, B)}
        self.units = FileUnits(self.claim, names, lambda unit: self.store, self.stopped)
        self.batches = FileBatches(self.units, ObjectStager(server))


def lines(server: S3Server, folder: str) -> list[str]:
    """The lines that a reader finds, sorted."""
    found = [bytes(server.store().get(path).bytes()).decode() for path in csv_of(server, folder)]
    return sorted(line for text in found for line in text.splitlines())


def directory(server: S3Server, folder: str) -> StorePlace:
    return store_place(f"s3a://{server.bucket}/{folder}", {}, server.environment, "path")


def test_a_successor_finishes_a_cut_and_a_woken_attempt_brings_no_object_back(
    spark: Any, server: S3Server, unique: str
) -> None:
    root = directory(server, unique)
    zombie = StoreWriter(spark, server, root, 1)
    assert zombie.begin() == {}
    for n in range(6):
        assert zombie.run(OffsetRange(A, n, n + 1), OffsetRange(B, n, n + 1)).failures == []
    assert len(zombie.store.numbers(str(A))) == KEPT
    publish, frozen = zombie.store.publish, []
    zombie.store.publish = frozen.append
    zombie.run(OffsetRange(A, 6, 9))
    assert len(lines(server, unique)) == 12
    successor = StoreWriter(spark, server, root, 2)
    assert successor.begin() == {A: 9, B: 6}
    assert lines(server, unique) == [f"{A},{n}" for n in range(9)] + [f"{B},{n}" for n in range(6)]
    for path in csv_of(server, unique):
        server.store().delete(path)
    for file in frozen:
        publish(file)
    assert lines(server, unique) == []
    assert "newer than this one" in zombie.run(OffsetRange(B, 6, 7)).failures[0].error
    assert successor.run(OffsetRange(B, 6, 7)).failures == []
    assert lines(server, unique) == [f"{B},6"]
    hidden = [
        entry["path"] for page in obstore.list(server.store(), f"{unique}/_cooperator/") for entry in page
    ]
    assert all("/log/" in path for path in hidden), "nothing else is left"


def test_a_directory_in_a_store_has_one_owner(server: S3Server, unique: str) -> None:
    root, owner = directory(server, unique), DirectoryOwner("lake", "c")
    settle_owner(root, owner)
    settle_owner(root, owner)
    with pytest.raises(OptionError, match=f"is the directory of {owner}"):
        settle_owner(root, DirectoryOwner("lake", "d"))
    server.store().put(f"{unique}-old/orders-0/_spark_metadata/0", b"v1")
    with pytest.raises(OptionError, match=r"_spark_metadata.*set another directory"):
        settle_owner(directory(server, f"{unique}-old"), owner)


def test_an_upload_ends_once_and_uploads_of_older_attempts_are_ended(
    spark: Any, unique: str, server: S3Server
) -> None:
    root = store_place(f"s3a://{server.bucket}/{unique}", {}, server.environment, "path")
    store, unit = S3Store(spark, root), f"{unique}-0"
    claims = [Claim(Epoch(1, generation), 1, "m") for generation in (1, 2)]
    staged = []
    for claim in claims:
        server.store().put(f"{unique}/_cooperator/staging/{claim}/b/x.staged", b"some rows")
        [output] = store.outputs(claim, "b")
        assert output == ("x.staged", 9)
        name = visible_name(
            "part-00000-j-c000.csv.staged",
            OffsetRange(Partition(unique, 0), 7, 9),
            claim,
            f"{claim.epoch.generation}-b",
            0,
        )
        staged.append(store.stage(unit, claim.epoch.generation, (claim, "b"), output.path, name))
    successor = S3Store(spark, root)
    successor.discard({unit: 2}, [claims[0]])
    successor.publish(staged[0])
    assert csv_of(server, unique) == [], "the older attempt's upload was ended"
    for _ in range(2):
        successor.publish(staged[1])
        assert csv_of(server, unique) == [f"{unique}/{staged[1].name}"]
    server.store().delete(f"{unique}/{staged[1].name}")
    successor.publish(staged[1])
    assert csv_of(server, unique) == []
    broken = S3Store(spark, store_place("s3a://no-such-bucket/x", {}, server.environment, "path"))
    with pytest.raises(OSError, match="the store refuses"):
        broken.newest("a-0")


def csv_of(server: S3Server, folder: str) -> list[str]:
    found = [entry["path"] for page in obstore.list(server.store(), f"{folder}/") for entry in page]
    return [path for path in found if path.endswith(".csv")]
