"""Builds ``jars/cooperator-spark.jar`` from ``java/src``; needs a JDK and an installed pyspark.

Run it after a change of the sources: ``python operator/cooperator/runtime/java/build.py``. The build is
reproducible byte for byte with the same sources and compiler. A test compares the jar's classes with the
sources.
"""

import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from importlib.util import find_spec
from pathlib import Path

from cooperator.artifacts import resolve

HERE = Path(__file__).resolve().parent
JAR = HERE.parent / "jars" / "cooperator-spark.jar"
RELEASE = "17"
_COMPILED_S = 600.0


def sources() -> list[Path]:
    return sorted((HERE / "src").rglob("*.java"))


def digest() -> str:
    """Returns the sha256 over names and contents of the sources; the jar's manifest keeps it."""
    total = hashlib.sha256()
    for source in sources():
        total.update(source.relative_to(HERE).as_posix().encode() + b"\0" + source.read_bytes() + b"\0")
    return total.hexdigest()


def compile_to(target: Path, javac: str = "javac") -> str:
    """Compiles the sources into ``target``; returns the compiler's version."""
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise SystemExit("pyspark is not installed here; its classes are needed to compile")
    bundles = ("spark-kafka", "postgresql", "spark-s3", "aws-sdk")
    jars = [Path(spec.origin).parent / "jars" / "*", *(jar for bundle in bundles for jar in resolve(bundle))]
    class_path = os.pathsep.join(map(str, jars))
    options = ["--release", RELEASE, "-g:none", "-classpath", class_path, "-d", str(target)]
    subprocess.run([javac, *options, *map(str, sources())], check=True, timeout=_COMPILED_S)
    asked = subprocess.run(
        [javac, "-version"], check=True, capture_output=True, text=True, timeout=_COMPILED_S
    )
    return asked.stdout.strip()


def main() -> int:
    with tempfile.TemporaryDirectory() as scratch:
        compiler = compile_to(Path(scratch))
        manifest = f"Manifest-Version: 1.0\r\nCompiler: {compiler}\r\nSources: {digest()[:56]}\r\n\r\n"
        entries = {"META-INF/MANIFEST.MF": manifest.encode()}
        for compiled in sorted(Path(scratch).rglob("*.class")):
            entries[compiled.relative_to(scratch).as_posix()] = compiled.read_bytes()
    JAR.parent.mkdir(exist_ok=True)
    with zipfile.ZipFile(JAR, "w") as jar:
        for name, content in entries.items():
            jar.writestr(zipfile.ZipInfo(name), content)
    return 0


if __name__ == "__main__":
    sys.exit(main())
