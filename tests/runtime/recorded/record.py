"""Records checkpoints of the installed Spark beside this file: see README.md."""

import tempfile
import zipfile
from pathlib import Path
from typing import Final

import pyspark

from cooperator.local.broker import EmbeddedBroker
from cooperator.runtime import RuntimeSettings
from cooperator.runtime.spark import SparkRuntime
from tests.harness.support import eventually
from tests.runtime.heard import Heard
from tests.runtime.recorded import pipelines
from tests.runtime.spark_bench import SparkBench

HERE: Final = Path(__file__).parent


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        broker = EmbeddedBroker(root / "broker")
        broker.start()
        settings = RuntimeSettings(
            member="lake-0",
            incarnation="incarnation-1",
            checkpoints=root / "checkpoints",
            state_dir=root / "state",
            group_id="recorded-group",
            bootstrap_servers=broker.bootstrap_servers,
            allowed_files=(scratch,),
        )
        heard = Heard()
        runtime = SparkRuntime(settings, heard)
        runtime.warm_up()
        try:
            for pipeline in pipelines.ALL:
                record(SparkBench(runtime, heard, settings), pipeline, root / pipeline.kind)
        finally:
            runtime.close(30)
            broker.stop()


def record(bench: SparkBench, pipeline: pipelines.Recorded, home: Path) -> None:
    name = f"recorded-{pipeline.kind}"
    checkpoint = bench.settings.checkpoints / name
    (home / "in").mkdir(parents=True)
    bench.produce(name, [])
    tasks = bench.start_connector(name, pipeline.config(home, name), 1)
    for batch in range(pipeline.batches):
        pipeline.feed(bench, home, name, batch)
        done = checkpoint / pipeline.unit(name) / "commits" / str(batch)
        eventually(done.exists, 120, f"batch {batch}")
    assert pipeline.found(bench, home, name) == pipeline.wanted(pipeline.batches)
    bench.stop(*tasks)
    path = HERE / f"{pipeline.kind}-{pyspark.__version__}.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for place, word in ((checkpoint, "checkpoint"), (home, "home")):
            for file in sorted(file for file in place.rglob("*") if file.is_file()):
                if file.name.endswith(".crc"):
                    continue  # of a file that has other paths in the test
                content = file.read_bytes()
                for known, mark in ((checkpoint, b"@CHECKPOINT@"), (home, b"@HOME@")):
                    content = content.replace(str(known).encode(), mark)
                archive.writestr(f"{word}/{file.relative_to(place)}", content)


if __name__ == "__main__":
    main()
