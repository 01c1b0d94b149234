"""A real OpenTelemetry Collector that gets OTLP over HTTP and has a page for Prometheus; built once."""

import hashlib
import json
import shutil
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from cooperator.local.settings import free_port
from tests.harness.scrapes import Sample, scraped
from tests.harness.support import eventually
from tests.kubernetes.caches import cache_folder, once
from tests.kubernetes.go import NotBuilt, Toolchain

_SOURCES: Final = Path(__file__).parent / "collector"
_GO: Final = Toolchain("the collector was", (1, 25), "install Go 1.25 or later", NotBuilt)


class OtelCollector:
    """Listens at ``url``; ``shown`` is its page for Prometheus. Raises NotBuilt."""

    def __init__(self, directory: Path) -> None:
        self._log = directory / "collector.log"
        receiving, showing = free_port(), free_port()
        self.url = f"http://127.0.0.1:{receiving}"
        self._page = f"http://127.0.0.1:{showing}/"
        config = directory / "collector.json"
        config.write_text(json.dumps(_config(receiving, showing)))
        command = [str(_program()), "--config", f"file:{config}"]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)

    def __enter__(self) -> Self:
        eventually(self._answers, 30)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.wait()

    def shown(self) -> dict[Sample, float]:
        # The exporter makes the label of the sender's service.name.
        return scraped(self._page, without="job")

    def _answers(self) -> bool:
        try:
            self.shown()
        except OSError as error:
            raise AssertionError(f"{error}: {self._log.read_text()[-2000:]}") from None
        return True


def _config(receiving: int, showing: int) -> dict[str, Any]:
    exporter = {"endpoint": f"127.0.0.1:{showing}", "add_metric_suffixes": False, "without_scope_info": True}
    return {
        "receivers": {"otlp": {"protocols": {"http": {"endpoint": f"127.0.0.1:{receiving}"}}}},
        "exporters": {"prometheus": exporter},
        "service": {
            "telemetry": {"metrics": {"level": "none"}},
            "pipelines": {"metrics": {"receivers": ["otlp"], "exporters": ["prometheus"]}},
        },
    }


def _program() -> Path:
    key = hashlib.sha256()
    for source in sorted(_SOURCES.iterdir()):
        key.update(source.read_bytes())
    return once(cache_folder("otel-collector", key.hexdigest()[:12]), _build) / "collector"


def _build(folder: Path) -> None:
    go = _GO.find()
    with tempfile.TemporaryDirectory(prefix="cooperator-collector-") as work:
        sources = Path(work)
        shutil.copy(_SOURCES / "main.go", sources)
        shutil.copy(_SOURCES / "go.mod.template", sources / "go.mod")
        _GO.run([go, "mod", "tidy"], sources)
        _GO.run([go, "build", "-trimpath", "-o", str(folder / "collector"), "."], sources)
