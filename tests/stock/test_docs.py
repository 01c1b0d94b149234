"""The commands of docs/stock-connect.md, as they are typed there."""

import os
import re
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from stock.scene import Scene
from support import eventually

pytestmark = pytest.mark.real

DOCUMENT = Path(__file__).parents[2] / "docs" / "stock-connect.md"
EVERYTHING = ("a-instance", "a-0", "a-1", "b-instance", "b-0")


def commands() -> list[str]:
    found = re.search(r"<!-- tried: there -->\n```console\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    assert found
    return [line.removeprefix("$ ") for line in found[1].splitlines()]


def test_a_cluster_is_taken_over_and_given_back_as_it_is_written(scene: Scene, tmp_path: Path) -> None:
    first, _ = scene.cluster("w-1", "w-2")
    for name, tasks in (("a", 2), ("b", 1)):
        first.ask("connectors", {"name": name, "config": scene.source(name, tasks=tasks)})
    layout, begun = scene.begun(*EVERYTHING)

    here = {"localhost:9092": scene.bootstrap_servers, "connect-cluster": scene.group_id}
    here |= {f"connect-{kind}": f"{scene.group_id}-{kind}" for kind in ("configs", "offsets", "status")}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    import_, plan, lead = (
        re.sub("|".join(here), lambda each: here[each[0]], command) for command in commands()
    )
    for command in (import_, plan):
        done = subprocess.run(
            command, shell=True, cwd=tmp_path, env={**os.environ, "PATH": path}, check=False
        )
        assert done.returncode == 0, command
    with (tmp_path / "leader.log").open("wb") as log:
        leader = subprocess.Popen(
            ["sh", "-c", f"exec {lead}"],
            cwd=tmp_path,
            env={**os.environ, "PATH": path},
            stdout=log,
            stderr=log,
        )
    try:
        eventually(scene.led_by_us, 60, "our leader leads")
        scene.written("a", scene.written("a"))
        leader.send_signal(signal.SIGTERM)
        assert leader.wait(90) == 0
    finally:
        leader.kill()
    assert "leads itself again" in (tmp_path / "leader.log").read_text()
    scene.led_by_a_worker()
    scene.written("a", scene.written("a"))
    assert scene.runs(*EVERYTHING) == layout
    assert scene.starts() - begun == Counter()
