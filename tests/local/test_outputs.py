"""Manifests of before sharing was refused: the daemon starts one of them, and says why not the other."""

from pathlib import Path

from cooperator.crd import parse
from cooperator.local.host import Host
from cooperator.local.layout import LocalCluster, StateDir
from cooperator.local.view import state_view

MANIFESTS = """
apiVersion: cooperator.dev/v1alpha1
kind: Worker
metadata: {name: lake}
---
apiVersion: cooperator.dev/v1alpha1
kind: Connector
metadata: {name: one}
spec:
  workerRef: {name: lake}
  class: spark
  config: {source.format: rate, sink.format: json, sink.options.path: /out}
---
apiVersion: cooperator.dev/v1alpha1
kind: Connector
metadata: {name: earlier}
spec:
  workerRef: {name: lake}
  class: kafka-to-files
  config: {topics: lines, path: /else}
"""


def test_one_of_two_stored_conflicting_connectors_runs_and_the_other_explains(tmp_path: Path) -> None:
    state = StateDir(tmp_path)
    host = Host(state, LocalCluster("here", bootstrap_servers="127.0.0.1:1"))
    host._store.apply(parse(MANIFESTS, "test"), "test")
    [stored] = state.manifests.glob("*.one.yaml")
    stored.write_text(stored.read_text().replace("/out", "/else/lines-3"))
    host._read(halting=False)
    wanted = host._wanted(False)["default", "lake"]
    assert (len(wanted.connectors), wanted.withheld) == (2, {"one"})

    assert host._stored is not None
    view = state_view(host._stored, {}, 0, host._withheld)
    said = {
        connector["metadata"]["name"]: {c["type"]: c for c in connector["status"]["conditions"]}
        for connector in view["connectors"]
    }
    assert said["one"]["Stalled"]["reason"] == "OutputShared"
    assert "and Connector earlier writes to /else, one inside the other" in said["one"]["Stalled"]["message"]
    assert said["earlier"]["Stalled"]["status"] == "False"
