"""A real Prometheus over one namespace: it scrapes as the chart's monitors say, with the chart's alerts."""

import json
import shutil
import threading
import time
import urllib.parse
import urllib.request
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import yaml

from cooperator.local.settings import free_port
from e2e.node_installation import NodeNamespace
from tests.charts.rendered import EVERYTHING, Release
from tests.kubernetes.api import ApiError
from tests.kubernetes.processes import Server

EVERY_S: Final = 5
"""The scrape interval in seconds."""
_OPERATOR: Final = "cooperator"
VARIABLES: Final = {
    "$__rate_interval": f"{4 * EVERY_S}s",
    "$namespace": ".*",
    "$worker": ".*",
    "$operator": _OPERATOR,
}
"""The dashboard's variables: everything, at the shortest interval that Grafana would use."""
_TARGETS: Final = "targets.json"
_RULES: Final = "rules.yaml"

Series = dict[str, Any]
"""In Prometheus' format: ``metric`` has the labels, ``values`` has pairs of seconds and a number as text."""


class Prometheus:
    """Scrapes operator and members of ``place``. Raises ServerFailed if it does not start."""

    def __init__(self, place: NodeNamespace, folder: Path) -> None:
        if shutil.which("prometheus") is None:
            raise AssertionError("prometheus is not on the PATH: install it (Debian: apt install prometheus)")
        self.namespace = place.namespace
        self._place = place
        self._targets = folder / _TARGETS
        self._over = threading.Event()
        self._follower = threading.Thread(target=self._follow, name="targets", daemon=True)
        (folder / _RULES).write_text(yaml.safe_dump(_rules(place.namespace)))
        config = folder / "prometheus.yaml"
        config.write_text(yaml.safe_dump(_config(place, folder)))
        self.began_s = time.time()
        self._url = f"http://127.0.0.1:{(port := free_port())}"
        self._server = Server(
            "prometheus",
            [
                "prometheus",
                f"--config.file={config}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address=127.0.0.1:{port}",
            ],
            folder / "prometheus.log",
        )

    def __enter__(self) -> Self:
        self._server.start()
        self._server.wait_until(self._is_ready)
        self._follower.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._follower.join()
        self._server.kill()

    def _follow(self) -> None:
        """Update the targets as members come and go."""
        while not self._over.wait(2):
            with suppress(ApiError, OSError):
                whole = self._targets.with_suffix(".new")
                whole.write_text(json.dumps(_targets(self._place)))
                whole.replace(self._targets)

    def over_time(self, query: str) -> list[Series]:
        """All values since the start; ``query`` may contain the dashboard's variables."""
        for name, value in VARIABLES.items():
            query = query.replace(name, value)
        asked = {"query": query, "start": self.began_s, "end": time.time(), "step": EVERY_S}
        found: list[Series] = self._ask("query_range", asked)["result"]
        return found

    def rules(self) -> list[dict[str, Any]]:
        """The alerts' ``name``, ``health`` and ``state``, as evaluated last."""
        return [rule for group in self._ask("rules", {})["groups"] for rule in group["rules"]]

    def fired(self) -> set[str]:
        """Names of alerts that have fired since the start."""
        return {series["metric"]["alertname"] for series in self.over_time('ALERTS{alertstate="firing"}')}

    def _ask(self, what: str, asked: dict[str, Any]) -> dict[str, Any]:
        words = urllib.parse.urlencode(asked)
        with urllib.request.urlopen(f"{self._url}/api/v1/{what}?{words}", timeout=30) as answer:
            data: dict[str, Any] = json.load(answer)["data"]
            return data

    def _is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self._url}/-/ready", timeout=5):
                return True
        except OSError:
            return False


def _rules(namespace: str) -> dict[str, Any]:
    manifest = Release(_OPERATOR, namespace).one("PrometheusRule", EVERYTHING)
    return {"groups": manifest["spec"]["groups"]}


def _config(place: NodeNamespace, folder: Path) -> dict[str, Any]:
    """The configuration. Prometheus scrapes through the API server, which also reaches pods that this machine
    cannot.

    Targets come from a file: not every Prometheus can query Kubernetes (Debian's cannot).
    """
    kubeconfig = yaml.safe_load(place.cluster.kubeconfig.read_text())
    server, user = kubeconfig["clusters"][0]["cluster"], kubeconfig["users"][0]["user"]
    found = {
        "job_name": "pods",
        "scheme": "https",
        "honor_labels": True,
        "tls_config": {
            "ca_file": str(server["certificate-authority"]),
            "cert_file": str(user["client-certificate"]),
            "key_file": str(user["client-key"]),
        },
        "file_sd_configs": [{"files": [str(folder / _TARGETS)]}],
        "relabel_configs": [
            {"source_labels": ["__address__"], "target_label": "__metrics_path__"},
            {"target_label": "__address__", "replacement": server["server"].removeprefix("https://")},
        ],
    }
    return {
        "global": {"scrape_interval": f"{EVERY_S}s", "evaluation_interval": f"{EVERY_S}s"},
        "rule_files": [str(folder / _RULES)],
        "scrape_configs": [found],
    }


def _targets(place: NodeNamespace) -> list[dict[str, Any]]:
    """The targets with the labels that a Prometheus Operator derives from the chart's monitors.

    Instead of an address, each has its path below the API server's.
    """
    found = []
    for name, pod in place.pods().items():
        worker = pod["metadata"].get("labels", {}).get("cooperator.dev/worker")
        wanted = "member" if worker else "health"
        ports = [port for each in pod["spec"]["containers"] for port in each.get("ports", ())]
        for port in [port["containerPort"] for port in ports if port.get("name") == wanted]:
            path = f"/api/v1/namespaces/{place.namespace}/pods/{name}:{port}/proxy/metrics"
            labels = {"namespace": place.namespace, "pod": name, "instance": name}
            more = {"worker": worker, "job": "members"} if worker else {"job": _OPERATOR}
            found.append({"targets": [path], "labels": {**labels, **more}})
    return found
