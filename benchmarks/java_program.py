"""Small Java programs that run with Kafka's own classes."""

import os
import subprocess
from pathlib import Path

from cooperator.artifacts import find_java, resolve


def compile_program(program: Path, folder: Path) -> tuple[str, ...]:
    """Compile ``program`` into ``folder``; returns the command that runs it, to be completed by JVM options
    after the first word. Raises RuntimeError if it does not compile.
    """
    classes = os.pathsep.join(map(str, resolve("kafka")))
    [compiler] = resolve("java-compiler")
    java = str(find_java())
    command = [java, "-jar", str(compiler), "-17", "-nowarn", "-cp", classes, "-d", str(folder), str(program)]
    compiled = subprocess.run(command, capture_output=True, text=True, check=False)
    if compiled.returncode:
        raise RuntimeError(f"{program} does not compile:\n{compiled.stderr[-2000:]}")
    return java, "-cp", os.pathsep.join((str(folder), classes)), program.stem
