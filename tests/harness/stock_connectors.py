"""The Java connectors of these tests (``stock/java``) as a folder for Connect's ``plugin.path``."""

import hashlib
import os
import subprocess
import tempfile
import zipfile
from pathlib import Path
from typing import Final

from cooperator.artifacts import find_java, resolve
from tests.kubernetes.caches import cache_folder, once

_SOURCES: Final = Path(__file__).parents[1] / "stock" / "java"
_PACKAGE: Final = "cooperator.stock"
_SERVICES: Final = {
    "org.apache.kafka.connect.source.SourceConnector": ("SequenceSource", "BlockingSource"),
    "org.apache.kafka.connect.sink.SinkConnector": ("SequenceSink", "BlockingSink", "TimedSink"),
}
"""Listed, so that a worker finds them without reading all classes of its class path."""


def plugin_path() -> Path:
    """The folder, compiled once per content of the sources. Raises RuntimeError if they do not compile."""
    sources = sorted(_SOURCES.glob("*.java"))
    digest = hashlib.sha256(b"\0".join(source.read_bytes() for source in sources)).hexdigest()[:16]
    return once(
        cache_folder("stock-connectors", digest),
        lambda folder: _build(sources, folder / "connectors" / "connectors.jar"),
    )


def _build(sources: list[Path], jar: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="stock-connectors-") as classes:
        class_path = os.pathsep.join(map(str, resolve("kafka")))
        [compiler] = resolve("java-compiler")
        command = [
            find_java(),
            "-jar",
            compiler,
            "-17",
            "-nowarn",
            "-cp",
            class_path,
            "-d",
            classes,
            *sources,
        ]
        compiled = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False)
        if compiled.returncode:
            raise RuntimeError(f"{_SOURCES} does not compile:\n{compiled.stderr[-2000:]}")
        jar.parent.mkdir()
        with zipfile.ZipFile(jar, "w") as archive:
            for file in sorted(Path(classes).rglob("*.class")):
                archive.write(file, file.relative_to(classes))
            for service, names in _SERVICES.items():
                text = "".join(f"{_PACKAGE}.{name}\n" for name in names)
                archive.writestr(f"META-INF/services/{service}", text)
