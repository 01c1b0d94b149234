"""A member's JVM that evaluates SELECTs over one document; run as a program, since a process has one JVM."""

import json
import os
import sys
import threading
from pathlib import Path

from cooperator.connectors.transform import selected
from cooperator.runtime import RuntimeSettings
from cooperator.runtime.session import SparkHost


def main(directory: str, spark_conf: str, document: str, *selects: str) -> None:
    root = Path(directory)
    settings = RuntimeSettings(
        "member", "1", root / "checkpoints", root / "state", spark_conf=json.loads(spark_conf), heap_mb=512
    )
    host = SparkHost(settings, java_options=())
    session = host.session(threading.Event())
    rows = session.createDataFrame([(document,)], "value STRING")
    for select in selects:
        try:
            answer = str(selected(rows, select).collect())
        except Exception as error:
            answer = f"refused: {str(error)[:3000]!r}"
        sys.stdout.write(f"{answer}\n")
    sys.stdout.flush()
    host.close(20)


if __name__ == "__main__":
    # The JVM is in the process group that the caller ends.
    os.setsid()
    main(*sys.argv[1:])
