"""The commands of docs/stock-connect.md work as written."""

import os
import re
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.harness.connect_worker import Refused
from tests.harness.support import eventually
from tests.stock.worker_group import StockGroup

pytestmark = pytest.mark.real

DOCUMENT = Path(__file__).parents[2] / "docs" / "stock-connect.md"
ODD = "My Connector_1"
"""A name that no resource can have."""
EVERYTHING = (f"{ODD}-instance", f"{ODD}-0", f"{ODD}-1", "b-instance", "b-0")


def commands() -> list[str]:
    found = re.search(r"<!-- tried: there -->\n```console\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    assert found
    return [line.removeprefix("$ ") for line in found[1].splitlines()]


def test_a_cluster_is_taken_over_and_given_back_as_it_is_written(stock: StockGroup, tmp_path: Path) -> None:
    first, _ = stock.cluster("w-1", "w-2")
    for name, topic, tasks in ((ODD, "a", 2), ("b", "b", 1)):
        config = {**stock.source(topic, tasks=tasks), "name": name}
        first.ask("connectors", {"name": name, "config": config})
    layout, begun = stock.begun(*EVERYTHING)

    here = {"localhost:9092": stock.bootstrap_servers, "connect-cluster": stock.group_id}
    here |= {f"connect-{kind}": f"{stock.group_id}-{kind}" for kind in ("configs", "offsets", "status")}
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
        eventually(stock.led_by_us, 60, "our leader leads")
        stock.written("a", stock.written("a"))
        quoted = quote(ODD, safe="")
        with pytest.raises(Refused, match="are Connector resources of the operator") as refused:
            first.ask(f"connectors/{quoted}/config", {**config, "name": ODD}, method="PUT")
        assert refused.value.code == 403
        leader.send_signal(signal.SIGTERM)
        assert leader.wait(90) == 0
    finally:
        leader.kill()
    said = (tmp_path / "leader.log").read_text()
    assert "Leading is True" in said
    assert "leads itself again" in said
    stock.led_by_a_worker()
    stock.written("a", stock.written("a"))
    assert stock.runs(*EVERYTHING) == layout
    assert stock.starts() - begun == Counter()
